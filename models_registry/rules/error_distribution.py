"""How the errors of a comparison are spread, by powers of ten: what a page can draw."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

FEWEST_BINS = 5
MOST_BINS = 16


@dataclass(frozen=True, slots=True)
class Bin:
    """How many errors lie in (`low`, `high`]; both are 0 for errors of exactly zero."""

    low: float
    high: float
    count: int

    @property
    def label(self) -> str:
        """The bin as an axis says it: 0, 1e-8–1e-7."""
        return "0" if self.high == 0 else f"{power(self.low)}–{power(self.high)}"


def distribution(errors: Sequence[float | str], limit: float) -> tuple[Bin, ...]:
    """Absolute errors in bins of one power of ten each, from the smallest up to the limit's.

    Errors that are no finite number are left out (the report's checks name them). Errors of exact
    zero have a bin of their own, first. At most 16 bins: what is smaller joins the lowest.
    """
    known = [abs(error) for error in errors if isinstance(error, int | float)]
    known = [error for error in known if math.isfinite(error)]
    above = [error for error in known if error > 0]
    if not known:
        return ()
    largest = max([*above, limit])
    top = _exponent(largest) if largest > 0 else 0
    lowest = min((_exponent(one) for one in (*above, limit) if one > 0), default=top)
    lowest = max(min(lowest, top - FEWEST_BINS + 1), top - MOST_BINS + 1)
    counts = dict.fromkeys(range(lowest, top + 1), 0)
    for error in above:
        counts[max(lowest, _exponent(error))] += 1
    zeros = Bin(0.0, 0.0, len(known) - len(above))
    return (zeros, *(Bin(10.0 ** (e - 1), 10.0**e, n) for e, n in counts.items()))


def position(bins: Sequence[Bin], value: float) -> float | None:
    """Where `value` lies on an axis that has one step for each bin, 0 at the middle of the first.

    None outside of the bins.
    """
    for index, one in enumerate(bins):
        if one.high > 0 and one.low < value <= one.high:
            return index - 0.5 + math.log10(value / one.low)
    return None


def power(value: float) -> str:
    """A power of ten in few characters: 1e-7, 0.1, 1, 10."""
    exponent = round(math.log10(value))
    return f"{value:g}" if -2 <= exponent <= 3 else f"1e{exponent}"


def _exponent(value: float) -> int:
    """The e with 10^(e-1) < value ≤ 10^e."""
    return math.ceil(round(math.log10(value), 9))
