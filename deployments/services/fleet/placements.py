"""Bringing a version onto a node and off it, without disturbing what serves there.

place files -> load by gRPC -> wait until ready -> warm up -> smoke test -> offer to the gateway. On
any fault what was done is undone in reverse order; other versions are never touched.
"""

from __future__ import annotations

import logging
import time
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db.models import QuerySet
from django.utils import timezone

from console import live
from console.actors import Actor
from console.adapters.triton import TritonClient
from console.errors import Conflict, Invalid, Unavailable
from console.models import Job, JobState
from console.services import audit
from console.services.job_runs import JobRun, LeaseLost
from deployments.adapters import folder_signatures, node_lock, repository
from deployments.models import Endpoint, Node, Placement, PlacementState
from deployments.rules.fleet import smoke_test
from deployments.rules.states import PLACEMENT_MOVES, check_move
from deployments.rules.states import PlacementState as State
from deployments.services.diagnosis.asking import offer_diagnosis
from deployments.services.fleet.deploys import UNDER_WAY
from deployments.services.fleet.folder_signatures import sign_placement
from deployments.services.fleet.node_files import node_files, recorded_sample
from deployments.services.fleet.nodes import reconcile_node
from deployments.services.gateways.desired import wake_gateways
from deployments.services.traffic.splits import offer_first_traffic
from models_registry.services.release_checks import verify_release

READY_WITHIN_S = 60.0
LOCK_WAIT_S = 120.0
WARMUP_REQUESTS = 3
HOLDING = (*UNDER_WAY, PlacementState.READY, PlacementState.DRAINING)
"""States in which a placement needs its files on the node."""

_ORDER = [State.PENDING, State.PLACING, State.LOADING, State.READY]

log = logging.getLogger(__name__)


def run_deploy(run: JobRun) -> dict[str, Any]:
    """Bring the job's placement to ready. Safe to run again after it was killed anywhere.

    Signatures and digests are verified here again, by the node's own worker, before it loads.
    """
    placement = _placement_for(run)
    if placement.state == PlacementState.READY:
        return _summary(placement)
    node = placement.node
    with (
        triton_of(node) as triton,
        node_lock.exclusive(Path(node.repository), wait_s=LOCK_WAIT_S, check=run.check),
    ):
        steps = _Deploy(run, placement, triton)
        try:
            steps.run_all()
        except LeaseLost:
            # Another attempt owns the placement, and what is on the disk.
            raise
        except BaseException:
            steps.undo()
            raise
    return _summary(placement)


def deploy_ended(job: Job) -> None:
    """A deploy job ended without success: its placement failed, and its words say why."""
    placement = placements_in_full().filter(job=job, state__in=UNDER_WAY).first()
    if placement is None:
        return
    set_state(placement, PlacementState.FAILED, detail=job.error_message or "Cancelled.")
    offer_diagnosis(placement, job)
    if job.state == JobState.ERRORED:
        # Its worker was lost, or we failed: nobody has undone what lies on the node.
        reconcile_node(node=placement.node, actor=Actor.system("deploy"))


def triton_of(node: Node) -> TritonClient:
    """A client of the node's Triton, with the key of its repository API."""
    return TritonClient(node.grpc_address, repository_key=settings.CONFIG.triton_repository_key)


def needed_by_others(placement: Placement) -> bool:
    """Whether another placement (of another environment) shares these files on the node."""
    deployment = placement.deployment
    return (
        placements_in_full()
        .filter(
            node=placement.node,
            deployment__generation=deployment.generation,
            deployment__release__version=deployment.release.version,
            state__in=HOLDING,
        )
        .exclude(pk=placement.pk)
        .exists()
    )


def take_off(triton: TritonClient, root: Path, triton_model: str, number: int) -> None:
    """Take a version off a node: folder away, Triton drops it, files deleted.

    The other versions of its Triton model serve on. A Triton that cannot be reached will not load
    what is not there any more, so that is no fault.
    """
    aside = repository.set_aside(root, triton_model, number)
    remaining = [one for one in repository.present(root) if one.triton_model == triton_model]
    try:
        if remaining:
            triton.load(triton_model)
        elif any(entry.name == triton_model for entry in triton.index()):
            triton.unload(triton_model)
    except (Unavailable, Invalid) as error:
        log.warning(
            "%s v%s was taken off a node without Triton's word: %s",
            triton_model,
            number,
            error.message,
        )
    if aside is not None:
        repository.discard(aside)
    folder_signatures.forget(root, triton_model, number)
    if not remaining:
        repository.remove_model(root, triton_model)


def weights_bytes(placement: Placement) -> int:
    """Bytes of the weights beside a placement's graph; 0 for a model in one file."""
    data = placement.deployment.release.version.onnx_data
    return data.size if data is not None else 0


def wait_ready(triton: TritonClient, triton_model: str, number: int, run: JobRun) -> None:
    """Poll until Triton says that the version takes requests. Raises Unavailable after a minute."""
    deadline = time.monotonic() + READY_WITHIN_S
    while not triton.model_ready(triton_model, number):
        run.check()
        if time.monotonic() >= deadline:
            raise Unavailable(
                f"Triton loaded {triton_model} version {number} but does not say it is ready.",
                code="not_ready_in_time",
                hint="Look at the node's Triton log.",
            )
        time.sleep(0.05)


class _Deploy:
    """One attempt; knows what it has done so far, so that it can undo exactly that."""

    def __init__(self, run: JobRun, placement: Placement, triton: TritonClient) -> None:
        self.run = run
        self.placement = placement
        self.triton = triton
        self.root = Path(placement.node.repository)
        self.triton_model = placement.deployment.generation.triton_model
        self.number = placement.deployment.release.version.number
        # An attempt that was killed may have left files; they are ours to undo.
        self.owns_files = bool(run.job.checkpoint.get("placing"))

    def run_all(self) -> None:
        run, placement = self.run, self.placement
        run.progress(0.02, "Verifying signatures and digests")
        verify_release(placement.deployment.release)
        _advance(run, placement, State.PLACING)
        run.progress(0.1, "Placing files")
        self._place()
        _advance(run, placement, State.LOADING)
        run.progress(0.5, "Loading in Triton")
        self.triton.load(self.triton_model, size_bytes=weights_bytes(self.placement))
        run.check()
        run.progress(0.7, "Waiting until it is ready")
        wait_ready(self.triton, self.triton_model, self.number, run)
        self._try_out()
        run.progress(0.95, "Offering it to the gateways")
        self._offer()

    def undo(self) -> None:
        """Best effort: what cannot be undone now is found and removed by the next reconcile."""
        if not self.owns_files:
            return
        try:
            if not needed_by_others(self.placement):
                take_off(self.triton, self.root, self.triton_model, self.number)
        except Exception:
            log.exception("%s v%s could not be undone", self.triton_model, self.number)

    def _place(self) -> None:
        def progress(done: int, total: int) -> None:
            self.run.progress(0.1 + 0.4 * done / max(total, 1), "Placing files")

        # The node's lock is ours: what lies in staging is a killed attempt's, and may be gigabytes.
        repository.clean(self.root, older_than_s=0.0, now=time.time())
        with node_files(self.placement) as parts:
            self.run.checkpoint(placing=True)
            try:
                placed = repository.place(
                    self.root,
                    triton_model=self.triton_model,
                    version=self.number,
                    config=parts.config,
                    files=parts.files,
                    progress=progress,
                )
            except Conflict:
                # What stands there is somebody else's, and stays.
                self.owns_files = False
                raise
            self.owns_files = True
            self.placement.digests = parts.digests
            sign_placement(self.run, self.placement)
        self.run.log(
            f"Placed as {self.triton_model} version {self.number}."
            if placed.created_version
            else f"{self.triton_model} version {self.number} was in place already."
        )

    def _try_out(self) -> None:
        sample = recorded_sample(self.placement.deployment.release.version)
        if sample is None:
            self.run.log("No recorded sample: warm-up and smoke test are skipped.", level="warning")
            return
        inputs = sample["request"]["inputs"]
        self.run.progress(0.8, "Warming up")
        for _ in range(WARMUP_REQUESTS):
            self.triton.infer(self.triton_model, self.number, inputs)
            self.run.check()
        self.run.progress(0.9, "Smoke test")
        answer = self.triton.infer(self.triton_model, self.number, inputs)
        worst = smoke_test.compare(
            sample["expected"]["outputs"],
            answer.outputs,
            atol=float(sample.get("atol", 1e-5)),
            rtol=float(sample.get("rtol", 1e-4)),
        )
        self.run.log(
            f"Smoke test passed in {answer.duration_ms:.1f} ms, largest difference {worst:.2g}."
        )

    def _offer(self) -> None:
        placement, release = self.placement, self.placement.deployment.release
        now = timezone.now()
        with self.run.transaction():
            endpoint, _ = Endpoint.objects.get_or_create(
                model=release.version.model, environment=release.environment
            )
            placement.verified_at = placement.ready_at = now
            placement.verification_faults = []
            set_state(placement, PlacementState.READY)
            split = offer_first_traffic(endpoint, self.number, self.run.actor)
            audit.record(
                actor=self.run.actor,
                action="placement.ready",
                subject=str(release.version),
                subject_url=f"/deployments/{placement.deployment_id}/",
                after={
                    "environment": release.environment.name,
                    "node": placement.node.name,
                    "triton_model": self.triton_model,
                    "digests": placement.digests,
                },
            )
        if split is not None:
            self.run.log("It is the first version here, so it has all the traffic.")


def _placement_for(run: JobRun) -> Placement:
    """The job's placement; one that failed before is begun anew when its job is retried."""
    arguments = run.job.arguments
    with run.transaction():
        placement = (
            placements_in_full()
            .select_for_update(of=("self",))
            .filter(deployment_id=arguments["deployment"], node__name=arguments["node"])
            .first()
        )
        if placement is None or placement.deployment.removal_requested_at is not None:
            raise Conflict(
                "This deployment is not wanted any more.",
                code="deployment_removed",
                hint="Deploy the release again.",
            )
        if placement.state not in HOLDING:
            again = Placement(deployment=placement.deployment, node=placement.node, job=run.job)
            placement.delete()
            again.save()
            placement = again
    return placement


def placements_in_full() -> QuerySet[Placement]:
    """Placements with everything that work on them touches."""
    return Placement.objects.select_related(
        "node",
        "deployment__generation",
        "deployment__release__environment",
        "deployment__release__contract",
        "deployment__release__version__model",
        "deployment__release__version__onnx",
        "deployment__release__version__onnx_data",
        "deployment__release__version__config",
        "deployment__release__version__sample",
    )


def _advance(run: JobRun, placement: Placement, state: State) -> None:
    """Move on to a state; a later attempt that is further already stays where it is."""
    if _ORDER.index(State(placement.state)) >= _ORDER.index(state):
        return
    with run.transaction():
        set_state(placement, PlacementState(state))


def set_state(placement: Placement, state: PlacementState, *, detail: str = "") -> None:
    """Make a legal move, wake the gateways and tell everybody. Raises Conflict for any other."""
    release = placement.deployment.release
    check_move(
        PLACEMENT_MOVES,
        State(placement.state),
        State(state),
        subject=f"{release.version} on {placement.node.name}",
    )
    placement.state, placement.detail = state, detail
    placement.save()
    wake_gateways()
    announce_placement(placement)


def announce_placement(placement: Placement) -> None:
    """Tell everybody who looks at the version, its endpoint or the node."""
    release = placement.deployment.release
    model = release.version.model.name
    event = {
        "version": release.version.number,
        "node": placement.node.name,
        "state": placement.state,
    }
    for topic in (
        f"endpoint:{release.environment.name}/{model}",
        f"model:{model}",
        f"version:{model}/{release.version.number}",
        f"release:{release.pk}",
        f"node:{placement.node.name}",
    ):
        live.publish(topic, "placement.changed", event)


def _summary(placement: Placement) -> dict[str, Any]:
    return {
        "triton_model": placement.deployment.generation.triton_model,
        "version": placement.deployment.release.version.number,
        "node": placement.node.name,
        "digests": placement.digests,
    }
