"""What changes for callers in the tensors they send and get."""

from __future__ import annotations

from collections.abc import Iterator

from console.rules.canonical import pointer_of
from models_registry.rules.contract_changes import Change, Effect, change
from models_registry.rules.contract_terms import (
    Value,
    Word,
    gettext_noop,
    number_text,
    range_text,
    shape_text,
)
from models_registry.rules.contract_types import ContractDocument, Interface, Tensor

_INPUT = Word(gettext_noop("Input"))
_OUTPUT = Word(gettext_noop("Output"))
_DTYPE = Word(gettext_noop("data type"))
_SHAPE = Word(gettext_noop("shape"))
_SMALLEST = Word(gettext_noop("smallest value"))
_LARGEST = Word(gettext_noop("largest value"))
_NAN = Word(gettext_noop("NaN"))
_SUM = Word(gettext_noop("sum along the last axis"))
_NOT_PROMISED = Word(gettext_noop("not promised"))
_NAN_WORDS = {"refuse": Word(gettext_noop("refused")), "allow": Word(gettext_noop("allowed"))}


def interface_changes(before: ContractDocument, after: ContractDocument) -> Iterator[Change]:
    """Differences of inputs and outputs, tensors matched by name.

    Inputs may only accept more and outputs may only vary less, or callers break or get less.
    """
    yield from _side(before.interface, after.interface, "inputs")
    yield from _side(before.interface, after.interface, "outputs")


def _side(before: Interface, after: Interface, side: str) -> Iterator[Change]:
    is_input = side == "inputs"
    what = _INPUT if is_input else _OUTPUT
    old = {tensor.name: tensor for tensor in (before.inputs if is_input else before.outputs)}
    new = {tensor.name: tensor for tensor in (after.inputs if is_input else after.outputs)}
    for index, name in enumerate(old):
        if name not in new:
            at = pointer_of("interface", side, index)
            text = _text(old[name])
            yield change(at, what, text, None, "breaking", kind="removed", name=name)
    for index, (name, tensor) in enumerate(new.items()):
        at = pointer_of("interface", side, index)
        if name not in old:
            effect: Effect = "breaking" if is_input else "neutral"
            yield change(at, what, None, _text(tensor), effect, kind="added", name=name)
        else:
            yield from _tensor(at, old[name], tensor, is_input=is_input)


def _tensor(at: str, old: Tensor, new: Tensor, *, is_input: bool) -> Iterator[Change]:
    name = new.name
    if old.dtype != new.dtype:
        yield change(f"{at}/dtype", _DTYPE, old.dtype, new.dtype, "breaking", name=name)
    if old.dims != new.dims:
        sizes, shapes = (list(old.dims), list(new.dims)), (shape_text(old), shape_text(new))
        effect = _shape_effect(old, new, is_input=is_input)
        yield change(f"{at}/dims", _SHAPE, *sizes, effect, name=name, shown=shapes)
    if old.minimum != new.minimum:
        narrower = new.minimum is not None and (old.minimum is None or new.minimum > old.minimum)
        effect = _effect(is_input=is_input, narrower=narrower)
        yield change(f"{at}/min", _SMALLEST, old.minimum, new.minimum, effect, name=name)
    if old.maximum != new.maximum:
        narrower = new.maximum is not None and (old.maximum is None or new.maximum < old.maximum)
        effect = _effect(is_input=is_input, narrower=narrower)
        yield change(f"{at}/max", _LARGEST, old.maximum, new.maximum, effect, name=name)
    if old.nan != new.nan:
        effect = _effect(is_input=is_input, narrower=new.nan == "refuse")
        nan_words = _NAN_WORDS[old.nan], _NAN_WORDS[new.nan]
        yield change(f"{at}/nan", _NAN, old.nan, new.nan, effect, name=name, shown=nan_words)
    if old.sums_to != new.sums_to:
        sums = old.sums_to, new.sums_to
        words = _sum_value(old.sums_to), _sum_value(new.sums_to)
        effect = "weaker" if new.sums_to is None else "stronger"
        if old.sums_to is not None and new.sums_to is not None:
            effect = "breaking"
        yield change(f"{at}/sums_to", _SUM, *sums, effect, name=name, shown=words)


def _sum_value(value: float | None) -> Value:
    return _NOT_PROMISED if value is None else number_text(value)


def _effect(*, is_input: bool, narrower: bool) -> Effect:
    if is_input:
        return "breaking" if narrower else "stronger"
    return "stronger" if narrower else "weaker"


def _shape_effect(old: Tensor, new: Tensor, *, is_input: bool) -> Effect:
    """A size that may vary now: more for who sends, less to rely on for who receives.

    Other names of sizes that vary are nothing that goes over the wire.
    """
    if len(old.dims) != len(new.dims):
        return "breaking"
    widened = narrowed = False
    for before, after in zip(old.dims, new.dims, strict=True):
        if isinstance(before, int) and isinstance(after, int) and before != after:
            return "breaking"
        widened |= isinstance(before, int) and isinstance(after, str)
        narrowed |= isinstance(before, str) and isinstance(after, int)
    if not widened and not narrowed:
        return "neutral"
    worse = narrowed if is_input else widened
    return "breaking" if worse else "stronger"


def _text(tensor: Tensor) -> str:
    return " ".join(filter(None, (tensor.dtype, shape_text(tensor), range_text(tensor))))
