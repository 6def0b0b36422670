"""A rule as people write it: what is looked at, since when it must hold, when it is over."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from console.errors import FieldError, Invalid
from deployments.rules.alerts.catalogue import Source, signal_of

OPERATORS: Mapping[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
AGGREGATES = ("mean", "max", "min", "newest")
EACH = ("endpoint", "version")
MOST_CONDITIONS = 4
LONGEST_LABEL = 120
GREATEST = 1e18
LONGEST_LIVE_S = 900
"""Requests are known second by second for a quarter of an hour."""
RUNBOOK = re.compile(r"[a-z][a-z0-9_]{0,59}")

WHOLE_NUMBERS: Mapping[str, tuple[int, int]] = {
    "window_s": (10, 86_400),
    "for_s": (0, 86_400),
    "keep_firing_s": (0, 86_400),
    "min_requests": (1, 1_000_000),
    "min_faults": (0, 1_000_000),
    "missing_s": (0, 604_800),
}


@dataclass(frozen=True, slots=True)
class Condition:
    """One comparison. `label` None takes series of every label; "" those without one.

    `aggregate` is what is taken of a series' window. With `own_limit` the thing's own limit (its
    contract's, its objective's) counts where it has one; without it the threshold.
    """

    signal: str
    op: str
    threshold: float
    aggregate: str = "mean"
    label: str | None = None
    own_limit: bool = False


@dataclass(frozen=True, slots=True)
class RuleDocument:
    """All conditions at once, of one thing; times in seconds.

    It fires when they hold for `for_s`, and is over when they have not held for `keep_firing_s`.
    Requests are counted over `window_s`, for each endpoint or each version; from `min_requests`
    valid ones on, and `min_faults` failed ones. Nothing measured is not well: only after
    `missing_s` without a value is it over.
    """

    conditions: tuple[Condition, ...]
    each: str = "endpoint"
    window_s: int = 300
    for_s: int = 0
    keep_firing_s: int = 120
    min_requests: int = 20
    min_faults: int = 0
    missing_s: int = 3600
    runbook: str = ""

    @property
    def sources(self) -> frozenset[Source]:
        """Where its values come from."""
        found = (signal_of(one.signal) for one in self.conditions)
        return frozenset(one.source for one in found if one is not None)


def parse_rule(document: object) -> RuleDocument:
    """A rule as callers write it; what is left out has its default.

    Raises Invalid with a pointer for each fault, also for a field that there is none of.
    """
    if not isinstance(document, Mapping):
        raise Invalid("An alert rule is a JSON object.", code="invalid_alert_rule")
    faults: list[FieldError] = []
    read: dict[str, Any] = {}
    for name, value in document.items():
        if name == "conditions":
            read["conditions"] = _conditions(value, faults)
            continue
        try:
            read[str(name)] = _value(str(name), value)
        except ValueError as fault:
            faults.append(FieldError(f"/{name}", str(fault)))
    if "conditions" not in document:
        faults.append(FieldError("/conditions", "This is needed."))
    if not faults:
        rule = RuleDocument(**read)
        if Source.TRAFFIC in rule.sources and rule.window_s > LONGEST_LIVE_S:
            faults.append(
                FieldError("/window_s", f"At most {LONGEST_LIVE_S} where requests are counted.")
            )
    if faults:
        raise Invalid(
            "The alert rule cannot be read.",
            code="invalid_alert_rule",
            hint="Mend what is named, and send it again.",
            errors=tuple(faults),
        )
    return rule


def rule_json(rule: RuleDocument) -> dict[str, Any]:
    """The rule as it is stored and answered, every field said."""
    return {**asdict(rule), "conditions": [asdict(one) for one in rule.conditions]}


def _conditions(value: object, faults: list[FieldError]) -> tuple[Condition, ...]:
    if not isinstance(value, list | tuple) or not 0 < len(value) <= MOST_CONDITIONS:
        faults.append(FieldError("/conditions", f"A list of 1 to {MOST_CONDITIONS} conditions."))
        return ()
    found = []
    for index, one in enumerate(value):
        if not isinstance(one, Mapping):
            faults.append(FieldError(f"/conditions/{index}", "A JSON object."))
            continue
        read = {}
        for name in {*one, "signal", "op", "threshold"}:
            try:
                read[str(name)] = _of_condition(str(name), one.get(name))
            except ValueError as fault:
                faults.append(FieldError(f"/conditions/{index}/{name}", str(fault)))
        if not faults:
            found.append(Condition(**read))
    return tuple(found)


def _of_condition(name: str, value: Any) -> Any:
    match name:
        case "signal":
            if not isinstance(value, str) or signal_of(value) is None:
                raise ValueError("The name of a signal or of a measured series, in snake_case.")
        case "op":
            _one_of(value, tuple(OPERATORS))
        case "threshold":
            return _finite(value)
        case "aggregate":
            _one_of(value, AGGREGATES)
        case "label":
            if value is not None and (
                not isinstance(value, str) or len(value) > LONGEST_LABEL or "\0" in value
            ):
                raise ValueError("A text of at most 120 characters, or null for every label.")
        case "own_limit":
            if not isinstance(value, bool):
                raise ValueError("true or false.")
        case _:
            known = ", ".join(field.name for field in fields(Condition))
            raise ValueError(f"There is no such field. There are: {known}.")
    return value


def _one_of(value: object, known: tuple[str, ...]) -> None:
    if value not in known:
        raise ValueError(f"One of {', '.join(known)}.")


def _finite(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("A number.")
    # Compared first: a whole number may be too long to be turned into a float at all.
    if abs(value) > GREATEST or not math.isfinite(value):
        raise ValueError("A finite number.")
    return float(value)


def _value(name: str, value: object) -> object:
    if name in WHOLE_NUMBERS:
        low, high = WHOLE_NUMBERS[name]
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise ValueError(f"A whole number from {low} to {high}.")
        return value
    match name:
        case "each":
            _one_of(value, EACH)
            return value
        case "runbook":
            if not isinstance(value, str) or (value and not RUNBOOK.fullmatch(value)):
                raise ValueError("The code of a page of help, in snake_case, or empty.")
            return value
    known = ", ".join(field.name for field in fields(RuleDocument))
    raise ValueError(f"There is no such field. There are: {known}.")
