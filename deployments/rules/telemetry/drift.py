"""How far what callers send is from what a version was trained on, feature by feature.

The score of numbers is the two-sample Kolmogorov-Smirnov statistic: the greatest distance between
the two distribution functions, 0 to 1 (Smirnov 1948; Massey 1951, JASA 46). Of texts it is the
total variation distance of their shares, on the same scale. The PSI is the symmetric
Kullback-Leibler divergence over ten bins of equal share in training (Siddiqi, Credit Risk
Scorecards, 2006: from 0.1 on a shift, from 0.25 on a large one).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from models_registry.rules.feature_values import Array, Column, Kind
from models_registry.rules.reference_samples import KeptFeature

PSI_BINS = 10
SHOWN_BINS = 20
MOST_REFERENCE = 2000
"""Values of a feature that are compared with: enough for a score to be right within 0.0005."""
MOST_TEXTS = 30
OTHER = "…"
_HALF = 0.5


@dataclass(frozen=True, slots=True)
class Shares:
    """A feature's distribution: the share of its values in each bin.

    Of numbers there are one bin below the first bound, one between each two, and one above the
    last; values that are missing lie in the last. Of texts there is one bin for each of `words`.
    """

    bounds: tuple[float, ...]
    words: tuple[str, ...]
    shares: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Reference:
    """A feature in training: `values` in order (missing ones as infinity), or `counts` of texts."""

    name: str
    kind: Kind
    rows: int
    values: Array
    counts: Mapping[str, int]
    psi_edges: Array
    psi_counts: Array
    shown: Shares


@dataclass(frozen=True, slots=True)
class FeatureDrift:
    """One feature now: its score and PSI, and what chance alone would give in 19 of 20 cases."""

    name: str
    kind: Kind
    rows: int
    score: float
    psi: float
    by_chance: float
    training: Shares
    now: Shares


def reference_of(feature: KeptFeature) -> Reference:
    """A feature of a training sample, ready to be compared with."""
    if feature.kind == "text":
        return text_reference(feature.name, feature.counts)
    held = np.asarray(feature.values, np.float64)
    there = feature.rows - feature.missing
    # The values may have been thinned out; those that are missing keep their share.
    missing = round(len(held) * feature.missing / there) if there else feature.missing
    return number_reference(
        feature.name, np.append(held, np.full(missing, np.nan)), rows=feature.rows
    )


def number_reference(name: str, values: Array, *, rows: int = 0) -> Reference:
    """What is known of a feature of numbers; `values` in any order, NaN where one is missing.

    `rows`: how many there were, where `values` are a part of them that stands for all.
    """
    ordered = np.sort(_placed(values))
    edges = _psi_edges(ordered)
    kept = ordered
    if len(ordered) > MOST_REFERENCE:
        # Evenly spaced order statistics: the distribution function moves by half a step at most.
        places = (np.arange(MOST_REFERENCE) + 0.5) * len(ordered) / MOST_REFERENCE
        kept = ordered[places.astype(np.int64)]
    bounds = _shown_bounds(ordered)
    return Reference(
        name=name,
        kind="number",
        rows=rows or len(ordered),
        values=kept,
        counts={},
        psi_edges=edges,
        psi_counts=_counted(ordered, edges),
        shown=Shares(bounds, (), _shares(ordered, bounds)),
    )


def text_reference(name: str, counts: Mapping[str, int]) -> Reference:
    """What is known of a feature of texts: how often each occurred in training."""
    known = dict(sorted(counts.items(), key=lambda one: (-one[1], one[0]))[:MOST_TEXTS])
    rest = sum(counts.values()) - sum(known.values())
    words = (*known, OTHER)
    held = np.asarray([*known.values(), rest], np.float64)
    rows = int(held.sum())
    empty = np.zeros(0)
    shown = Shares((), words, tuple(float(one) for one in held / max(rows, 1)))
    return Reference(name, "text", rows, empty, dict(known), empty, held, shown)


def drift_of(reference: Reference, column: Column) -> FeatureDrift:
    """How far a feature's values now are from training. Needs one value at least."""
    rows = len(column.values)
    if reference.kind == "text":
        counts = _text_counts(reference, column.values)
        shares = counts / rows
        training = reference.psi_counts / max(reference.rows, 1)
        score = float(np.abs(shares - training).sum() / 2)
        now = Shares((), reference.shown.words, tuple(float(one) for one in shares))
    else:
        ordered = np.sort(_placed(column.values.astype(np.float64)))
        counts = _counted(ordered, reference.psi_edges)
        score = ks_statistic(reference.values, ordered)
        now = Shares(reference.shown.bounds, (), _shares(ordered, reference.shown.bounds))
    return FeatureDrift(
        name=reference.name,
        kind=reference.kind,
        rows=rows,
        score=score,
        psi=stability_index(reference.psi_counts, counts),
        by_chance=ks_by_chance(reference.rows, rows),
        training=reference.shown,
        now=now,
    )


def ks_statistic(one: Array, other: Array) -> float:
    """The two-sample Kolmogorov-Smirnov statistic of two samples in order of size."""
    both = np.concatenate([one, other])
    below_one = np.searchsorted(one, both, side="right") / len(one)
    below_other = np.searchsorted(other, both, side="right") / len(other)
    return float(np.abs(below_one - below_other).max())


def ks_by_chance(one: int, other: int, *, level: float = 0.05) -> float:
    """The statistic that two samples of so many rows exceed by chance in `level` of all cases.

    The asymptotic bound sqrt(-ln(level / 2) / 2) * sqrt((n + m) / (n m)); at most 1.
    """
    factor = math.sqrt(-math.log(level / 2) / 2)
    return min(1.0, factor * math.sqrt((one + other) / (one * other)))


def stability_index(training: Array, now: Array) -> float:
    """The population stability index of two sets of counts over the same bins.

    Each bin counts half an observation more than it has (Jeffreys): an empty one must not make the
    sum infinite, and of few rows a fixed small share would weigh far too much.
    """
    expected = (training + _HALF) / (training.sum() + _HALF * len(training))
    actual = (now + _HALF) / (now.sum() + _HALF * len(now))
    return float(((actual - expected) * np.log(actual / expected)).sum())


def _placed(values: Array) -> Array:
    """Missing values stand above all others: a feature that goes missing moves the score, too."""
    return np.where(np.isnan(values), np.inf, values)


def _psi_edges(ordered: Array) -> Array:
    """Bounds of ten bins of equal share; fewer where one value takes more than one of them."""
    finite = ordered[np.isfinite(ordered)]
    if not len(finite):
        return np.zeros(0)
    # The last edge is the greatest value: what is above all of training, and what is missing, has
    # a bin of its own.
    places = [-(-len(finite) * tenth // PSI_BINS) - 1 for tenth in range(1, PSI_BINS + 1)]
    return np.unique(finite[np.maximum(places, 0)])


def _counted(ordered: Array, edges: Array) -> Array:
    """How many values lie at or below each edge and above the one before; the last: above all."""
    below = np.searchsorted(ordered, edges, side="right")
    return np.diff(np.concatenate([[0], below, [len(ordered)]])).astype(np.float64)


def _shown_bounds(ordered: Array) -> tuple[float, ...]:
    finite = ordered[np.isfinite(ordered)]
    if not len(finite):
        return (0.0,)
    low, high = np.quantile(finite, (0.005, 0.995))
    if low == high:
        return (float(low),)
    return tuple(float(f"{one:.6g}") for one in np.linspace(low, high, SHOWN_BINS + 1))


def _shares(ordered: Array, bounds: tuple[float, ...]) -> tuple[float, ...]:
    counts = _counted(ordered, np.asarray(bounds))
    return tuple(round(float(one), 6) for one in counts / max(len(ordered), 1))


def _text_counts(reference: Reference, values: Array) -> Array:
    known = Counter(str(value) for value in values)
    held = [known.get(word, 0) for word in reference.counts]
    return np.asarray([*held, len(values) - sum(held)], np.float64)
