"""A version's drift as it is written down: points of series, and a document for people."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from deployments.rules.statistics.measurements import Point, Quantity, Subject
from deployments.rules.telemetry.drift import FeatureDrift, Reference, Shares, drift_of
from deployments.rules.telemetry.measuring import DRIFT, ENTROPY, PSI
from models_registry.rules.feature_values import Column

MOST_SERIES = 32
"""Features of a version that get series of their own: the worst ones, where it has more."""
_LONGEST_LABEL = 120


@dataclass(frozen=True, slots=True)
class Measured:
    """The drift of one version's inputs, the feature with the greatest score first.

    `unknown` are features of its training that no caller sends.
    """

    version: int
    features: tuple[FeatureDrift, ...]
    unknown: tuple[str, ...] = ()

    @property
    def score(self) -> float | None:
        return max((one.score for one in self.features), default=None)

    @property
    def psi(self) -> float | None:
        return max((one.psi for one in self.features), default=None)


def measure_drift(
    version: int, training: Sequence[Reference], columns: Mapping[str, Column]
) -> Measured:
    """How far each feature of the rows is from the version's training."""
    found, unknown = [], []
    for reference in training:
        column = columns.get(reference.name)
        if column is None or column.kind != reference.kind or not len(column.values):
            unknown.append(reference.name)
        else:
            found.append(drift_of(reference, column))
    ordered = sorted(found, key=lambda one: (-one.score, one.name))
    return Measured(version, tuple(ordered), tuple(unknown))


def drift_points(
    endpoint: int, found: Iterable[Measured], at: datetime, *, each_feature: bool
) -> list[Point]:
    """Points of the series; the label "" is the greatest of all features."""
    points: list[Point] = []
    for one in found:
        subject = Subject(endpoint=endpoint, version=one.version)
        if one.score is None or one.psi is None:
            continue
        points.append(Point(Quantity(subject, DRIFT), one.score, at))
        points.append(Point(Quantity(subject, PSI), one.psi, at))
        for feature in one.features[:MOST_SERIES] if each_feature else ():
            label = feature.name[:_LONGEST_LABEL]
            points.append(Point(Quantity(subject, DRIFT, label), feature.score, at))
            points.append(Point(Quantity(subject, PSI, label), feature.psi, at))
    return points


def entropy_points(
    endpoint: int, found: Mapping[tuple[int, str], float], at: datetime
) -> list[Point]:
    """Points of the entropy of each version's outputs; the label "" is the greatest of them."""
    greatest: dict[int, float] = {}
    points = []
    for (version, output), value in found.items():
        subject = Subject(endpoint=endpoint, version=version)
        points.append(Point(Quantity(subject, ENTROPY, output[:_LONGEST_LABEL]), value, at))
        greatest[version] = max(greatest.get(version, 0.0), value)
    points += [
        Point(Quantity(Subject(endpoint=endpoint, version=version), ENTROPY), value, at)
        for version, value in greatest.items()
    ]
    return points


def drift_document(
    found: Iterable[Measured], at: datetime, *, rows: int, without: Sequence[int]
) -> dict[str, Any]:
    """What people see: each version's features with both distributions; `without` have no
    training sample."""
    return {
        "at": at.isoformat(),
        "rows": rows,
        "without": list(without),
        "versions": {
            str(one.version): {
                "unknown": list(one.unknown),
                "features": [_feature(feature) for feature in one.features],
            }
            for one in found
        },
    }


def _feature(one: FeatureDrift) -> dict[str, Any]:
    return {
        "name": one.name,
        "kind": one.kind,
        "rows": one.rows,
        "score": round(one.score, 6),
        "psi": round(one.psi, 6),
        "by_chance": round(one.by_chance, 4),
        "bounds": list(one.training.bounds),
        "words": list(one.training.words),
        "training": _written(one.training),
        "now": _written(one.now),
    }


def _written(shares: Shares) -> list[float]:
    return [round(share, 5) for share in shares.shares]
