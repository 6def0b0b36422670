"""Which versions are on trial, and which one answers for them when they fail."""

from __future__ import annotations

from collections.abc import Mapping

from deployments.rules.gateways.state import EndpointState
from deployments.rules.traffic.splits import WHOLE


def baseline_of(weights: Mapping[int, int]) -> int | None:
    """The version with more than half of the weight, which answers for those on trial."""
    return next((v for v, points in weights.items() if 2 * points > WHOLE), None)


def on_trial(endpoint: EndpointState) -> tuple[int, ...]:
    """Versions with less than half of the weight whose failures the baseline makes good.

    One without a node is none of them: nothing would be heard of its failures.
    """
    baseline = endpoint.retry_onto
    if baseline is None or not _has_nodes(endpoint, baseline):
        return ()
    return tuple(
        version
        for version, points in sorted(endpoint.weights.items())
        if 0 < 2 * points < WHOLE and version != baseline and _has_nodes(endpoint, version)
    )


def prepared(endpoint: EndpointState) -> tuple[tuple[int, int], ...]:
    """Versions that could be on trial, each with the one that would answer for it (or itself).

    Whatever the weights are: then a change of weights is a change of routes alone. A group of
    hosts that comes and goes with them costs time, and whoever is on the way to it an answer.
    """
    ready = [version for version in sorted(endpoint.targets) if _has_nodes(endpoint, version)]
    if not endpoint.access.retries.onto_baseline or len(ready) < 2:
        return ()
    baseline = endpoint.retry_onto
    return tuple(
        (version, baseline if baseline is not None and baseline in ready else version)
        for version in ready
    )


def _has_nodes(endpoint: EndpointState, version: int) -> bool:
    target = endpoint.targets.get(version)
    return target is not None and bool(target.nodes)
