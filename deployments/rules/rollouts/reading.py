"""Reading a plan's document field by field: each fault is noted with its JSON pointer."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Collection, Mapping
from typing import cast

from console.errors import FieldError
from console.rules.canonical import pointer_of

_DURATION = re.compile(r"([0-9]{1,7}(?:\.[0-9]{1,3})?)(ms|s|m|h|d)")
_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}
Place = tuple[str | int, ...]


def duration_s(value: object) -> float:
    """Seconds of `90s`, `15m`, `1h`, `2d` or of a plain number. Raises ValueError."""
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        return float(value)
    found = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise ValueError("is no duration: write 90s, 15m, 1h or a number of seconds")
    return float(found[1]) * _SECONDS[found[2]]


def duration_word(seconds: float) -> str:
    """The shortest way to write a duration that `duration_s` reads.

    >>> duration_word(900.0), duration_word(90.0)
    ('15m', '90s')
    """
    for unit in ("d", "h", "m"):
        if seconds and seconds % _SECONDS[unit] == 0:
            return f"{int(seconds // _SECONDS[unit])}{unit}"
    return f"{number_word(seconds)}s"


def number_word(value: float) -> str:
    """A number as short as it can be written without losing any of it.

    >>> number_word(5.0), number_word(0.1)
    ('5', '0.1')
    """
    return repr(float(value)).removesuffix(".0")


class Fields:
    """One object of the document. What cannot be read is noted, and its default is given."""

    def __init__(
        self, raw: object, place: Place, faults: list[FieldError], known: Collection[str]
    ) -> None:
        self.place, self._faults = place, faults
        self._raw: Mapping[str, object] = {}
        if not isinstance(raw, Mapping):
            self.fault("is not an object")
            return
        self._raw = cast(Mapping[str, object], raw)
        for name in self._raw:
            if name not in known:
                near = difflib.get_close_matches(str(name), list(known), 1)
                hint = f"; did you mean {near[0]}?" if near else ""
                self.fault(f"is not a known field{hint}", str(name))

    def fault(self, detail: str, *at: str | int) -> None:
        """Note a fault of this object, or of what stands `at` in it."""
        self._faults.append(FieldError(pointer_of(*self.place, *at), detail))

    def has(self, name: str) -> bool:
        """Whether the field is there and not null."""
        return self._raw.get(name) is not None

    def raw(self, name: str) -> object:
        """The field as it stands; None when it is not there."""
        return self._raw.get(name)

    def number(self, name: str, usual: float, low: float, high: float) -> float:
        """A number between two limits, both taken."""
        value = self._raw.get(name)
        if value is None:
            return usual
        if isinstance(value, bool) or not isinstance(value, int | float):
            self.fault("is not a number", name)
        elif not low <= value <= high:
            self.fault(f"is not between {low:g} and {high:g}", name)
        else:
            return float(value)
        return usual

    def whole(self, name: str, usual: int, low: int, high: int) -> int:
        """A whole number between two limits, both taken."""
        value = self.number(name, usual, low, high)
        if value != int(value):
            self.fault("is not a whole number", name)
        return int(value)

    def seconds(self, name: str, usual: float, low: float, high: float) -> float:
        """A duration in seconds."""
        value = self._raw.get(name)
        if value is None:
            return usual
        try:
            seconds = duration_s(value)
        except ValueError as error:
            self.fault(str(error), name)
            return usual
        if not low <= seconds <= high:
            self.fault(f"is not between {duration_word(low)} and {duration_word(high)}", name)
            return usual
        return seconds

    def flag(self, name: str, usual: bool) -> bool:
        """True or false."""
        value = self._raw.get(name)
        if value is None:
            return usual
        if not isinstance(value, bool):
            self.fault("is not true or false", name)
            return usual
        return value

    def text(self, name: str, usual: str = "", *, longest: int = 200) -> str:
        """A text that is not empty."""
        value = self._raw.get(name)
        if value is None:
            return usual
        if not isinstance(value, str) or not value.strip():
            self.fault("is not a text", name)
        elif len(value) > longest:
            self.fault(f"is longer than {longest} characters", name)
        else:
            return value.strip()
        return usual

    def items(self, name: str, most: int) -> list[tuple[Place, object]]:
        """The members of a list with their places."""
        value = self._raw.get(name)
        if value is None:
            return []
        if not isinstance(value, list | tuple):
            self.fault("is not a list", name)
            return []
        if len(value) > most:
            self.fault(f"has more than {most} members", name)
            return []
        return [((*self.place, name, index), one) for index, one in enumerate(value)]
