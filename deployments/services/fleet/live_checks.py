"""What is live is verified again, by the clock: signatures, digests, the bytes on each node."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from console.actors import Actor, require
from console.errors import CovenantError, Unavailable
from console.models import Job, JobState, Role, Severity, User
from console.services import audit, jobs, notices
from console.services.job_runs import JobRun
from deployments.adapters import node_lock, repository
from deployments.models import Node, NodeState, Placement, PlacementState
from deployments.services.fleet.node_files import signed_files
from deployments.services.fleet.placements import (
    LOCK_WAIT_S,
    announce_placement,
    placements_in_full,
)
from models_registry.models import RegisteredModel, SeatHolder
from models_registry.services.release_checks import verify_release

LIVE = (PlacementState.READY, PlacementState.DRAINING)
MOST_TOLD = 200
MOST_FAULTS = 50

Fault = dict[str, str]
"""`code` and `detail` of one thing that is not as it was signed."""


def verify_node(*, node: Node, actor: Actor, key: str = "") -> Job:
    """Ask the node's worker to verify all that it has live; a job under way is given again."""
    require(actor, "node.verify")
    with transaction.atomic():
        node = Node.objects.select_for_update().get(pk=node.pk)
        running = Job.objects.filter(
            kind="verify", queue=node.queue, state__in=[JobState.QUEUED, JobState.RUNNING]
        ).first()
        if running is not None:
            return running
        audit.record(
            actor=actor,
            action="node.verify",
            subject=f"node {node.name}",
            subject_url=f"/nodes/{node.name}/",
        )
        return jobs.enqueue(
            kind="verify",
            queue=node.queue,
            subject=f"node {node.name}",
            subject_url=f"/nodes/{node.name}/",
            actor=actor,
            arguments={"node": node.name},
            idempotency_key=key,
        )


def verify_all(*, slot: str) -> int:
    """Ask for the verification of every node that is there; once for each `slot` of the schedule.

    A lost node is verified when it is back. Gives how many were asked.
    """
    nodes = list(Node.objects.exclude(state=NodeState.LOST))
    for node in nodes:
        verify_node(node=node, actor=Actor.system("schedule"), key=f"verify:{node.name}:{slot}")
    return len(nodes)


def run_verify(run: JobRun) -> dict[str, Any]:
    """Verify each live placement of the job's node; what serves goes on serving, whatever is found.

    Drift is noted on the placement, in the audit trail and to the people who answer for it, once
    for as long as it is the same.
    """
    node = Node.objects.get(name=run.job.arguments["node"])
    placements = list(placements_in_full().filter(node=node, state__in=LIVE).order_by("pk"))
    drifted = []
    for step, placement in enumerate(placements):
        run.progress(step / max(len(placements), 1), f"Verifying {_name(placement)}")
        faults = _faults_of(run, placement)
        with run.transaction():
            _note(placement, faults, run.actor)
        if faults:
            drifted.append(_name(placement))
            for fault in faults:
                run.log(fault["detail"], level="warning")
    run.log(
        f"{len(placements) - len(drifted)} of {len(placements)} placements are as they were signed."
    )
    return {"verified": len(placements), "drifted": drifted}


def _faults_of(run: JobRun, placement: Placement) -> list[Fault]:
    """What is wrong; looked at a second time with the node to ourselves before it is believed."""
    faults = _look(run, placement)
    if not faults:
        return []
    root = Path(placement.node.repository)
    with node_lock.exclusive(root, wait_s=LOCK_WAIT_S, check=run.check):
        placement.refresh_from_db(fields=["state", "digests"])
        # It may have been taken off, as it should be, while we looked.
        return _look(run, placement) if placement.state in LIVE else []


def _look(run: JobRun, placement: Placement) -> list[Fault]:
    deployment = placement.deployment
    faults: list[Fault] = []
    try:
        verify_release(deployment.release, read_files=False, restoring=True)
    except Unavailable:
        raise
    except CovenantError as error:
        faults.append({"code": error.code, "detail": error.message})
    try:
        wanted = signed_files(placement)
    except Unavailable:
        raise
    except CovenantError as error:
        return [*faults, {"code": error.code, "detail": error.message}]
    found = repository.differences(
        Path(placement.node.repository),
        deployment.generation.triton_model,
        deployment.release.version.number,
        config=wanted.config,
        files=wanted.files,
        check=run.check,
    )
    return [*faults, *({"code": "files_differ", "detail": text} for text in found)][:MOST_FAULTS]


def _note(placement: Placement, faults: list[Fault], actor: Actor) -> None:
    placement = Placement.objects.select_for_update().get(pk=placement.pk)
    before, placement.verification_faults = placement.verification_faults, faults
    placement.verified_at = timezone.now()
    placement.save(update_fields=["verified_at", "verification_faults"])
    if before == faults:
        return
    in_full = placements_in_full().get(pk=placement.pk)
    audit.record(
        actor=actor,
        action="placement.drift" if faults else "placement.verified",
        subject=_name(in_full),
        subject_url=f"/deployments/{placement.deployment_id}/",
        before={"faults": before},
        after={"faults": faults},
    )
    announce_placement(in_full)
    notices.end(key=_key(placement))
    if faults:
        model = in_full.deployment.release.version.model
        notices.notify(
            people=_answering(model),
            kind="placement.drift",
            key=_key(placement),
            severity=Severity.CRITICAL,
            subject=_name(in_full),
            subject_url=f"/nodes/{in_full.node.name}/",
            data={"node": in_full.node.name, "detail": faults[0]["detail"]},
        )


def _answering(model: RegisteredModel) -> list[User]:
    """Who has to know: operators, and the people of the model."""
    seats = SeatHolder.objects.filter(model=model).values("user_id")
    return list(
        User.objects.filter(
            Q(roles__overlap=[Role.SRE, Role.PLATFORM_ADMIN])
            | Q(pk__in=seats)
            | Q(pk=model.owner_id),
            is_active=True,
        ).distinct()[:MOST_TOLD]
    )


def _name(placement: Placement) -> str:
    return f"{placement.deployment.release.version} on {placement.node.name}"


def _key(placement: Placement) -> str:
    return f"placement.drift:{placement.pk}"
