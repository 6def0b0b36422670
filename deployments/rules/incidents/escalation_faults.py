"""Which versions of an endpoint are unhealthy, and why."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from deployments.rules.incidents.escalation_state import Health, Progress, VersionHealth
from deployments.rules.incidents.rollback_policies import RollbackPolicy


def fault_of(
    policy: RollbackPolicy, version: VersionHealth, *, fewest: int, fresh: bool = True
) -> str:
    """Why a version is unhealthy by its numbers: error_rate, latency, or "" when it is not."""
    if not fresh or version.requests < max(fewest, 1):
        return ""
    if version.provider_faults * 100 >= policy.fault_percent * version.requests:
        return "error_rate"
    if policy.p99_ms is not None and (version.p99_ms or 0.0) > policy.p99_ms:
        return "latency"
    return ""


def find_unhealthy(
    policy: RollbackPolicy, progress: Progress, health: Health, now: datetime
) -> tuple[Progress, tuple[int, ...], str]:
    """Which carriers are unhealthy, and why; the progress knows since when a node is missing.

    What a version without a node fails is the node's fault, whichever is seen first.
    """
    progress = look_for_nodes(progress, health, now)
    missing = tuple(v for v in health.carriers if not nodes_of(health, v))
    since = progress.missing_since
    if since is not None and now - since >= timedelta(seconds=policy.no_node_s):
        return progress, missing, "no_node"
    if progress.back_at == now:
        # The numbers reach back to when nodes were missing; the next ones will not.
        return progress, (), ""
    causes = {
        version: fault_of(policy, numbers, fewest=policy.min_requests, fresh=health.fresh)
        for version in health.carriers
        if (numbers := health.versions.get(version)) is not None
    }
    bad = tuple(version for version, cause in causes.items() if cause)
    if not bad:
        return progress, (), ""
    return progress, bad, "no_node" if set(bad) <= set(missing) else causes[bad[0]]


def look_for_nodes(progress: Progress, health: Health, now: datetime) -> Progress:
    """The progress with what is to be remembered of missing nodes: since when, or when all were
    back."""
    if any(not nodes_of(health, version) for version in health.carriers):
        return replace(progress, missing_since=progress.missing_since or now)
    if progress.missing_since is not None:
        return replace(progress, missing_since=None, back_at=now)
    return progress


def nodes_of(health: Health, version: int) -> int:
    """On how many nodes that can be reached a version is."""
    return health.versions.get(version, VersionHealth()).nodes
