"""Taking a version off a node: callers first, then what they still wait for, then the files."""

from __future__ import annotations

import time
from datetime import datetime
from pathlib import Path
from typing import Any

from django.utils import timezone

from console.adapters.triton import TritonClient
from console.errors import Conflict, Unavailable
from console.models import Job
from console.services import audit
from console.services.job_runs import JobRun
from deployments.adapters import node_lock
from deployments.models import Deployment, Gateway, Placement, PlacementState
from deployments.services.fleet.placements import (
    LOCK_WAIT_S,
    needed_by_others,
    placements_in_full,
    set_state,
    take_off,
    triton_of,
)

GATEWAYS_WITHIN_S = 10.0
DRAINED_WITHIN_S = 30.0
QUIET_S = 1.0
LOOK_EVERY_S = 0.25


def run_unload(run: JobRun) -> dict[str, Any]:
    """Drain the job's placement and unload it. Safe to run again after it was killed anywhere."""
    placement = _placement_for(run)
    if placement.state in (PlacementState.UNLOADED, PlacementState.FAILED):
        return {"state": placement.state}
    if placement.state == PlacementState.READY:
        run.progress(0.05, "Taking it from the gateways")
        with run.transaction():
            set_state(placement, PlacementState.DRAINING)
    _wait_for_gateways(run, placement, since=placement.changed_at)
    node, deployment = placement.node, placement.deployment
    triton_model, number = deployment.generation.triton_model, deployment.release.version.number
    shared = needed_by_others(placement)
    if shared:
        run.log("Another environment uses these files on the node, so they stay loaded.")
    else:
        with triton_of(node) as triton:
            run.progress(0.4, "Waiting for requests under way")
            _drain(run, triton, triton_model, number)
            run.progress(0.8, "Unloading")
            root = Path(node.repository)
            with node_lock.exclusive(root, wait_s=LOCK_WAIT_S, check=run.check):
                take_off(triton, root, triton_model, number)
    with run.transaction():
        set_state(placement, PlacementState.UNLOADED)
        close_when_empty(deployment)
        audit.record(
            actor=run.actor,
            action="placement.unloaded",
            subject=str(deployment.release.version),
            subject_url=f"/deployments/{deployment.pk}/",
            after={
                "environment": deployment.release.environment.name,
                "node": node.name,
                "triton_model": triton_model,
                "files_kept": shared,
            },
        )
    return {"state": placement.state, "triton_model": triton_model, "version": number}


def unload_ended(job: Job) -> None:
    """An unload job ended without success: the placement serves nobody, so it counts as failed.

    Whatever is left of it on the node is removed by the next reconcile.
    """
    placement = placements_in_full().filter(job=job, state=PlacementState.DRAINING).first()
    if placement is None:
        return
    set_state(placement, PlacementState.FAILED, detail=job.error_message or "Cancelled.")
    close_when_empty(placement.deployment)


def close_when_empty(deployment: Deployment) -> None:
    """Once nothing of a deployment holds on to a node any more it is removed."""
    ended = (PlacementState.UNLOADED, PlacementState.FAILED)
    if not deployment.placements.exclude(state__in=ended).exists():
        Deployment.objects.filter(pk=deployment.pk, removed_at__isnull=True).update(
            removed_at=timezone.now()
        )


def _placement_for(run: JobRun) -> Placement:
    arguments = run.job.arguments
    placement = (
        placements_in_full()
        .filter(deployment_id=arguments["deployment"], node__name=arguments["node"])
        .first()
    )
    if placement is None:
        raise Conflict("This placement does not exist any more.", code="placement_gone")
    return placement


def _wait_for_gateways(run: JobRun, placement: Placement, since: datetime) -> None:
    """Until each connected gateway has acknowledged a state in which the placement has no place."""
    environment = placement.deployment.release.environment_id
    deadline = time.monotonic() + GATEWAYS_WITHIN_S
    while True:
        run.check()
        behind = list(
            Gateway.objects.filter(connected=True, listeners__environment_id=environment)
            .exclude(acknowledged_at__gte=since)
            .values_list("name", flat=True)
        )
        if not behind:
            return
        if time.monotonic() >= deadline:
            run.log(
                f"Not acknowledged within {GATEWAYS_WITHIN_S:g} s by {', '.join(behind)}; "
                "going on, as no traffic is sent to this version.",
                level="warning",
            )
            return
        time.sleep(0.05)


def _drain(run: JobRun, triton: TritonClient, triton_model: str, number: int) -> None:
    """Until Triton has answered nothing for a second, at most half a minute."""
    deadline = time.monotonic() + DRAINED_WITHIN_S
    last, quiet_since = -1, time.monotonic()
    while time.monotonic() < deadline:
        run.check()
        try:
            now = sum(
                one.success.count + one.fail.count
                for one in triton.statistics()
                if (one.model, one.version) == (triton_model, number)
            )
        except Unavailable as error:
            run.log(f"{error.message} Nothing is under way there.", level="warning")
            return
        if now != last:
            last, quiet_since = now, time.monotonic()
        elif time.monotonic() - quiet_since >= QUIET_S:
            return
        time.sleep(LOOK_EVERY_S)
    run.log("Requests kept coming; they are cut off now.", level="warning")
