"""A `ModelConfig` message in the plain terms of the rules of diagnosis."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from tritonclient.grpc.model_config_pb2 import DataType, ModelInstanceGroup
from tritonclient.utils import triton_to_np_dtype

from deployments.rules.diagnosis.config_check import (
    ConfigFacts,
    ConfigTensor,
    Group,
    WarmupFile,
)

MOST_FIELDS = 2000
_KINDS = {
    ModelInstanceGroup.Kind.KIND_AUTO: "auto",
    ModelInstanceGroup.Kind.KIND_GPU: "gpu",
    ModelInstanceGroup.Kind.KIND_CPU: "cpu",
    ModelInstanceGroup.Kind.KIND_MODEL: "model",
}


def facts_of(config: Any, *, size_of: Callable[[str], int | None]) -> ConfigFacts:
    """What the message says; `size_of` gives the bytes of a file below warmup/, None if missing."""
    batching = config.dynamic_batching if config.HasField("dynamic_batching") else None
    libraries = config.model_operations.op_library_filename
    return ConfigFacts(
        name=config.name,
        platform=config.platform,
        backend=config.backend,
        max_batch_size=config.max_batch_size,
        inputs=tuple(_tensor(one) for one in config.input),
        outputs=tuple(_tensor(one) for one in config.output),
        groups=tuple(
            Group(_KINDS.get(one.kind, "auto"), one.count, tuple(one.gpus))
            for one in config.instance_group
        ),
        preferred=tuple(batching.preferred_batch_size) if batching is not None else (),
        versions=_versions(config),
        warmup=tuple(_warmup(config, size_of)),
        missing_libraries=tuple(path for path in libraries if not Path(path).is_file()),
    )


def fields_of(config: Any) -> dict[str, str]:
    """Every field that is set, by its path ("dynamic_batching.preferred_batch_size[0]")."""
    found: dict[str, str] = {}
    _walk(config, "", found)
    return found


def _tensor(message: Any) -> ConfigTensor:
    word = DataType.Name(message.data_type).removeprefix("TYPE_")
    reshape = tuple(message.reshape.shape) if message.HasField("reshape") else None
    return ConfigTensor(
        message.name, "BYTES" if word == "STRING" else word, tuple(message.dims), reshape
    )


def _versions(config: Any) -> tuple[int, ...] | None:
    """Those of `specific`; `all` and `latest` may load any."""
    if config.version_policy.WhichOneof("policy_choice") != "specific":
        return None
    return tuple(config.version_policy.specific.versions)


def _warmup(config: Any, size_of: Callable[[str], int | None]) -> list[WarmupFile]:
    found = []
    for request in config.model_warmup:
        for tensor in request.inputs.values():
            if not tensor.input_data_file:
                continue
            word = DataType.Name(tensor.data_type).removeprefix("TYPE_")
            dtype = triton_to_np_dtype("BYTES" if word == "STRING" else word)
            width = 1 if dtype is None or word == "STRING" else int(dtype().itemsize)
            expected = 0 if word == "STRING" else math.prod(tensor.dims) * width
            name = tensor.input_data_file
            found.append(WarmupFile(name, expected, size_of(name)))
    return found


def _walk(message: Any, path: str, found: dict[str, str]) -> None:
    for field, value in message.ListFields():
        here = f"{path}.{field.name}" if path else field.name
        entry = field.message_type is not None and field.message_type.GetOptions().map_entry
        if entry:
            for key in sorted(value):
                _put(value[key], f"{here}[{key}]", found)
        elif field.label == FieldDescriptor.LABEL_REPEATED:
            for index, one in enumerate(value):
                _put(one, f"{here}[{index}]", found, field)
        else:
            _put(value, here, found, field)


def _put(value: Any, path: str, found: dict[str, str], field: Any = None) -> None:
    if len(found) >= MOST_FIELDS:
        return
    if hasattr(value, "ListFields"):
        before = len(found)
        _walk(value, path, found)
        if len(found) == before:
            found[path] = "{}"
    elif field is not None and field.enum_type is not None:
        named = field.enum_type.values_by_number.get(value)
        found[path] = named.name if named is not None else str(value)
    else:
        found[path] = str(value)
