"""Whether a config.pbtxt is one that Triton takes strictly, and fits the graph beside it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from deployments.rules.diagnosis.findings import Finding
from models_registry.exporting.protocol import TensorSpec

PLATFORMS: Final = ("onnxruntime_onnx", "")
BACKENDS: Final = ("onnxruntime", "")


@dataclass(frozen=True, slots=True)
class ConfigTensor:
    """An input or output as configured: v2 datatype ("FP32"), dims without the batch, reshape."""

    name: str
    dtype: str
    dims: tuple[int, ...]
    reshape: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Group:
    """Instances of one kind: "auto", "cpu", "gpu" or "model"."""

    kind: str
    count: int
    gpus: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class WarmupFile:
    """A file below warmup/ that the configuration reads, and the bytes that it must have."""

    name: str
    expected: int
    present: int | None


@dataclass(frozen=True, slots=True)
class ConfigFacts:
    """What a config.pbtxt says, as far as loading depends on it.

    `versions` are those that its version policy loads at most; None for all. `missing_libraries`
    are custom operator libraries that are not on this machine.
    """

    name: str
    platform: str = ""
    backend: str = ""
    max_batch_size: int = 0
    inputs: tuple[ConfigTensor, ...] = ()
    outputs: tuple[ConfigTensor, ...] = ()
    groups: tuple[Group, ...] = ()
    preferred: tuple[int, ...] = ()
    versions: tuple[int, ...] | None = None
    warmup: tuple[WarmupFile, ...] = ()
    missing_libraries: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GraphFacts:
    """A graph's own inputs and outputs; `optional` inputs have a value of their own."""

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    optional: frozenset[str] = field(default_factory=frozenset)


def unreadable(message: str, text: str) -> Finding:
    """Of a text that is no ModelConfig: which line, and whether a field is simply unknown."""
    unknown = _unknown_field(message)
    line = _line_number(message)
    data: dict[str, object] = {"line": line} if line else {}
    if unknown:
        return Finding(
            "config_unknown_field", "bad", {**data, "field": unknown}, _around(text, line)
        )
    return Finding("config_unreadable", "bad", {**data, "said": message}, _around(text, line))


def check(
    config: ConfigFacts,
    *,
    folder: str,
    number: int,
    gpus: Sequence[int],
    graph: GraphFacts | None,
) -> list[Finding]:
    """Everything in a configuration that keeps version `number` from loading.

    `folder` is what the model's folder is called, `gpus` those of the node; without a `graph`
    (damaged, or not looked into) its tensors are not compared.
    """
    found = [*_frame(config, folder, number), *_places(config, gpus), *_warmup(config)]
    if graph is not None:
        found += _tensors(config, graph)
    if not any(one.verdict == "bad" for one in found):
        what = {"inputs": len(config.inputs), "outputs": len(config.outputs)}
        found.append(Finding("config_fits" if graph else "config_reads", "good", what))
    return found


def completed(written: Mapping[str, str], loaded: Mapping[str, str]) -> Finding | None:
    """What Triton filled in by itself: fields of the loaded configuration that nobody wrote."""
    added = {path: value for path, value in loaded.items() if path not in written}
    changed = {
        path: f"{written[path]} → {value}"
        for path, value in loaded.items()
        if path in written and written[path] != value
    }
    if not added and not changed:
        return None
    lines = [f"+ {path}: {value}" for path, value in sorted(added.items())]
    lines += [f"~ {path}: {value}" for path, value in sorted(changed.items())]
    return Finding("config_completed", "good", {"fields": len(lines)}, "\n".join(lines))


def _frame(config: ConfigFacts, folder: str, number: int) -> Iterator[Finding]:
    if config.name not in ("", folder):
        yield Finding("config_name_differs", "bad", {"name": config.name, "folder": folder})
    if config.platform not in PLATFORMS or config.backend not in BACKENDS:
        yield Finding("platform_unknown", "bad", {"platform": config.platform or config.backend})
    if not config.platform and not config.backend:
        yield Finding("platform_unknown", "bad", {"platform": ""})
    if config.versions is not None and number not in config.versions:
        shown = ", ".join(str(one) for one in config.versions) or "—"
        yield Finding("version_left_out", "bad", {"number": number, "versions": shown})
    too_large = [size for size in config.preferred if size > config.max_batch_size]
    if too_large:
        data = {"size": too_large[0], "most": config.max_batch_size}
        yield Finding("preferred_too_large", "bad", data)


def _places(config: ConfigFacts, gpus: Sequence[int]) -> Iterator[Finding]:
    for group in config.groups:
        if group.kind != "gpu":
            continue
        if not gpus:
            yield Finding("gpu_missing", "bad")
        for gpu in sorted(set(group.gpus) - set(gpus)) if gpus else ():
            known = ", ".join(str(one) for one in sorted(gpus))
            yield Finding("gpu_unknown", "bad", {"gpu": gpu, "gpus": known})
    for path in config.missing_libraries:
        yield Finding("operator_library_missing", "bad", {"path": path})


def _warmup(config: ConfigFacts) -> Iterator[Finding]:
    for one in config.warmup:
        if one.present is None:
            yield Finding("warmup_missing", "bad", {"path": f"warmup/{one.name}"})
        elif one.present < one.expected:
            data = {"name": one.name, "expected": one.expected, "present": one.present}
            yield Finding("warmup_differs", "bad", data)


def _tensors(config: ConfigFacts, graph: GraphFacts) -> Iterator[Finding]:
    batched = config.max_batch_size > 0
    for role, configured, real in (
        ("input", config.inputs, graph.inputs),
        ("output", config.outputs, graph.outputs),
    ):
        specs = {spec.name: spec for spec in real}
        for tensor in configured:
            spec = specs.get(tensor.name)
            if spec is None:
                known = ", ".join(sorted(specs))
                yield Finding(f"{role}_unknown", "bad", {"tensor": tensor.name, "known": known})
            else:
                yield from _tensor(tensor, spec, batched=batched)
        if role == "input":
            given = {tensor.name for tensor in configured} | graph.optional
            for name in sorted(set(specs) - given):
                yield Finding("input_missing", "bad", {"tensor": name})


def _tensor(tensor: ConfigTensor, spec: TensorSpec, *, batched: bool) -> Iterator[Finding]:
    if tensor.dtype != spec.dtype:
        data = {"tensor": tensor.name, "configured": tensor.dtype, "real": spec.dtype}
        yield Finding("dtype_differs", "bad", data)
    dims = tensor.dims if tensor.reshape is None else tensor.reshape
    wanted = (-1, *dims) if batched else dims
    if batched and spec.shape and spec.shape[0] != -1:
        yield Finding("batch_axis_fixed", "bad", {"tensor": tensor.name, "size": spec.shape[0]})
        wanted = (spec.shape[0], *dims)
    # A plain number is configured as [1]: Triton wants one dimension at least.
    scalar = not batched and spec.shape == () and dims == (1,)
    if not scalar and not _fits(wanted, spec.shape):
        shown = {"tensor": tensor.name, "configured": list(wanted), "real": list(spec.shape)}
        yield Finding("dims_differ", "bad", shown)


def _fits(configured: tuple[int, ...], real: tuple[int, ...]) -> bool:
    if len(configured) != len(real):
        return False
    return all(
        -1 in (one, other) or one == other for one, other in zip(configured, real, strict=True)
    )


def _unknown_field(message: str) -> str:
    _before, found, rest = message.partition('no field named "')
    return rest.partition('"')[0] if found else ""


def _line_number(message: str) -> int:
    head = message.partition(":")[0].strip()
    return int(head) if head.isdecimal() else 0


def _around(text: str, line: int) -> str:
    """The line with its neighbours, numbered."""
    lines = text.splitlines()
    if not line:
        return text[:2000]
    first = max(0, line - 4)
    shown = enumerate(lines[first : line + 3], start=first + 1)
    return "\n".join(f"{'→' if at == line else ' '} {at:4d}  {content}" for at, content in shown)
