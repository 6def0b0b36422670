"""The incident of a rollout that was taken back."""

from __future__ import annotations

from datetime import datetime

from console.actors import Actor
from deployments.models import IncidentSeverity, Rollout, TrafficSplit
from deployments.rules.incidents.severity import OTHER_VERSION
from deployments.services.incidents import records as incidents


def open_for(
    rollout: Rollout,
    cause: str,
    message: str,
    *,
    split: TrafficSplit | None,
    actor: Actor,
    now: datetime,
) -> None:
    """Callers met a bad version; belongs into the transaction that takes it off."""
    incident = incidents.open_incident(
        endpoint=rollout.endpoint,
        cause=cause,
        title=f"Rollout of v{rollout.version} was taken back by its analysis",
        severity=IncidentSeverity.P2,
        at=now,
        actor=actor,
        version=rollout.version,
        level=OTHER_VERSION,
        rollout=rollout,
        message=message,
    )
    if split is not None:
        incidents.add_event(
            incident=incident,
            kind="joined",
            at=now,
            actor=actor,
            level=OTHER_VERSION,
            split=split,
            message=f"v{rollout.version} has no traffic any more; v{rollout.baseline} serves.",
        )
