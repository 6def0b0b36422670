"""Which two versions of an endpoint are compared by their answers, and where an experiment runs."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from deployments.models import (
    ACTIVE_ROLLOUTS,
    Endpoint,
    Experiment,
    ExperimentState,
    Rollout,
    TrafficSplit,
)

Pair = tuple[int, int]
"""Baseline and candidate."""


@dataclass(frozen=True, slots=True)
class Observed:
    """By endpoint id: the pair to compare, and the endpoints with a running experiment."""

    pairs: dict[int, Pair] = field(default_factory=dict)
    experiments: frozenset[int] = frozenset()


def observed(endpoints: Collection[Endpoint]) -> Observed:
    """What is to be observed at these endpoints; two queries.

    A rollout's pair goes before an experiment's, and that before a mirror's: what moves traffic
    by itself has to know. Expects `current` to be loaded.
    """
    ids = [endpoint.pk for endpoint in endpoints]
    pairs: dict[int, Pair] = {}
    for endpoint in endpoints:
        if endpoint.current is not None and (pair := _mirrored(endpoint.current)):
            pairs[endpoint.pk] = pair
    experiments = Experiment.objects.filter(endpoint_id__in=ids, state=ExperimentState.RUNNING)
    running = list(experiments.values_list("endpoint_id", "baseline", "candidate"))
    pairs |= {endpoint: (baseline, candidate) for endpoint, baseline, candidate in running}
    rollouts = Rollout.objects.filter(endpoint_id__in=ids, state__in=ACTIVE_ROLLOUTS)
    pairs |= {
        endpoint: (baseline, candidate)
        for endpoint, baseline, candidate in rollouts.values_list(
            "endpoint_id", "baseline", "version"
        )
    }
    return Observed(pairs, frozenset(endpoint for endpoint, _, _ in running))


def _mirrored(split: TrafficSplit) -> Pair | None:
    """The version with most traffic against the mirror's."""
    if not split.mirror:
        return None
    candidate = int(split.mirror["version"])
    carrying = {int(version): points for version, points in split.weights.items() if points}
    others = {version: points for version, points in carrying.items() if version != candidate}
    if not others:
        return None
    return max(others, key=lambda version: (others[version], version)), candidate
