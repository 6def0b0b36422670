"""Conditions on a measured value: against a number, or against the baseline's own value."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

_COMPARE: Mapping[str, Callable[[float, float], bool]] = {
    "<=": operator.le,
    "<": operator.lt,
    ">=": operator.ge,
    ">": operator.gt,
    "==": operator.eq,
    "!=": operator.ne,
}
_NUMBER = r"[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?"
_FORM = re.compile(
    rf"(?:result\s*)?(?P<compare><=|>=|==|!=|<|>)\s*"
    rf"(?:(?P<number>-?{_NUMBER})|baseline(?:\s*(?P<change>[-+*])\s*(?P<by>{_NUMBER}))?)"
)
FORM = "Write “<= 1”, “<= baseline * 1.2” or “<= baseline + 5”; also with <, >=, >, == or !=."


@dataclass(frozen=True, slots=True)
class Condition:
    """`compare` the value with `number`, or with the baseline changed by it.

    `change` is empty for an absolute limit, else one of `*`, `+`, `-`.
    """

    compare: str
    number: float
    change: str = ""

    @classmethod
    def parse(cls, text: str) -> Condition:
        """From its written form. Raises ValueError with the forms that are taken."""
        found = _FORM.fullmatch(text.strip())
        if found is None or not math.isfinite(float(found["number"] or found["by"] or 0)):
            raise ValueError(FORM)
        if found["number"] is not None:
            return cls(found["compare"], float(found["number"]))
        if found["change"] is None:
            return cls(found["compare"], 1.0, "*")
        return cls(found["compare"], float(found["by"]), found["change"])

    @property
    def is_relative(self) -> bool:
        """Whether the baseline's value over the same window is needed."""
        return bool(self.change)

    def limit(self, baseline: float | None) -> float | None:
        """What the value is held against; None when it takes a baseline's value and has none."""
        if not self.change:
            return self.number
        if baseline is None:
            return None
        if self.change == "*":
            return baseline * self.number
        return baseline + (self.number if self.change == "+" else -self.number)

    def holds(self, value: float, baseline: float | None) -> bool | None:
        """Whether the value meets it; None when that cannot be said."""
        limit = self.limit(baseline)
        return None if limit is None else _COMPARE[self.compare](value, limit)

    def __str__(self) -> str:
        number = repr(self.number).removesuffix(".0")
        if not self.change:
            return f"{self.compare} {number}"
        if (self.change, self.number) == ("*", 1.0):
            return f"{self.compare} baseline"
        return f"{self.compare} baseline {self.change} {number}"
