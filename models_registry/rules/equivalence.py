"""How far two runs of one model may differ, and what a set of measured differences means.

Element by element as numpy's allclose: |a - b| <= atol + rtol x |b|, with b the source framework.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from models_registry.exporting.protocol import Verdict

SAME_FILE_SLACK: Final = 100.0


LOSSY: Final = frozenset({"fp16", "int8"})
"""Optimisations that change values, not only the order of work."""


@dataclass(frozen=True, slots=True)
class Tolerance:
    """Absolute and relative tolerance, and where they come from (one phrase).

    `scaled`: `atol` is a share of the output's largest value, not a number of its own; `of` gives
    the tolerance of one output. `share`: which part of the elements of an output that is no
    floating point (labels, text) may differ.
    """

    atol: float
    rtol: float
    source: str
    scaled: bool = False
    share: float = 0.0

    def of(self, largest: float) -> Tolerance:
        """The tolerance of an output whose largest finite magnitude, by the source, is `largest`.

        >>> Tolerance(0.05, 0.05, "", scaled=True).of(20.0).atol
        1.0
        """
        if not self.scaled:
            return self
        return replace(self, atol=self.atol * largest, scaled=False)


# Half precision keeps 11 bits of mantissa (IEEE 754 binary16): 1 ulp at 1.0 is 9.8e-4.
_DEFAULTS: Final = {
    "FP16": Tolerance(1e-2, 1e-2, "default for FP16, which keeps three digits"),
    "FP32": Tolerance(1e-5, 1e-4, "default for FP32"),
    "FP64": Tolerance(1e-10, 1e-8, "default for FP64"),
}
# Eight bits divide the range of a tensor into 255 steps; errors of several layers add up.
_LOSSY_DEFAULTS: Final = {
    "fp16": Tolerance(1e-2, 1e-2, "default for versions optimised as fp16"),
    "int8": Tolerance(5e-2, 5e-2, "default for versions optimised as int8"),
}


def tolerance(
    dtypes: Iterable[str],
    atol: float | None = None,
    rtol: float | None = None,
    optimisation: str = "",
) -> Tolerance:
    """What was asked for, filled with a default.

    The default is that of the optimisation where it changes values (fp16, int8), else that of the
    least precise floating dtype present. For int8 `atol` is a share of each output's largest
    value; for both, `rtol` is also the share of labels that may differ.

    >>> tolerance(["FP32", "INT64"]).atol
    1e-05
    """
    present = set(dtypes)
    kind = next((name for name in ("FP16", "FP32", "FP64") if name in present), "FP32")
    default = _LOSSY_DEFAULTS.get(optimisation, _DEFAULTS[kind])
    source = default.source
    if atol is not None or rtol is not None:
        source = (
            f"set for versions optimised as {optimisation}"
            if optimisation
            else ("set for this model")
        )
    found = Tolerance(
        default.atol if atol is None else atol, default.rtol if rtol is None else rtol, source
    )
    if optimisation not in LOSSY:
        return found
    return replace(found, scaled=optimisation == "int8", share=found.rtol)


@dataclass(frozen=True, slots=True)
class OutputDifference:
    """One output over all samples; `errors` are the greatest absolute errors per sample.

    `ratio` is the greatest |a-b| / (atol + rtol x |b|): above 1 it is too far.
    `different` counts elements that are not finite in one of the two only, or unequal where exact;
    up to `tolerated` of them are a warning (labels of a version with lower precision). `worst` is
    the sample to look at first, where that is not the one with the greatest error.
    """

    name: str
    dtype: str
    errors: tuple[float, ...]
    max_rel: float
    mean_abs: float
    ratio: float
    different: int = 0
    tolerated: int = 0
    worst: int | None = None

    @property
    def max_abs(self) -> float:
        """Greatest absolute error of any element of any sample."""
        return max(self.errors, default=0.0)

    @property
    def worst_sample(self) -> int:
        """Index of the sample to look at first: by default that with the greatest error."""
        if self.worst is not None:
            return self.worst
        return max(range(len(self.errors)), key=self.errors.__getitem__, default=0)

    def verdict(self, *, same_file: bool = False) -> Verdict:
        """Passed when every element is within tolerance and equally finite.

        `same_file`: the reference is the very ONNX file, run without graph optimisations. Then
        nothing was translated, and what differs is rounding in another order of work: up to
        `SAME_FILE_SLACK` times the tolerance is a warning.
        """
        if self.different > self.tolerated or not math.isfinite(self.ratio):
            return "failed"
        if self.ratio <= 1.0:
            return "warning" if self.different else "passed"
        return "warning" if same_file and self.ratio <= SAME_FILE_SLACK else "failed"


def percentile(values: Sequence[float], percent: float) -> float:
    """Nearest-rank percentile (ISO 2602 style): the smallest value with `percent` % at or below it.

    >>> percentile([1.0, 2.0, 3.0, 4.0], 50)
    2.0
    """
    if not values:
        return 0.0
    ordered = sorted(values)
    rank = max(1, math.ceil(percent / 100.0 * len(ordered)))
    return ordered[min(rank, len(ordered)) - 1]


def overall(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict of a report: failed if anything failed, else warning if anything warns."""
    present = set(verdicts)
    for verdict in ("failed", "warning"):
        if verdict in present:
            return verdict
    return "passed"
