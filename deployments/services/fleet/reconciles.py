"""Making a node hold what it should: after a restart of its Triton, or when it has drifted."""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from console.actors import Actor
from console.adapters.triton import TritonClient
from console.errors import CovenantError, Unavailable
from console.services.job_runs import JobRun
from deployments.adapters import node_lock, repository
from deployments.models import Node, Placement, PlacementState, ServingGeneration
from deployments.selectors.statistics.watching import wanted_on
from deployments.services.fleet.node_files import node_files
from deployments.services.fleet.nodes import node_restored, reconcile_node
from deployments.services.fleet.placements import (
    HOLDING,
    LOCK_WAIT_S,
    placements_in_full,
    set_state,
    take_off,
    triton_of,
    wait_ready,
    weights_bytes,
)
from deployments.services.fleet.unloads import close_when_empty
from models_registry.services.release_checks import verify_release

LEFTOVER_AGE_S = 3600.0

Slot = tuple[str, int]
"""A Triton model and a version number."""


@dataclass(slots=True)
class _Found:
    loaded: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)


def run_reconcile(run: JobRun) -> dict[str, Any]:
    """Load on the job's node what should be loaded, and remove what an interrupted job left.

    With the argument `remove_extra` whatever else is there goes as well. A placement that cannot
    be restored fails with its reason and does not hold up the others.
    """
    node = Node.objects.get(name=run.job.arguments["node"])
    root = Path(node.repository)
    found = _Found()
    with (
        triton_of(node) as triton,
        node_lock.exclusive(root, wait_s=LOCK_WAIT_S, check=run.check),
    ):
        run.progress(0.05, "Comparing what is there with what should be")
        holding = list(placements_in_full().filter(node=node, state__in=HOLDING))
        extra = bool(run.job.arguments.get("remove_extra"))
        _remove_leftovers(triton, root, holding, found, everything=extra)
        _restore(run, triton, root, holding, found)
        repository.clean(root, older_than_s=LEFTOVER_AGE_S, now=time.time())
    node_restored(node.name)
    for kind, names in (
        ("Loaded", found.loaded),
        ("Could not load", found.failed),
        ("Removed", found.removed),
    ):
        if names:
            run.log(f"{kind}: {', '.join(names)}.")
    return {"loaded": found.loaded, "failed": found.failed, "removed": found.removed}


def check_live() -> int:
    """Ask for a reconcile of every node that lacks something it should have; gives how many.

    Nodes that cannot be reached are the watch's business.
    """
    asked = 0
    for node in Node.objects.exclude(state="lost"):
        try:
            wanted = wanted_on(node.name)
            with triton_of(node) as triton:
                missing = wanted - loaded_slots(triton)
        except Unavailable:
            continue
        if missing:
            reconcile_node(node=node, actor=Actor.system("node watch"))
            asked += 1
    return asked


def loaded_slots(triton: TritonClient) -> set[Slot]:
    """What Triton has loaded and ready."""
    return {
        (entry.name, int(entry.version))
        for entry in triton.index()
        if entry.state == "READY" and entry.version.isdecimal()
    }


def _slot(placement: Placement) -> Slot:
    deployment = placement.deployment
    return deployment.generation.triton_model, deployment.release.version.number


def _remove_leftovers(
    triton: TritonClient, root: Path, holding: list[Placement], found: _Found, *, everything: bool
) -> None:
    """Folders without a placement go first: a load would bring them back."""
    wanted = {_slot(placement) for placement in holding}
    ours = set(ServingGeneration.objects.values_list("triton_model", flat=True))
    for one in repository.present(root):
        slot = (one.triton_model, one.version)
        if slot not in wanted and (everything or one.triton_model in ours):
            take_off(triton, root, *slot)
            found.removed.append(f"{one.triton_model} v{one.version}")
    if not everything:
        return
    for name in {name for name, _ in loaded_slots(triton)} - {name for name, _ in wanted}:
        triton.unload(name)
        found.removed.append(name)


def _restore(
    run: JobRun, triton: TritonClient, root: Path, holding: list[Placement], found: _Found
) -> None:
    loaded = loaded_slots(triton)
    missing: dict[str, list[Placement]] = defaultdict(list)
    for placement in holding:
        if placement.state == PlacementState.READY and _slot(placement) not in loaded:
            missing[_slot(placement)[0]].append(placement)
    for step, (triton_model, placements) in enumerate(sorted(missing.items())):
        run.progress(0.2 + 0.7 * step / len(missing), f"Loading {triton_model}")
        placed = [one for one in placements if _placed(run, root, one, found)]
        size = sum(weights_bytes(one) for one in placed)
        refusal = _load(triton, triton_model, size) if placed else ""
        for placement in placed:
            _settle(run, triton, root, placement, refusal, found)


def _placed(run: JobRun, root: Path, placement: Placement, found: _Found) -> bool:
    """Verify a placement's release and files again, putting back what is missing."""
    triton_model, number = _slot(placement)
    try:
        verify_release(placement.deployment.release, restoring=True)
        with node_files(placement) as parts:
            repository.place(
                root,
                triton_model=triton_model,
                version=number,
                config=parts.config,
                files=parts.files,
            )
    except Unavailable as error:
        if error.retryable:
            raise
        _fail(run, placement, error.message, found)
        return False
    except CovenantError as error:
        _fail(run, placement, error.message, found)
        return False
    return True


def _load(triton: TritonClient, triton_model: str, size_bytes: int) -> str:
    """Load a Triton model; gives Triton's words when one of its versions is refused."""
    try:
        triton.load(triton_model, size_bytes=size_bytes)
    except Unavailable:
        raise
    except CovenantError as error:
        return error.message
    return ""


def _settle(
    run: JobRun, triton: TritonClient, root: Path, placement: Placement, refusal: str, found: _Found
) -> None:
    triton_model, number = _slot(placement)
    if refusal and not triton.model_ready(triton_model, number):
        _fail(run, placement, refusal, found)
        take_off(triton, root, triton_model, number)
        return
    wait_ready(triton, triton_model, number, run)
    found.loaded.append(f"{triton_model} v{number}")


def _fail(run: JobRun, placement: Placement, reason: str, found: _Found) -> None:
    with run.transaction():
        set_state(placement, PlacementState.FAILED, detail=reason)
        close_when_empty(placement.deployment)
    found.failed.append("{} v{}: {}".format(*_slot(placement), reason))
