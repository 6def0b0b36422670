"""Level 1 where the last good version is gone: it is deployed again while a higher level answers.

Its release is deployed by the usual way, with the usual checks of signatures. What is under way
stands on the endpoint's rollback policy row, so that a restart of the traffic control loses none.
"""

from __future__ import annotations

import uuid
from dataclasses import replace
from datetime import datetime
from typing import Any

from django.db import transaction

from console.actors import Actor
from console.errors import CovenantError
from console.services import audit
from deployments.models import (
    Deployment,
    Endpoint,
    EndpointMode,
    Incident,
    IncidentSeverity,
    NodeState,
    Placement,
    PlacementState,
    RollbackPolicy,
    SplitCause,
    TrafficSplit,
)
from deployments.rules.incidents.severity import FALLBACK, OPEN, OTHER_VERSION
from deployments.selectors.incidents.rollback_choice import releases_to_deploy_again
from deployments.services.fleet.deploys import ENDED, deploy_release
from deployments.services.incidents import records as incidents
from deployments.services.incidents.rollback_policies import locked_policy
from deployments.services.traffic.rollback_splits import SYSTEM, write_rollback
from deployments.services.traffic.splits import locked_endpoint, wanted_of, write_split
from models_registry.models import Release
from models_registry.services.contract_checks import contract_that_holds


def version_to_deploy(endpoint: Endpoint, numbers: list[int]) -> Release | None:
    """The release of the first of these versions that has an approved one here."""
    releases = releases_to_deploy_again(endpoint, numbers)
    return next((releases[number] for number in numbers if number in releases), None)


def answer_meanwhile(
    endpoint: Endpoint, *, cause: SplitCause, reason: str, actor: Actor
) -> TrafficSplit:
    """Level 2 where the contract that holds has a fallback, else level 3; weights stay.

    The caller holds the endpoint's lock.
    """
    has_fallback = contract_that_holds(endpoint.model) is not None
    mode = EndpointMode.FALLBACK if has_fallback else EndpointMode.OPEN
    return write_split(
        endpoint,
        replace(wanted_of(endpoint.current), mode=mode, probe=0),
        cause=cause,
        reason=reason,
        actor=actor,
        action="endpoint.rollback",
    )


def deploy_again(
    endpoint: Endpoint,
    release: Release,
    *,
    split: TrafficSplit,
    incident: Incident,
    by_hand: bool,
    at: datetime,
    actor: Actor,
) -> Deployment:
    """Have the release deployed, and remember what is to come of it.

    By hand, all traffic goes there once it is ready; else the escalation returns in its own steps.
    Raises what `deploy_release` raises: not approved, a signature that does not hold, no node.
    """
    deployment = deploy_release(release_id=release.pk, actor=actor)
    row = locked_policy(endpoint, actor)
    version = release.version.number
    row.progress = {
        **row.progress,
        "redeploy": {
            "version": version,
            "deployment": str(deployment.pk),
            "split": split.pk,
            "incident": str(incident.pk),
            "by_hand": by_hand,
            "at": at.isoformat(),
        },
    }
    row.save(update_fields=["progress"])
    incidents.add_event(
        incident=incident,
        kind="redeploy",
        at=at,
        actor=actor,
        message=f"v{version} is being deployed again.",
        data={"version": version, "deployment": str(deployment.pk)},
    )
    return deployment


def finish_redeploys(now: datetime) -> int:
    """Look at each re-deploy that is under way; gives how many ended. Safe to run twice."""
    waiting = RollbackPolicy.objects.filter(progress__has_key="redeploy").select_related(
        "endpoint__model", "endpoint__environment"
    )
    ended = 0
    for row in waiting:
        endpoint = row.endpoint
        with transaction.atomic():
            ended += _look(endpoint, now)
    return ended


def _look(endpoint: Endpoint, now: datetime) -> bool:
    actor = Actor.system(SYSTEM)
    endpoint = locked_endpoint(
        endpoint.environment.name, endpoint.model.name, actor, "endpoint.rollback"
    )
    row = locked_policy(endpoint, actor)
    under_way = row.progress.get("redeploy")
    if under_way is None:
        return False
    incident = Incident.objects.select_related("endpoint__model", "endpoint__environment").get(
        pk=uuid.UUID(under_way["incident"])
    )
    version, by_hand = under_way["version"], under_way["by_hand"]
    ready, fault = _came_of_it(under_way["deployment"])
    current = endpoint.current
    taken_over = by_hand and (current is None or current.pk != under_way["split"])
    if not (ready or fault or taken_over):
        return False
    row.progress = {name: row.progress[name] for name in row.progress if name != "redeploy"}
    row.save(update_fields=["progress"])
    if taken_over:
        _note(incident, "redeploy_left", now, actor, "The traffic was moved by somebody else.")
    elif ready:
        _note(incident, "redeploy_ready", now, actor, f"v{version} is ready again.")
        if by_hand:
            _move(endpoint, incident, version, now, actor)
    else:
        _give_up(endpoint, incident, version, fault, now, actor)
    return True


def _move(
    endpoint: Endpoint, incident: Incident, version: int, now: datetime, actor: Actor
) -> None:
    split = write_rollback(
        endpoint,
        version,
        reason=f"v{version} is ready again: the rollback goes on to it.",
        actor=actor,
        cause=SplitCause.ROLLBACK,
    )
    incidents.add_event(
        incident=incident,
        kind="moved",
        at=now,
        actor=actor,
        level=OTHER_VERSION,
        split=split,
        message=split.reason,
    )


def _give_up(
    endpoint: Endpoint, incident: Incident, version: int, fault: str, now: datetime, actor: Actor
) -> None:
    """The deploy failed: what answers meanwhile goes on, and somebody has to see to it."""
    current = endpoint.current
    level = OPEN if current is not None and current.mode == EndpointMode.OPEN else FALLBACK
    incidents.open_incident(
        endpoint=endpoint,
        cause="redeploy_failed",
        title=f"v{version} could not be deployed again",
        severity=IncidentSeverity.P1,
        at=now,
        actor=actor,
        version=version,
        level=level,
        message=fault,
    )
    audit.record(
        actor=actor,
        action="endpoint.redeploy_failed",
        subject=str(endpoint),
        subject_url=f"/incidents/{incident.pk}/",
        reason=fault,
        after={"version": version, "level": level},
    )


def _came_of_it(deployment_id: str) -> tuple[bool, str]:
    """Whether the deployment is ready somewhere; else why it never will be, or ""."""
    deployment = Deployment.objects.filter(pk=deployment_id).first()
    if deployment is None or deployment.removal_requested_at is not None:
        return False, "Its deployment was removed."
    placements = list(deployment.placements.select_related("node"))
    if any(
        one.state == PlacementState.READY and one.node.state != NodeState.LOST for one in placements
    ):
        return True, ""
    if placements and any(one.state not in ENDED for one in placements):
        return False, ""
    return False, "; ".join(f"{one.node.name}: {one.detail}" for one in placements) or "No node."


def _waits_for_its_node(release: Release) -> bool:
    """Whether it is placed, on a node that is lost: nothing to deploy, it comes back with that."""
    return Placement.objects.filter(
        deployment__release=release,
        deployment__removed_at__isnull=True,
        state=PlacementState.READY,
    ).exists()


def _note(incident: Incident, kind: str, at: datetime, actor: Actor, message: str) -> None:
    incidents.add_event(incident=incident, kind=kind, at=at, actor=actor, message=message)


def state_of_redeploy(row: RollbackPolicy | None) -> dict[str, Any] | None:
    """What is under way at an endpoint, as it is stored; None when nothing is."""
    return row.progress.get("redeploy") if row is not None else None


def start_by_itself(
    endpoint: Endpoint,
    version: int,
    *,
    split: TrafficSplit,
    incident: Incident,
    at: datetime,
    actor: Actor,
) -> None:
    """As `deploy_again`, for the escalation: a refusal is a line of the timeline, nothing more."""
    release = version_to_deploy(endpoint, [version])
    if release is None or _waits_for_its_node(release):
        return
    try:
        with transaction.atomic():
            deploy_again(
                endpoint,
                release,
                split=split,
                incident=incident,
                by_hand=False,
                at=at,
                actor=actor,
            )
    except CovenantError as error:
        _note(incident, "redeploy_refused", at, actor, f"{error.message} {error.hint}".strip())
