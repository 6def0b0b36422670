"""The files of a placement: what was signed, in the form that its node loads."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tritonclient.utils import triton_to_np_dtype

from console.errors import Conflict, Invalid
from deployments.adapters.repository import CONFIG, FilePart
from deployments.models import Placement
from models_registry.adapters import triton_config
from models_registry.models import Artifact, ModelVersion
from models_registry.services import artifacts


@dataclass(frozen=True, slots=True)
class NodeFiles:
    """`config` begins with config.pbtxt; `files` go into the version's folder."""

    config: tuple[FilePart, ...]
    files: tuple[FilePart, ...]
    digests: dict[str, str]


@dataclass(frozen=True, slots=True)
class SignedFiles:
    """What should lie on a node: paths with their SHA-256 in hex."""

    config: dict[str, str]
    files: dict[str, str]


def signed_files(placement: Placement) -> SignedFiles:
    """What a placement's files must be, without fetching the large ones.

    Raises Conflict `digest_mismatch` as `node_files` does.
    """
    config, model, _ = _parts(placement)
    return SignedFiles(
        config={part.path: part.sha256 for part in config},
        files={name: artifact.sha256 for name, artifact in model.items()},
    )


@contextmanager
def node_files(placement: Placement) -> Iterator[NodeFiles]:
    """The parts of a placement while their local copies exist.

    Raises Conflict `digest_mismatch` when a file of the version is not the one that the release's
    approvals signed.
    """
    with _opened(*_parts(placement)) as files:
        yield files


@contextmanager
def version_files(
    version: ModelVersion, *, signed: dict[str, str], triton_model: str, gpus: Sequence[int]
) -> Iterator[NodeFiles]:
    """The same of a version that need not be placed anywhere: what a node would be given.

    Raises Conflict `digest_mismatch` where a file is not the one of these digests.
    """
    with _opened(*_parts_of(version, signed, triton_model, gpus)) as files:
        yield files


@contextmanager
def _opened(
    parts: list[FilePart], model: dict[str, Artifact], digests: dict[str, str]
) -> Iterator[NodeFiles]:
    with ExitStack() as opened:
        files = [
            FilePart(
                name,
                Path(opened.enter_context(artifacts.local_path(artifact))),
                artifact.sha256,
                artifact.size,
            )
            for name, artifact in model.items()
        ]
        yield NodeFiles(config=tuple(parts), files=tuple(files), digests=digests)


def _parts(
    placement: Placement,
) -> tuple[list[FilePart], dict[str, Artifact], dict[str, str]]:
    """Configuration, model files by name, and the digests that a placement notes."""
    deployment = placement.deployment
    release = deployment.release
    return _parts_of(
        release.version,
        release.digests,
        deployment.generation.triton_model,
        placement.node.gpus,
    )


def _parts_of(
    version: ModelVersion, signed: dict[str, str], triton_model: str, gpus: Sequence[int]
) -> tuple[list[FilePart], dict[str, Artifact], dict[str, str]]:
    onnx = _signed("onnx", version.onnx, signed)
    config = _signed("config", version.config, signed)
    text = artifacts.read_bytes(config).decode()
    placed = triton_config.specialise(text, triton_model=triton_model, gpus=gpus)
    parts = [FilePart.of_bytes(CONFIG, placed.encode())]
    parts += [FilePart.of_bytes(*item) for item in _warmup_files(text, version).items()]
    model = {triton_config.MODEL_FILE: onnx}
    digests = {"onnx": onnx.sha256, "config": config.sha256, "placed_config": parts[0].sha256}
    if version.onnx_data is not None or "onnx_data" in signed:
        data = _signed("onnx_data", version.onnx_data, signed)
        model[triton_config.DATA_FILE] = data
        digests["onnx_data"] = data.sha256
    return parts, model, digests


def recorded_sample(version: ModelVersion) -> dict[str, Any] | None:
    """The request and answer recorded at validation; None when the version has none."""
    if version.sample is None:
        return None
    sample: dict[str, Any] = json.loads(artifacts.read_bytes(version.sample))
    return sample if "expected" in sample else None


def _signed(name: str, artifact: Artifact | None, signed: dict[str, str]) -> Artifact:
    if artifact is None or artifact.sha256 != signed.get(name):
        raise Conflict(
            f"The version's {name} file is not the one that the release's approvals signed.",
            code="digest_mismatch",
            hint="Ask for a new release of this version.",
        )
    return artifact


def _warmup_files(config_text: str, version: ModelVersion) -> dict[str, bytes]:
    """Path -> raw bytes of each input that the configuration's warm-up reads from a file."""
    wanted = [
        (tensor.input_data_file, name, list(tensor.dims))
        for warmup in triton_config.parse(config_text).model_warmup
        for name, tensor in warmup.inputs.items()
        if tensor.input_data_file
    ]
    if not wanted:
        return {}
    sample = recorded_sample(version) or {}
    inputs = {one["name"]: one for one in sample.get("request", {}).get("inputs", [])}
    return {
        f"{triton_config.WARMUP_FOLDER}/{file}": _first_row(inputs, name, dims)
        for file, name, dims in wanted
    }


def _first_row(inputs: dict[str, Any], name: str, dims: list[int]) -> bytes:
    """Little-endian bytes of the recorded input's first row, as Triton's warm-up reads them."""
    if name not in inputs:
        raise Invalid(
            f"The recorded sample has no input {name}, which the warm-up needs.",
            code="sample_incomplete",
            hint="Validate the version again with a complete sample.",
        )
    tensor = inputs[name]
    dtype = np.dtype(triton_to_np_dtype(tensor["datatype"]))
    values = np.asarray(tensor["data"], dtype=dtype).reshape(-1)[: math.prod(dims)]
    return values.astype(dtype.newbyteorder("<")).tobytes()
