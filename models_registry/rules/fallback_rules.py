"""A contract's fallback rules: which of them answers a row, and whether they may be proposed.

Rules are asked in their order; the first whose condition holds answers, and the contract's fixed
response is the last. A rule whose condition cannot be judged for a row does not answer it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from console.errors import FieldError, Invalid
from console.rules.canonical import pointer_of
from models_registry.rules.contract_types import ContractDocument, Tensor
from models_registry.rules.expressions import (
    MAX_VALUES,
    Condition,
    ExpressionFault,
    Language,
    is_single,
    row_values,
)

SLOW_MS = 5.0
"""Longest time for judging one row; a batch has many rows, and they are all waited for."""
FIXED = -1
"""The fixed response, in the place of a rule's index."""

_FLOATS = frozenset({"FP16", "BF16", "FP32", "FP64"})


@dataclass(frozen=True, slots=True)
class Decision:
    """`rule` is the index of who answers, or FIXED; `unjudged` could not be judged for the row."""

    rule: int
    unjudged: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class RuleSet:
    """Compiled rules, ready to be asked."""

    names: tuple[str, ...]
    conditions: tuple[Condition, ...]
    inputs: Mapping[str, Tensor]
    set_aside: set[int] = field(default_factory=set)
    """Rules that were found too slow for their time; they are as if they could not be judged."""

    def decide(self, row: Mapping[str, object]) -> Decision:
        """Who answers a row; see `Condition.holds` for what it is."""
        unjudged: list[int] = []
        for index, condition in enumerate(self.conditions):
            holds = None if index in self.set_aside else condition.holds(row)
            if holds:
                return Decision(index, tuple(unjudged))
            if holds is None:
                unjudged.append(index)
        return Decision(FIXED, tuple(unjudged))

    @property
    def read(self) -> frozenset[str]:
        """Names of the inputs that some rule reads."""
        return frozenset(name for condition in self.conditions for name in condition.inputs)


def compile_rules(document: ContractDocument) -> RuleSet:
    """The contract's rules. Raises Invalid `invalid_rule`, with each rule that cannot be used."""
    rules = document.fallback.rules
    language = Language(document.interface.inputs)
    conditions: list[Condition] = []
    faults: list[FieldError] = []
    for index, rule in enumerate(rules):
        try:
            conditions.append(language.compile(rule.when))
        except ExpressionFault as fault:
            faults.append(FieldError(pointer_of("fallback", "rules", index, "when"), str(fault)))
    if faults:
        raise _refused(faults, "A rule of the fallback cannot be used", "invalid_rule")
    inputs = {tensor.name: tensor for tensor in document.interface.inputs}
    return RuleSet(tuple(rule.name for rule in rules), tuple(conditions), inputs)


def check_rules(document: ContractDocument, clock: Callable[[], float] = time.perf_counter) -> None:
    """Refuse rules that cannot be used, take too long, or do not do what the examples say.

    Raises Invalid `invalid_rule` or `examples_fail`, with the place of each fault.
    """
    if not document.fallback.rules and not document.fallback.examples:
        return
    rules = compile_rules(document)
    if slow := list(_too_slow(rules, clock)):
        raise _refused(slow, "A rule of the fallback takes too long", "invalid_rule")
    if failed := list(_failed_examples(document, rules)):
        raise _refused(failed, "The fallback's rules fail their examples", "examples_fail")


def response_of(document: ContractDocument, rule: int) -> Mapping[str, Any]:
    """The answer of a rule, by its index or FIXED."""
    fallback = document.fallback
    return fallback.response if rule == FIXED else fallback.rules[rule].response


def row_of(inputs: Mapping[str, object], tensors: Mapping[str, Tensor]) -> dict[str, object]:
    """Plain JSON values of one row as conditions take them; what does not fit is left out."""
    row: dict[str, object] = {}
    for name, value in inputs.items():
        if (tensor := tensors.get(name)) is None:
            continue
        values = [settled(tensor.dtype, one) for one in _flat(value)]
        size = row_values(tensor)
        if any(one is None for one in values) or (size is not None and len(values) != size):
            continue
        row[name] = values[0] if is_single(tensor) else values
    return row


def row_faults(
    inputs: Mapping[str, object], tensors: Mapping[str, Tensor], at: tuple[str | int, ...]
) -> list[FieldError]:
    """What of a row, written by a person at `at`, is no input or does not fit it."""
    faults = []
    row = row_of(inputs, tensors)
    for name, value in inputs.items():
        if name not in tensors:
            faults.append(FieldError(pointer_of(*at, name), "is no input of the contract"))
        elif name not in row and value is not None:
            tensor = tensors[name]
            dims = [size for size in tensor.dims if size != "batch"]
            detail = f"is not one row of {tensor.dtype} {dims}"
            faults.append(FieldError(pointer_of(*at, name), detail))
    return faults


def settled(dtype: str, value: object) -> bool | int | float | str | None:
    """A JSON value as one of a data type, or None when it is none."""
    if dtype == "BYTES":
        return value if isinstance(value, str) else None
    if dtype == "BOOL":
        # Some clients write truth values as 0 and 1.
        return bool(value) if isinstance(value, bool) or value in (0, 1) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if dtype in _FLOATS:
        # A whole number of JSON may be larger than any floating-point one.
        return float(value) if isinstance(value, float) or abs(value) < 2**1023 else None
    return int(value) if isinstance(value, int) or value.is_integer() else None


def _failed_examples(document: ContractDocument, rules: RuleSet) -> Iterator[FieldError]:
    reached: set[int] = set()
    for index, example in enumerate(document.fallback.examples):
        at = ("fallback", "examples", index)
        if faults := row_faults(example.inputs, rules.inputs, (*at, "inputs")):
            yield from faults
            continue
        decision = rules.decide(row_of(example.inputs, rules.inputs))
        reached.add(decision.rule)
        given = response_of(document, decision.rule)
        if given != example.response:
            who = (
                "the fixed response answers"
                if decision.rule == FIXED
                else f"rule “{rules.names[decision.rule]}” answers"
            )
            detail = f"is not what comes: {who} {_shown(given)}"
            yield FieldError(pointer_of(*at, "response"), detail)
    for index in set(range(len(rules.names))) - reached:
        detail = "answers none of the examples; add one that it answers to fallback.examples"
        yield FieldError(pointer_of("fallback", "rules", index), detail)


def _too_slow(rules: RuleSet, clock: Callable[[], float]) -> Iterator[FieldError]:
    for index, condition in enumerate(rules.conditions):
        # From small to large: what takes long is found out before it takes very long.
        for size in (16, 128, MAX_VALUES):
            row = {name: _filler(rules.inputs[name], size) for name in condition.inputs}
            took = min(_took_ms(condition, row, clock) for _ in range(3))
            if took > SLOW_MS:
                detail = f"takes {took:.0f} ms for one row; at most {SLOW_MS:.0f} ms can be waited"
                yield FieldError(pointer_of("fallback", "rules", index, "when"), detail)
                break


def _took_ms(condition: Condition, row: Mapping[str, object], clock: Callable[[], float]) -> float:
    begun = clock()
    condition.holds(row)
    return (clock() - begun) * 1000


def _filler(tensor: Tensor, size: int) -> object:
    one: object = 1.0 if tensor.dtype in _FLOATS else 1
    if tensor.dtype == "BYTES":
        one = "a" * size
    elif tensor.dtype == "BOOL":
        one = True
    if is_single(tensor):
        return one
    return [one] * min(size, row_values(tensor) or size)


def _flat(value: object) -> list[object]:
    if not isinstance(value, list | tuple):
        return [value]
    return [item for part in value for item in _flat(part)]


def _shown(response: Mapping[str, Any]) -> str:
    shown = ", ".join(f"{name} = {value}" for name, value in response.items())
    return shown if len(shown) <= 200 else shown[:200] + "…"


def _refused(faults: list[FieldError], what: str, code: str) -> Invalid:
    first = faults[0]
    more = f", and {len(faults) - 1} more" if len(faults) > 1 else ""
    return Invalid(
        f"{what}: {first.pointer} {first.detail}{more}.",
        code=code,
        hint="Mend the places named; docs/fallback.md describes rules and examples.",
        errors=tuple(faults[:50]),
    )
