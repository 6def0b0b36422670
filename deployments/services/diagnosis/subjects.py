"""What a diagnosis looks at: the files on the node, or those that the node would be given."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from console.errors import CovenantError
from deployments.adapters import repository
from deployments.models import Diagnosis
from deployments.rules.diagnosis.findings import Finding
from deployments.rules.diagnosis.onnx_check import FileSeen
from deployments.services.fleet.node_files import version_files

MOST_FILES = 50
_CHUNK = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Subject:
    """One version as it lies somewhere.

    `files` are those of the version's folder, `beside` those of the Triton model's (warm-up);
    `signed` and `signed_config` are the SHA-256 digests that they must have. `faults` is what was
    found while they were gathered.
    """

    triton_model: str
    number: int
    root: Path
    on_node: bool
    config: str | None
    files: dict[str, Path]
    beside: dict[str, Path | bytes]
    signed: dict[str, str]
    signed_config: dict[str, str]
    faults: list[Finding] = field(default_factory=list)

    @property
    def folder(self) -> Path:
        """The Triton model's folder in the node's repository, whether it is there or not."""
        return self.root / self.triton_model

    @property
    def size(self) -> int:
        """Bytes of the version's files."""
        return sum(path.stat().st_size for path in self.files.values() if path.is_file())

    def warmup_size(self, name: str) -> int | None:
        """Bytes of a warm-up file, None when it is missing."""
        source = self.beside.get(f"warmup/{name}")
        if source is None:
            return None
        return len(source) if isinstance(source, bytes) else source.stat().st_size


@contextmanager
def opened(diagnosis: Diagnosis) -> Iterator[Subject]:
    """The subject while its files can be read; what is on the node stands before what is stored."""
    version, node, deployment = diagnosis.version, diagnosis.node, diagnosis.deployment
    triton_model = (
        deployment.generation.triton_model if deployment is not None else version.model.name
    )
    root = Path(node.repository)
    digests = deployment.release.digests if deployment is not None else _own_digests(diagnosis)
    with ExitStack() as stack:
        faults: list[Finding] = []
        signed: dict[str, str] = {}
        signed_config: dict[str, str] = {}
        config, files = None, {}
        beside: dict[str, Path | bytes] = {}
        try:
            parts = stack.enter_context(
                version_files(version, signed=digests, triton_model=triton_model, gpus=node.gpus)
            )
            signed = {part.path: part.sha256 for part in parts.files}
            signed_config = {part.path: part.sha256 for part in parts.config}
            files = {
                part.path: part.source for part in parts.files if isinstance(part.source, Path)
            }
            beside = {part.path: part.source for part in parts.config[1:]}
            first = parts.config[0].source
            config = first.decode() if isinstance(first, bytes) else None
        except CovenantError as error:
            faults.append(_of_store(error))
        on_node = (root / triton_model / str(version.number)).is_dir()
        if on_node:
            config = _text(root / triton_model / repository.CONFIG)
            files = _version_files(root / triton_model / str(version.number))
            beside = _beside(root / triton_model)
        yield Subject(
            triton_model,
            version.number,
            root,
            on_node,
            config,
            files,
            beside,
            signed,
            signed_config,
            faults,
        )


def seen(subject: Subject, check: Callable[[], None]) -> dict[str, FileSeen]:
    """Each file of the version with its digest; `check` is called while reading and may raise."""
    found = {}
    for name, path in subject.files.items():
        try:
            size = path.stat().st_size
            digest = _digest(path, check)
        except OSError:
            size, digest = 0, ""
        found[name] = FileSeen(size, digest, link=subject.on_node and path.is_symlink())
    return found


def config_differs(subject: Subject) -> Finding | None:
    """Whether the configuration on the node is not the one that was signed."""
    wanted = subject.signed_config.get(repository.CONFIG)
    if not subject.on_node or wanted is None or subject.config is None:
        return None
    found = hashlib.sha256(subject.config.encode()).hexdigest()
    if found == wanted:
        return None
    return Finding("config_differs", "bad", {"found": found[:12], "signed": wanted[:12]})


def _own_digests(diagnosis: Diagnosis) -> dict[str, str]:
    version = diagnosis.version
    named = {"onnx": version.onnx, "config": version.config, "onnx_data": version.onnx_data}
    return {name: one.sha256 for name, one in named.items() if one is not None}


def _of_store(error: CovenantError) -> Finding:
    code = "signed_file_replaced" if error.code == "digest_mismatch" else "stored_file_missing"
    return Finding(code, "bad", {"said": error.message, "name": ""}, error.message)


def _text(path: Path) -> str | None:
    try:
        return path.read_bytes().decode("utf-8", "replace")
    except OSError:
        return None


def _version_files(folder: Path) -> dict[str, Path]:
    found = sorted(path for path in folder.rglob("*") if not path.is_dir())[:MOST_FILES]
    return {str(path.relative_to(folder)): path for path in found}


def _beside(folder: Path) -> dict[str, Path | bytes]:
    warmup = folder / "warmup"
    names = sorted(os.listdir(warmup))[:MOST_FILES] if warmup.is_dir() else []
    return {f"warmup/{name}": warmup / name for name in names if (warmup / name).is_file()}


def _digest(path: Path, check: Callable[[], None]) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as source:
        while chunk := source.read(_CHUNK):
            digest.update(chunk)
            check()
    return digest.hexdigest()
