"""The splits that rollbacks write, by hand and by themselves, and the job that watches each."""

from __future__ import annotations

from dataclasses import replace

from console.actors import Actor
from console.services import jobs
from deployments.models import Endpoint, EndpointMode, SplitCause, TrafficSplit
from deployments.rules.traffic import splits
from deployments.services.traffic.splits import Wanted, wanted_of, write_split

SYSTEM = "traffic control"
"""Source of what the traffic control does by itself, in the audit trail."""


def all_traffic_on(now: Wanted, version: int) -> Wanted:
    """Everybody on one version in normal mode, without what would lead elsewhere.

    Rules, testers and mirrors of other versions would keep callers on the one to get away from.
    """
    mirror = now.mirror if now.mirror and int(now.mirror["version"]) == version else None
    return replace(
        now,
        mode=EndpointMode.NORMAL,
        weights={version: splits.WHOLE},
        header_rules=[rule for rule in now.header_rules if int(rule["version"]) == version],
        testers=[tester for tester in now.testers if int(tester["version"]) == version],
        mirror=mirror,
        probe=0,
    )


def write_rollback(
    endpoint: Endpoint, version: int, *, reason: str, actor: Actor, cause: SplitCause
) -> TrafficSplit:
    """Send everybody to one version, and have a job see to it that every gateway does.

    The caller holds the endpoint's lock and has seen that the version is ready.
    """
    now = wanted_of(endpoint.current)
    split = write_split(
        endpoint,
        all_traffic_on(now, version),
        cause=cause,
        reason=reason,
        actor=actor,
        action="endpoint.rollback",
    )
    left = sorted(v for v, points in now.weights.items() if points and v != version)
    split.job = jobs.enqueue(
        kind="rollback",
        subject=str(endpoint),
        subject_url=f"/endpoints/{endpoint}/",
        arguments={"split": split.pk, "to": version, "left": left},
        idempotency_key=f"rollback:{split.pk}",
        actor=actor,
    )
    split.save(update_fields=["job"])
    return split
