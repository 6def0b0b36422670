"""What a PyTorch file's inputs are: from a sample, from forward, and from what runs.

Nothing in these files says shapes. With a sample they are the sample's; without one, a few shapes
that fit the first layer are tried, and the first that runs is proposed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import torch

from models_registry.exporting import module_code, proposing, torch_pickles, torch_sources
from models_registry.exporting.module_source import Code
from models_registry.exporting.proposing import Clock
from models_registry.exporting.protocol import Json, Refused, TensorSpec
from models_registry.exporting.sampling import Array, Feeds
from models_registry.exporting.torch_sources import (
    PICKLED_MODULE,
    TORCH_EXPORT,
    TORCHSCRIPT,
    TorchSource,
)
from models_registry.rules import tensors

_BATCH: Final = 2
_SEQUENCE: Final = 8
_IMAGE_SIDES: Final = (64, 224, 32, 28, 299, 16)
_SIGNAL_LENGTHS: Final = (1024, 16_000, 100)
_MASKS: Final = ("mask", "type", "segment")


def proposal(
    kind: str, path: Any, code: Code | None, sample: dict[str, Array] | None, clock: Clock
) -> Json:
    """The answer of program `propose` for TorchScript, or a state dict with its source."""
    module, arguments, notes = _opened(kind, path, code)
    if sample is not None:
        return _by_sample(kind, module, arguments, sample, notes, clock)
    names = [name for name in arguments if name]
    if not names:
        return proposing.answer(
            [], [], [*notes, "forward does not name its inputs: describe them."]
        )
    tried = list(_guesses(module, names))
    for guess in tried:
        if clock.is_over:
            break
        found = _run(kind, module, guess.specs, None, clock)
        if found is not None:
            inputs, outputs, said = found
            first = (
                f"The shapes are a proposal: {guess.why}, and the model runs on them. "
                "Check them, or add a sample of real inputs."
            )
            return proposing.answer(inputs, outputs, [*notes, first, *said])
    what = "none of the shapes that were tried runs" if tried else "its first layer tells no shape"
    notes.append(
        f"The file names its inputs, not their shapes and data types, and {what}: fill them in, or "
        "add a sample of real inputs."
    )
    return proposing.answer([TensorSpec(name, "FP32") for name in names], [], notes)


def _opened(kind: str, path: Any, code: Code | None) -> tuple[Any, list[str], list[str]]:
    """The module, the names of forward's tensors that must be given, and notes."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    torch_sources.refuse_unsafe(path)
    if kind == TORCHSCRIPT:
        if code is not None:
            module_code.register_operators(code)
        opened = torch_sources.script(path)
        names, notes = [], []
        for argument in opened.forward.schema.arguments[1:]:
            if str(argument.type) == "Tensor" and not argument.has_default_value():
                names.append(str(argument.name))
            elif str(argument.type) != "Tensor" and not argument.has_default_value():
                notes.append(
                    f"The argument “{argument.name}” of forward is a {argument.type} and no tensor."
                )
        return opened, names, notes
    if code is None:
        raise ValueError(f"{kind} is opened with its module's source")
    if kind == PICKLED_MODULE:
        module = torch_pickles.load(path, code)
    else:
        module = module_code.build(code, torch_sources.tensors_of(kind, path))
    notes = [] if code.name else [f"The weights fit the class {type(module).__name__}."]
    return module, torch_sources.needed_arguments(module), notes


def _by_sample(
    kind: str,
    module: Any,
    arguments: Sequence[str],
    sample: dict[str, Array],
    notes: list[str],
    clock: Clock,
) -> Json:
    """Names, types and sizes of the sample, and which of the sizes are free."""
    known = list(arguments)
    order = [name for name in known if name in sample]
    if set(sample) != set(order):
        order = list(sample)
    described = tuple(proposing.described(name, sample[name]) for name in order)
    opened = proposing.opened_axes(described)
    feeds = {name: sample[name] for name in order}
    try:
        inputs, outputs, said = proposing.explored(
            _source(kind, module, opened).run, opened, feeds, clock
        )
    except Refused as refused:
        said = [f"The model does not run on the sample: {refused.refusal.message}"]
        return proposing.answer(described, [], [*notes, *said])
    return proposing.answer(inputs, outputs, [*notes, *said])


def _source(kind: str, module: Any, specs: Sequence[TensorSpec]) -> TorchSource:
    return TorchSource(kind, module, tuple(spec.name for spec in specs))


def _run(
    kind: str, module: Any, specs: Sequence[TensorSpec], sample: Feeds | None, clock: Clock
) -> tuple[tuple[TensorSpec, ...], tuple[TensorSpec, ...], list[str]] | None:
    """What exploring finds, or None when the model does not run at these very sizes."""
    opened = proposing.opened_axes(specs)
    source = _source(kind, module, opened)
    try:
        # At the guessed sizes only: the search for other ones belongs to the export.
        source.run(proposing.drawn(opened))
        return proposing.explored(source.run, opened, sample, clock)
    except MemoryError:
        raise
    except Exception:  # noqa: BLE001 - whatever it complains of: this guess was wrong
        return None


@dataclass(frozen=True, slots=True)
class _Guess:
    specs: tuple[TensorSpec, ...]
    why: str


def _guesses(module: Any, names: Sequence[str]) -> Iterator[_Guess]:
    """Inputs that the first layer with weights would take, most likely ones first."""
    layer = next(_layers(module), None)
    if layer is None:
        return
    kind, weight = layer
    dtype = _float_of(weight)
    for spec, why in _shapes(kind, weight, dtype, _mentions_bytes(module)):
        yield _Guess(tuple(_for_argument(spec, name) for name in names), why)


def _for_argument(spec: TensorSpec, name: str) -> TensorSpec:
    named = replace(spec, name=name)
    if spec.dtype == "INT64" and any(word in name.lower() for word in _MASKS):
        return replace(named, minimum=0.0, maximum=1.0)
    return named


def _layers(module: Any) -> Iterator[tuple[str, torch.Tensor]]:
    for _, part in module.named_modules():
        kind = str(getattr(part, "original_name", type(part).__name__))
        for name in ("weight", "weight_ih_l0", "weight_ih"):
            weight = getattr(part, name, None)
            if isinstance(weight, torch.Tensor) and weight.ndim:
                yield kind, weight
                break


def _float_of(weight: torch.Tensor) -> str:
    return {torch.float64: "FP64", torch.float16: "FP16"}.get(weight.dtype, "FP32")


def _mentions_bytes(module: Any) -> bool:
    """Whether a script divides by 255, as models do that take images of bytes."""
    try:
        return "255" in str(module.code)
    except (AttributeError, RuntimeError):
        return False


def _shapes(
    kind: str, weight: torch.Tensor, dtype: str, by_bytes: bool
) -> Iterator[tuple[TensorSpec, str]]:
    size = int(weight.shape[1]) if weight.ndim > 1 else int(weight.shape[0])
    if "Embedding" in kind:
        top = float(weight.shape[0] - 1)
        why = f"the first layer looks up {weight.shape[0]} entries"
        yield TensorSpec("", "INT64", (_BATCH, _SEQUENCE), ("", ""), 0.0, top), why
        yield TensorSpec("", "INT64", (_BATCH,), ("",), 0.0, top), why
    elif weight.ndim == 4:
        why = f"the first layer is a convolution of {size} channels"
        for side in _IMAGE_SIDES:
            if by_bytes:
                yield _spec("UINT8", _BATCH, side, side, size), why
                yield _spec("UINT8", _BATCH, size, side, side), why
            yield _spec(dtype, _BATCH, size, side, side), why
            yield _spec(dtype, _BATCH, side, side, size), why
    elif weight.ndim == 3:
        why = f"the first layer is a convolution of {size} channels"
        for length in _SIGNAL_LENGTHS:
            yield _spec(dtype, _BATCH, size, length), why
            if size == 1:
                yield _spec(dtype, _BATCH, length), why
    else:
        why = f"the first layer takes {size} values"
        yield _spec(dtype, _BATCH, size), why
        yield _spec(dtype, _BATCH, _SEQUENCE, size), why
        if weight.ndim == 1:
            yield _spec(dtype, _BATCH, size, 32, 32), why


def _spec(dtype: str, *shape: int) -> TensorSpec:
    return TensorSpec("", dtype, shape, ("",) * len(shape))


def program_inputs(program: Any) -> Json:
    """The answer for a torch.export program, which knows its shapes and data types."""
    values = {node.name: node.meta.get("val") for node in program.graph.nodes}
    inputs = [
        _meta(str(name), values.get(str(name))) for name in program.graph_signature.user_inputs
    ]
    outputs = [
        _meta(f"output_{index}", values.get(str(name)))
        for index, name in enumerate(program.graph_signature.user_outputs)
    ]
    given = proposing.renamed([spec for spec in inputs if spec is not None])
    made = [spec for spec in outputs if spec is not None]
    named = _named_outputs(program, given)
    if len(named) == len(made):
        made = [replace(spec, name=name) for spec, name in zip(made, named, strict=True)]
    return proposing.answer(given, made, [])


def _named_outputs(program: Any, given: Sequence[TensorSpec]) -> list[str]:
    """What the export will call the outputs: the program returns them by key or in order."""
    sized = [
        replace(spec, shape=tuple(_SEQUENCE if size == -1 else size for size in spec.shape))
        for spec in given
    ]
    source = TorchSource(TORCH_EXPORT, program.module(), tuple(spec.name for spec in given))
    try:
        return [name for name, _ in source.run(proposing.drawn(sized))]
    except MemoryError:
        raise
    except Exception:  # noqa: BLE001 - it may not run on what was drawn; the export will say so
        return []


def _meta(name: str, value: Any) -> TensorSpec | None:
    """From the fake tensor that torch.export keeps for each value; symbolic sizes are free."""
    if value is None or not hasattr(value, "shape"):
        return None
    shape = tuple(size if isinstance(size, int) else -1 for size in value.shape)
    dims = tuple(
        "" if size != -1 else tensors.BATCH if axis == 0 else f"dim_{axis}"
        for axis, size in enumerate(shape)
    )
    try:
        dtype = tensors.dtype(str(value.dtype))
    except ValueError as error:
        raise Refused(
            "dtype_not_supported",
            f"“{name}”: {error}.",
            "Cast it to FP32 or FP16 inside the model.",
            "/inputs",
        ) from error
    return TensorSpec(name, dtype, shape, dims)
