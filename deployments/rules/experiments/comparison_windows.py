"""The last seconds of compared answers, as points of a ring and added up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from deployments.rules.experiments.comparison_figures import Figures, largest


@dataclass(frozen=True, slots=True)
class ComparisonWindow:
    """Sampled requests of a stretch of time; faults are requests whose answer breaks the contract.

    `compared` were answered by both versions, and `differing` of these beyond the tolerance.
    `kinds` are the candidate's faults by kind; `at` is when the newest was (epoch seconds).
    """

    sampled: int = 0
    compared: int = 0
    differing: int = 0
    baseline_faults: int = 0
    candidate_faults: int = 0
    max_difference: float | None = None
    kinds: Mapping[str, int] = field(default_factory=dict)
    at: float | None = None

    @property
    def differing_share(self) -> float | None:
        """Of the requests that both answered; None while there is none."""
        return self.differing / self.compared if self.compared else None


def to_point(at: float, baseline: int, candidate: int, figures: Figures) -> dict[str, Any]:
    """Figures of one second in few bytes."""
    return {
        "t": at,
        "v": [baseline, candidate],
        "n": [
            figures.sampled,
            figures.compared,
            figures.differing,
            figures.baseline_faults,
            figures.candidate_faults,
        ],
        "m": figures.max_difference,
        "k": kinds(figures),
    }


def kinds(figures: Figures) -> dict[str, int]:
    """The candidate's faults by kind, whatever the output."""
    found: dict[str, int] = {}
    for output in figures.outputs.values():
        for kind, count in output.candidate_faults.items():
            found[kind] = found.get(kind, 0) + count
    return found


def add_up(
    points: Iterable[Mapping[str, Any]],
    *,
    baseline: int,
    candidate: int,
    since: float,
    until: float,
) -> ComparisonWindow:
    """The points of one pair with `since` <= their second < `until`."""
    total = [0] * 5
    most: float | None = None
    counted: dict[str, int] = {}
    newest: float | None = None
    for point in points:
        if point["v"] != [baseline, candidate] or not since <= point["t"] < until:
            continue
        total = [have + more for have, more in zip(total, point["n"], strict=True)]
        most = largest(most, point["m"])
        newest = largest(newest, point["t"])
        for kind, count in point["k"].items():
            counted[kind] = counted.get(kind, 0) + count
    sampled, compared, differing, baseline_faults, candidate_faults = total
    return ComparisonWindow(
        sampled, compared, differing, baseline_faults, candidate_faults, most, counted, newest
    )
