"""Asking for a diagnosis of a version on a node, and what follows when it ends badly."""

from __future__ import annotations

from typing import Final

from django.db import transaction
from django.utils import timezone

from console import live
from console.actors import Actor, require
from console.errors import Conflict
from console.models import Job, JobState
from console.services import audit, jobs
from deployments.models import Deployment, Diagnosis, DiagnosisState, Node, Placement
from models_registry.models import ModelVersion

EXPLAINS: Final = frozenset(
    {
        "config_differs",
        "config_missing",
        "digest_mismatch",
        "disk_full",
        "files_differ",
        "infer_refused",
        "load_failed",
        "not_ready_in_time",
        "repository_unwritable",
        "smoke_test_failed",
        "source_unreadable",
        "triton_key_refused",
        "triton_refused",
        "triton_unavailable",
    }
)
"""Ends of a deploy that looking into the node explains; the others say all in their message."""


def request_diagnosis(
    *,
    version: ModelVersion,
    node: Node,
    actor: Actor,
    try_load: bool = True,
) -> Diagnosis:
    """Ask the node's own worker why a version does not load there; one under way is given again.

    With `try_load` it is loaded once more, under a name of its own beside what serves, and taken
    off again. Raises Conflict `version_not_exported`, NotAllowed.
    """
    require(actor, "diagnosis.run", version.model.team_id)
    if version.onnx_id is None or version.config_id is None:
        raise Conflict(
            f"{version} has no ONNX file and configuration yet, so no node can load it.",
            code="version_not_exported",
            hint="Look at its export and its validation report.",
        )
    return _asked(version, node, actor, deployment=_deployment(version, node), try_load=try_load)


def offer_diagnosis(placement: Placement, job: Job) -> Diagnosis | None:
    """After a failed deploy: look into it at once, without loading it again.

    What Triton said is fresh in its log now. None where the job's own words say all, or where it
    was cancelled or lost its worker. Belongs into the transaction that ends the job.
    """
    if job.state != JobState.FAILED or job.error_code not in EXPLAINS:
        return None
    deployment = placement.deployment
    return _asked(
        deployment.release.version,
        placement.node,
        Actor.system("deploy"),
        deployment=deployment,
        try_load=False,
        failed_job=job,
    )


def diagnosis_ended(job: Job) -> None:
    """The job ended without a result: the row says so, and another may be asked for."""
    row = Diagnosis.objects.select_for_update().filter(job=job, state=DiagnosisState.RUNNING)
    for diagnosis in row.select_related("version__model", "node"):
        diagnosis.state, diagnosis.ended_at = DiagnosisState.FAILED, timezone.now()
        diagnosis.save(update_fields=["state", "ended_at"])
        tell(diagnosis)


def tell(diagnosis: Diagnosis) -> None:
    """Tell everybody who looks at the version or the node."""
    version = diagnosis.version
    data = {"diagnosis": str(diagnosis.pk), "state": diagnosis.state}
    live.publish(f"version:{version.model.name}/{version.number}", "diagnosis.changed", data)
    live.publish(f"node:{diagnosis.node.name}", "diagnosis.changed", {})


def _asked(
    version: ModelVersion,
    node: Node,
    actor: Actor,
    *,
    deployment: Deployment | None,
    try_load: bool,
    failed_job: Job | None = None,
) -> Diagnosis:
    with transaction.atomic():
        # The version's row is the lock: two who ask at once get one diagnosis.
        version = (
            ModelVersion.objects.select_for_update(of=("self",))
            .select_related("model")
            .get(pk=version.pk)
        )
        running = Diagnosis.objects.select_related("version__model", "node").filter(
            version=version, node=node, state=DiagnosisState.RUNNING
        )
        if (known := running.first()) is not None:
            return known
        diagnosis = Diagnosis.objects.create(
            version=version,
            node=node,
            deployment=deployment,
            failed_job=failed_job,
            automatic=failed_job is not None,
            try_load=try_load,
            requested_by=actor.user,
        )
        diagnosis.job = jobs.enqueue(
            kind="diagnose",
            queue=node.queue,
            subject=f"{version} on {node.name}",
            subject_url=f"/diagnoses/{diagnosis.pk}/",
            actor=actor,
            arguments={"diagnosis": str(diagnosis.pk)},
            idempotency_key=f"diagnose:{diagnosis.pk}",
        )
        diagnosis.save(update_fields=["job"])
        audit.record(
            actor=actor,
            action="diagnosis.request",
            subject=str(version),
            subject_url=f"/diagnoses/{diagnosis.pk}/",
            after={"diagnosis": str(diagnosis.pk), "node": node.name, "try_load": try_load},
        )
        tell(diagnosis)
    return diagnosis


def _deployment(version: ModelVersion, node: Node) -> Deployment | None:
    """The deployment that should run there, or last failed: its Triton model and digests."""
    placed = Placement.objects.filter(deployment__release__version=version, node=node)
    newest = placed.select_related("deployment").order_by("-changed_at").first()
    return newest.deployment if newest is not None else None
