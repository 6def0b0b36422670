"""The export job: from the uploaded file to ONNX, in the sandbox."""

from __future__ import annotations

import json
from typing import Any

from console.errors import Invalid
from console.models import Job
from console.services import audit, jobs
from console.services.job_runs import JobRun
from models_registry.adapters import sandbox
from models_registry.exporting import protocol
from models_registry.exporting.protocol import TensorSpec
from models_registry.models import Artifact, ModelVersion, VersionState
from models_registry.services import artifacts, optimisations
from models_registry.services.sandboxed import (
    begin,
    ended,
    finite,
    lock_version,
    run_program,
    source_files,
    work_folder,
)
from models_registry.services.versions import publish, url_of

INLINE_BYTES = protocol.INLINE_BYTES
# Two thousand tensors with long names have less; pages and lists of versions read it.
MAX_FACTS_BYTES = 4 * 1024**2


def run_export(run: JobRun) -> dict[str, Any]:
    """Export the version of `job.arguments["version"]` and ask for its validation.

    Safe to run again: what a finished export wrote is found and kept. Raises Invalid with the
    exporter's refusal, Conflict for a version that is rejected or archived.
    """
    version = begin(run, VersionState.EXPORTING)
    if version.state != VersionState.EXPORTING:
        return _result(version)
    run.progress(0.01, "Preparing the sandbox")
    with work_folder(run) as folder:
        result = run_program(run, *_asked(version, run.job), folder)
        facts = _facts(result)
        run.progress(0.96, "Storing the ONNX file")
        onnx, data = _stored(result, facts)
    with run.transaction():
        version = lock_version(run)
        if version.state != VersionState.EXPORTING:
            return _result(version)
        version.onnx, version.onnx_data = onnx, data
        version.facts = finite(facts.to_json())
        version.state = VersionState.VALIDATING
        version.validate_job = jobs.enqueue(
            kind="validate",
            subject=str(version),
            subject_url=url_of(version),
            arguments={"version": version.pk},
            actor=run.actor,
            idempotency_key=f"validate:{version.pk}",
        )
        version.save(update_fields=["onnx", "onnx_data", "facts", "state", "validate_job"])
        audit.record(
            actor=run.actor,
            action="version.optimise" if version.optimisation else "version.export",
            subject=str(version),
            subject_url=url_of(version),
            before=_made_of(version),
            after={
                "onnx": onnx.sha256,
                **({"onnx_data": data.sha256} if data else {}),
                "opset": facts.opset,
                "exporter": facts.exporter,
            },
        )
        publish(version)
    for warning in facts.warnings:
        run.log(warning, level="warning")
    return _result(version)


def _facts(result: sandbox.SandboxResult) -> protocol.ExportFacts:
    """What the program found, believed in its form only: a module's code may have written it."""
    try:
        if len(json.dumps(result.answer)) > MAX_FACTS_BYTES:
            raise ValueError("it is too long")
        facts = protocol.ExportFacts.from_json(result.answer)
        if not isinstance(facts.opset, int) or facts.batch_axis not in (None, 0):
            raise TypeError("a number is none")
        if not all(isinstance(one, dict) for one in (facts.operators, facts.sizes, facts.ranges)):
            raise TypeError("a mapping is none")
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise Invalid(
            "What the export says about the ONNX file cannot be read: something in the model "
            f"wrote it instead ({type(error).__name__}).",
            code="export_inconsistent",
            hint="Look at what the module's source does while it is built.",
        ) from error
    return facts


def _stored(
    result: sandbox.SandboxResult, facts: protocol.ExportFacts
) -> tuple[Artifact, Artifact | None]:
    """The graph and, where there are any, the weights beside it; both are what was reported."""
    reported = {protocol.MODEL: facts.sha256, protocol.MODEL_DATA: facts.data_sha256}
    kept: dict[str, Artifact] = {}
    for name, sha256 in reported.items():
        path = result.outputs.get(name)
        digest = artifacts.file_digest(path) if path else ""
        if digest != sha256:
            raise Invalid(
                f"The exported {name} is not the one that the exporter reported.",
                code="export_inconsistent",
                hint="Retry the job; if it happens again, report it with the job's id.",
            )
        if path is not None:
            kept[name] = artifacts.store_file(path, sha256=digest, move=True)
    return kept[protocol.MODEL], kept.get(protocol.MODEL_DATA)


def export_ended(job: Job) -> None:
    """The export job ended without success: rejected for a refusal, else ready for a retry."""
    ended(job, during=VersionState.EXPORTING)


def module_of(version: ModelVersion) -> protocol.ModuleSource:
    """How a state dict's module is built."""
    return protocol.ModuleSource(
        entry=version.module_entry, arguments=dict(version.module_arguments)
    )


def _asked(
    version: ModelVersion, job: Job
) -> tuple[sandbox.Program, protocol.Json, dict[str, Artifact | None]]:
    """The program, its request and its files: a variant is made from its original's ONNX file."""
    if version.optimisation:
        origin = optimisations.origin_of(version)
        request = optimisations.request_of(version, job)
        return (
            "optimise",
            request.to_json(),
            {
                protocol.MODEL: origin.onnx,
                protocol.MODEL_DATA: origin.onnx_data,
            },
        )
    return "export", _request(version).to_json(), source_files(version)


def _request(version: ModelVersion) -> protocol.ExportRequest:
    return protocol.ExportRequest(
        source_format=version.source_format,
        inputs=tuple(TensorSpec.from_json(item) for item in version.inputs),
        outputs=tuple(str(item["name"]) for item in version.outputs),
        opset=version.opset,
        target=version.target,
        module=module_of(version),
        inline_bytes=INLINE_BYTES,
    )


def _made_of(version: ModelVersion) -> dict[str, str]:
    origin = version.derived_from
    if origin is not None and origin.onnx is not None:
        return {"onnx": origin.onnx.sha256, "version": str(origin)}
    return {"source": version.source.sha256}


def _result(version: ModelVersion) -> dict[str, Any]:
    return {
        "version": str(version),
        "onnx": version.onnx.sha256 if version.onnx else None,
        "validate_job": str(version.validate_job_id) if version.validate_job_id else None,
    }
