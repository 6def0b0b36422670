"""What the escalation rule has to know of each endpoint that goes down the levels by itself."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from django.db.models import Count, Q

from deployments.models import (
    ACTIVE_ROLLOUTS,
    Endpoint,
    Incident,
    IncidentState,
    NodeState,
    Placement,
    PlacementState,
    Rollout,
    SplitState,
    TrafficSplit,
)
from deployments.rules.incidents.escalation_state import (
    Health,
    Progress,
    VersionHealth,
    read_progress,
)
from deployments.rules.incidents.rollback_policies import RollbackPolicy, parse_policy
from deployments.rules.statistics.traffic_windows import WindowNumbers
from deployments.selectors.incidents.rollback_choice import (
    releases_to_deploy_again,
    versions_before,
)
from deployments.selectors.statistics.analysis_windows import live_rings
from models_registry.models import ServiceContract

FRESH_S = 4.0
"""Numbers are written each second; older ones than this say nothing of now."""

Nodes = Mapping[tuple[int, int], Mapping[int, int]]
"""(model, environment) -> version -> nodes that have it ready and can be reached."""


@dataclass(frozen=True, slots=True)
class WatchedEndpoint:
    """An endpoint whose policy is automatic, with what can be known of all of them at once."""

    endpoint: Endpoint
    policy: RollbackPolicy
    progress: Progress
    health: Health


def watched_endpoints(now: datetime, *, starting: bool = False) -> list[WatchedEndpoint]:
    """Every endpoint that acts by itself; four queries and one look into the live numbers.

    `starting` goes into each `Health`.
    """
    endpoints = list(
        Endpoint.objects.filter(current__isnull=False)
        .filter(
            Q(rollback_policy__automatic=True)
            | Q(rollback_policy__isnull=True, environment__production=True)
        )
        .select_related("environment", "model", "current", "rollback_policy")
        .order_by("pk")
    )
    policies = {one.pk: _policy(one) for one in endpoints}
    longest = max((policy.window_s for policy, _ in policies.values()), default=0)
    rings = live_rings([str(one) for one in endpoints], seconds=longest)
    nodes = _nodes({one.environment_id for one in endpoints})
    disturbed = set(
        Incident.objects.exclude(state=IncidentState.RESOLVED).values_list("endpoint_id", flat=True)
    )
    candidates = dict(
        Rollout.objects.filter(state__in=ACTIVE_ROLLOUTS).values_list("endpoint_id", "version")
    )
    found = []
    for endpoint in endpoints:
        policy, progress = policies[endpoint.pk]
        split = endpoint.current
        if split is None:
            continue
        seconds = min(float(policy.window_s), _age_s(split, now))
        if progress.back_at is not None:
            seconds = min(seconds, max((now - progress.back_at).total_seconds(), 0.0))
        numbers = rings.window(str(endpoint), seconds=seconds, now=now)
        health = Health(
            revision=split.revision,
            mode=split.mode,
            weights={int(version): points for version, points in split.weights.items()},
            settled=split.applied_at is not None,
            fresh=_are_fresh(numbers),
            versions=_versions(numbers, nodes.get((endpoint.model_id, endpoint.environment_id))),
            incident_open=endpoint.pk in disturbed,
            spared=candidates.get(endpoint.pk),
            starting=starting,
        )
        found.append(WatchedEndpoint(endpoint, policy, progress, health))
    return found


def in_full(watched: WatchedEndpoint) -> Health:
    """The health with what is asked only where something has to be decided; four queries."""
    endpoint, health = watched.endpoint, watched.health
    before = versions_before(endpoint)
    reached = {version for version, numbers in health.versions.items() if numbers.nodes}
    missing = [version for version in before if version not in reached]
    releases = releases_to_deploy_again(endpoint, missing)
    refused = TrafficSplit.objects.filter(
        endpoint=endpoint, revision=watched.progress.revision, state=SplitState.REFUSED
    )
    return replace(
        health,
        others=tuple(version for version in before if version in reached),
        gone=tuple(version for version in missing if version in releases),
        fallback=ServiceContract.objects.holding().filter(model=endpoint.model_id).exists(),
        refused=refused.exists(),
    )


def _policy(endpoint: Endpoint) -> tuple[RollbackPolicy, Progress]:
    row = getattr(endpoint, "rollback_policy", None)
    if row is None:
        return RollbackPolicy(), Progress()
    return parse_policy(row.document), read_progress(row.progress.get("rule", {}))


def _nodes(environment_ids: Collection[int]) -> Nodes:
    rows = (
        Placement.objects.filter(
            state=PlacementState.READY,
            deployment__removed_at__isnull=True,
            deployment__release__environment_id__in=environment_ids,
        )
        .exclude(node__state=NodeState.LOST)
        .values_list(
            "deployment__release__version__model_id",
            "deployment__release__environment_id",
            "deployment__release__version__number",
        )
        .annotate(nodes=Count("pk"))
        .order_by()
    )
    found: dict[tuple[int, int], dict[int, int]] = defaultdict(dict)
    for model, environment, version, count in rows:
        found[(model, environment)][version] = count
    return found


def _versions(
    numbers: Mapping[int, WindowNumbers], nodes: Mapping[int, int] | None
) -> dict[int, VersionHealth]:
    nodes = nodes or {}
    return {
        version: VersionHealth(
            requests=one.requests,
            provider_faults=one.provider_faults,
            p99_ms=one.p99_ms,
            nodes=nodes.get(version, 0),
        )
        for version in {*numbers, *nodes}
        for one in [numbers.get(version, WindowNumbers())]
    }


def _are_fresh(numbers: Mapping[int, WindowNumbers]) -> bool:
    return bool(numbers) and min(one.age_s for one in numbers.values()) <= FRESH_S


def _age_s(split: TrafficSplit, now: datetime) -> float:
    """Seconds since the split is in effect: what was counted before says nothing of it."""
    return max((now - (split.applied_at or split.created_at)).total_seconds(), 0.0)
