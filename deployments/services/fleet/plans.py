"""TensorRT plans: the command is written down always, and run where a GPU node can.

A plan belongs to the GPU and the TensorRT release that built it. It is kept with its digest and its
command; it takes part in no release, and nothing serves it.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, Final

from django.db import transaction
from django.utils import timezone

from console import live
from console.actors import Actor, require
from console.errors import Conflict, FieldError, Invalid, NotFound
from console.models import Job, JobState
from console.services import audit, jobs
from console.services.job_runs import JobRun
from deployments.adapters import trtexec
from deployments.models import Node, NodeState, TensorRtPlan
from deployments.rules.fleet import tensorrt
from models_registry.exporting import protocol
from models_registry.exporting.protocol import ExportFacts
from models_registry.models import ModelVersion, VersionState
from models_registry.selectors.releases import find_environment
from models_registry.services import artifacts
from models_registry.services.sandboxed import work_folder
from models_registry.services.versions import url_of

BUILD_SECONDS: Final = 3600.0
NEEDS_GPU: Final = "Needs a GPU node: no registered node has a GPU."
_PLAN: Final = "model.plan"


def request_plan(
    *,
    version: ModelVersion,
    precision: str = tensorrt.FP16,
    workspace_mib: int = tensorrt.DEFAULT_WORKSPACE_MIB,
    node: str = "",
    environment: str = "",
    actor: Actor,
) -> TensorRtPlan:
    """The plan of a validated version, with the job that builds it where a node has a GPU.

    Without `node` it is the first ready GPU node (of `environment`). Where there is none, the row
    says so and has no job. The same request again gives the row that it made, until its job has
    ended without a plan. Raises Invalid (`operators_not_in_tensorrt` …), Conflict
    (`version_not_validated`), NotFound for a node or an environment.
    """
    require(actor, "plan.build", version.model.team_id)
    with transaction.atomic():
        version = (
            ModelVersion.objects.select_for_update(of=("self",))
            .select_related("model")
            .get(pk=version.pk)
        )
        if version.state != VersionState.VALIDATED:
            raise Conflict(
                f"{version} is {version.get_state_display()}: a plan is built of a validated "
                "version.",
                code="version_not_validated",
                hint="Choose a validated version of the model.",
            )
        shapes = _profile(version, precision, workspace_mib)
        place, detail = _place(node, environment)
        profile = tensorrt.to_json(shapes, precision=precision, workspace_mib=workspace_mib)
        known = _known(version, place, profile, detail)
        if known is not None:
            return known
        plan = TensorRtPlan.objects.create(
            version=version,
            node=place,
            profile=profile,
            command=tensorrt.command(shapes, precision=precision, workspace_mib=workspace_mib),
            detail=detail,
            requested_by=actor.user,
        )
        if place is not None and not detail:
            plan.job = jobs.enqueue(
                kind="build_plan",
                subject=f"{version} on {place.name}",
                subject_url=url_of(version),
                arguments={"plan": str(plan.pk)},
                queue=place.queue,
                actor=actor,
                idempotency_key=f"build_plan:{plan.pk}",
            )
            plan.save(update_fields=["job"])
        audit.record(
            actor=actor,
            action="plan.request",
            subject=str(version),
            subject_url=url_of(version),
            after={
                "plan": str(plan.pk),
                "node": place.name if place else None,
                "command": plan.command,
                "detail": detail,
            },
        )
        _tell(version)
    return plan


def run_build_plan(run: JobRun) -> dict[str, Any]:
    """Build the plan of `job.arguments["plan"]` with the trtexec of this node's worker.

    Safe to run again. Raises Invalid (`trtexec_missing`, `trtexec_failed`, `trtexec_timed_out`).
    """
    plan = TensorRtPlan.objects.select_related(
        "version__model", "version__onnx", "version__onnx_data", "node", "plan"
    ).get(pk=run.job.arguments["plan"])
    if plan.plan is not None:
        return _result(plan)
    program = trtexec.find()
    if program is None:
        raise Invalid(
            f"The worker of the node {plan.node} has no trtexec on its PATH.",
            code="trtexec_missing",
            hint="Install TensorRT there, add its bin folder to the PATH of the node's worker, "
            "and retry the job.",
        )
    run.progress(0.02, "Preparing")
    with work_folder(run) as folder:
        folder.mkdir(mode=0o700)
        release = _usable_release(program, folder, plan)
        _place_files(plan.version, folder)
        run.progress(0.05, "Building the plan")
        built = trtexec.run(
            program,
            plan.command[1:],
            folder=folder,
            seconds=BUILD_SECONDS,
            on_line=run.log,
            cancelled=lambda: run.should_stop,
        )
        run.check()
        _refuse_ending(built, folder / _PLAN)
        run.progress(0.95, "Storing the plan")
        stored = artifacts.store_file(folder / _PLAN, move=True)
    with run.transaction():
        plan = (
            TensorRtPlan.objects.select_for_update(of=("self",))
            .select_related("version__model", "node")
            .get(pk=plan.pk)
        )
        plan.plan, plan.built_at = stored, timezone.now()
        plan.detail = f"Built by TensorRT {release} in {built.seconds:.0f} s."
        plan.save(update_fields=["plan", "built_at", "detail"])
        audit.record(
            actor=run.actor,
            action="plan.build",
            subject=str(plan.version),
            subject_url=url_of(plan.version),
            after={
                "plan": stored.sha256,
                "node": plan.node.name if plan.node else None,
                "tensorrt": release,
            },
        )
        _tell(plan.version)
    return _result(plan)


def plan_ended(job: Job) -> None:
    """The job ended without a plan: the row says why."""
    with transaction.atomic():
        plan = (
            TensorRtPlan.objects.select_for_update(of=("self",))
            .select_related("version__model")
            .filter(job=job, plan__isnull=True)
            .first()
        )
        if plan is None:
            return
        plan.detail = f"{job.error_message or 'It was cancelled.'} {job.error_hint}".strip()
        plan.save(update_fields=["detail"])
        _tell(plan.version)


def _profile(
    version: ModelVersion, precision: str, workspace_mib: int
) -> dict[str, tensorrt.Shapes]:
    facts = ExportFacts.from_json(version.facts)
    refusal = tensorrt.refusal(facts.operators, facts.inputs, precision, workspace_mib)
    if refusal is not None:
        faults = (FieldError(refusal.pointer, refusal.message),) if refusal.pointer else ()
        raise Invalid(refusal.message, code=refusal.code, hint=refusal.hint, errors=faults)
    largest = int(_setting(version, "max_batch_size") or 0)
    preferred = [size for size in _setting(version, "preferred_batch_sizes") or () if size]
    return tensorrt.profile(
        facts.inputs,
        facts.sizes,
        preferred_batch=max(preferred, default=largest),
        max_batch=largest,
    )


def _setting(version: ModelVersion, name: str) -> Any:
    return version.config_origins.get(name, {}).get("value")


def _place(name: str, environment: str) -> tuple[Node | None, str]:
    """The node that builds, and why it cannot ("" when it can)."""
    if name:
        node = Node.objects.filter(name=name).first()
        if node is None:
            raise NotFound(
                f"There is no node {name[:40]}.", hint="Look for it in the list of nodes."
            )
        if not node.gpus:
            return node, f"Needs a GPU node: {node.name} has no GPU."
        return node, ""
    nodes = Node.objects.filter(state=NodeState.READY).exclude(gpus=[])
    if not environment:
        found = nodes.order_by("name").first()
        return found, "" if found else NEEDS_GPU
    where = find_environment(environment).name
    found = nodes.filter(environments__name=where).order_by("name").first()
    return found, "" if found else f"Needs a GPU node: no ready node of {where} has a GPU."


def _known(
    version: ModelVersion, node: Node | None, profile: dict[str, Any], detail: str
) -> TensorRtPlan | None:
    """The row of the same request, while it still holds: a node may have got a GPU since."""
    same = TensorRtPlan.objects.filter(version=version, node=node, profile=profile)
    for plan in same.select_related("job"):
        if plan.plan_id is not None or (plan.job is None and detail):
            return plan
        if plan.job is not None and plan.job.state in (JobState.QUEUED, JobState.RUNNING):
            return plan
    return None


def _usable_release(program: Path, folder: Path, plan: TensorRtPlan) -> str:
    release = trtexec.release(program, folder)
    if release is None:
        return "of an unknown release"
    precision = plan.profile["precision"]
    if release[0] >= tensorrt.STRONGLY_TYPED_FROM and precision != tensorrt.FP32:
        raise Invalid(
            f"TensorRT {release[0]}.{release[1]} of the node {plan.node} takes no --{precision}: "
            "the data types of the file rule.",
            code="precision_not_in_release",
            hint="Make an FP16 variant of the version and build its plan with the precision fp32.",
        )
    return f"{release[0]}.{release[1]}"


def _place_files(version: ModelVersion, folder: Path) -> None:
    """The ONNX file, and its weights beside it, under the names that the command knows."""
    for name, artifact in (
        (protocol.MODEL, version.onnx),
        (protocol.MODEL_DATA, version.onnx_data),
    ):
        if artifact is None:
            continue
        with artifacts.local_path(artifact) as path:
            shutil.copyfile(path, folder / name)
        if artifacts.file_digest(folder / name) != artifact.sha256:
            raise Conflict(
                f"The stored {name} of {version} is not the one that was validated.",
                code="digest_mismatch",
                hint="Restore it from a backup; its digest is on the version's page.",
            )


def _refuse_ending(built: trtexec.Finished, path: Path) -> None:
    if built.ending == "timed_out":
        raise Invalid(
            f"trtexec was stopped after {BUILD_SECONDS / 60:.0f} minutes.",
            code="trtexec_timed_out",
            hint="Give it a smaller workspace, or build on a node that does nothing else.",
        )
    if built.ending == "failed" or not path.is_file() or path.stat().st_size == 0:
        raise Invalid(
            f"trtexec built no plan: {tensorrt.complaint(built.lines)}",
            code="trtexec_failed",
            hint="The job's log has all that it said.",
        )


def _result(plan: TensorRtPlan) -> dict[str, Any]:
    return {
        "plan": plan.plan.sha256 if plan.plan else None,
        "size": plan.plan.size if plan.plan else None,
        "node": plan.node.name if plan.node else None,
        "detail": plan.detail,
    }


def _tell(version: ModelVersion) -> None:
    data = {"model": version.model.name, "number": version.number}
    live.publish(f"version:{version.model.name}/{version.number}", "plan.changed", data)
