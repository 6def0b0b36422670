"""The validation job: is the exported model the same model, good enough, and as promised?"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from django.utils import timezone

from console.errors import Invalid
from console.models import Job
from console.services import audit
from console.services.job_runs import JobRun
from models_registry.exporting import protocol
from models_registry.exporting.protocol import Check, ExportFacts, TensorSpec
from models_registry.models import Artifact, ModelVersion, ServiceContract, VersionState
from models_registry.rules import contract_document
from models_registry.rules.batch_choice import BatchLatency
from models_registry.rules.contract_types import ContractDocument, Tensor, ValidationGate
from models_registry.rules.equivalence import LOSSY
from models_registry.rules.releases import misfits
from models_registry.services import artifacts
from models_registry.services.contract_checks import contract_in_force, verify_in_force
from models_registry.services.exports import module_of
from models_registry.services.optimisations import source_types
from models_registry.services.sandboxed import (
    begin,
    ended,
    finite,
    lock_version,
    run_program,
    source_files,
    work_folder,
)
from models_registry.services.triton_settings import (
    RenderedConfig,
    largest_batch,
    render_config,
)
from models_registry.services.versions import publish, url_of


def run_validation(run: JobRun) -> dict[str, Any]:
    """Validate the version of `job.arguments["version"]`, and render its config when it passed.

    Measured against the contract in force where the version keeps its interface. Safe to run
    again. Raises Invalid (`validation_failed`) with the first fault and its fix when the report
    says so; the report is kept either way.
    """
    version = begin(run, VersionState.VALIDATING)
    if version.state != VersionState.VALIDATING:
        return _result(version)
    facts = ExportFacts.from_json(version.facts)
    contract = contract_in_force(version.model)
    promise = _promise(contract)
    faults = (
        misfits(promise, facts.inputs, facts.outputs, batched=facts.batch_axis == 0)
        if promise
        else ()
    )
    run.progress(0.01, "Preparing the sandbox")
    request = _request(version, facts, promise if not faults else None)
    with work_folder(run) as folder:
        result = run_program(
            run,
            "validate",
            request.to_json(),
            {
                **source_files(version),
                protocol.MODEL: version.onnx,
                protocol.MODEL_DATA: version.onnx_data,
            },
            folder,
        )
        report = _with_contract(finite(result.answer), contract, faults)
        recorded = result.outputs.get(protocol.SAMPLE_REQUEST)
        sample = recorded.read_bytes() if recorded else None
        worst = result.outputs.get(protocol.REPLAY)
        replay = artifacts.store_file(worst, "application/json") if worst else None
    if report["verdict"] == "failed":
        _reject(run, report, replay)
    run.progress(0.96, "Rendering the configuration")
    config = render_config(
        version,
        mean_latency_ms=_mean_latency(report),
        sample=sample,
        measured=_batches(report),
        p95_ms=request.p95_ms,
    )
    return _accept(run, report, config, sample, replay)


def validation_ended(job: Job) -> None:
    """The job ended without success: rejected for a fault of the model, else ready for a retry."""
    ended(job, during=VersionState.VALIDATING)


def _request(
    version: ModelVersion, facts: ExportFacts, promise: ContractDocument | None
) -> protocol.ValidateRequest:
    declared = {item["name"]: TensorSpec.from_json(item) for item in version.inputs}
    inputs = tuple(
        _ranged(_as_exported(declared.get(spec.name, spec), spec), promise) for spec in facts.inputs
    )
    request = protocol.ValidateRequest(
        version.source_format,
        facts,
        inputs,
        module=module_of(version),
        target=version.target,
        optimisation=version.optimisation,
        batches=tuple(sorted({1, 2, largest_batch(version) or 1})),
    )
    if version.optimisation:
        types = source_types(version, facts)
        request = replace(
            request,
            inputs=tuple(
                replace(one, dtype=spec.dtype)
                for one, spec in zip(inputs, facts.inputs, strict=True)
            ),
            source_types=types,
        )
    if promise is None:
        return request
    gate = promise.validation
    atol, rtol = _tolerance(gate, version.optimisation)
    return replace(
        request,
        outputs=tuple(_spec(tensor) for tensor in promise.interface.outputs),
        samples=gate.samples,
        seed=gate.seed,
        atol=atol,
        rtol=rtol,
        p95_ms=gate.p95_ms,
    )


def _tolerance(gate: ValidationGate, optimisation: str) -> tuple[float | None, float | None]:
    """The contract's for this kind of version; None is the default of a lossy optimisation."""
    derived = gate.derived.get(optimisation)
    if derived is not None:
        return derived.atol, derived.rtol
    return (None, None) if optimisation in LOSSY else (gate.atol, gate.rtol)


def _as_exported(declared: TensorSpec, exported: TensorSpec) -> TensorSpec:
    """What was described, with the sizes that the export found to be frozen: those were said."""
    frozen = any(
        name and size != -1 for name, size in zip(declared.dims, exported.shape, strict=False)
    )
    if not frozen or declared.dtype != exported.dtype:
        return declared
    return replace(exported, minimum=declared.minimum, maximum=declared.maximum)


def _promise(contract: ServiceContract | None) -> ContractDocument | None:
    if contract is None:
        return None
    verify_in_force(contract)
    return contract_document.load(bytes(contract.payload), "json")


def _ranged(spec: TensorSpec, promise: ContractDocument | None) -> TensorSpec:
    """The input with the contract's range, which is what callers may send."""
    promised = {tensor.name: tensor for tensor in promise.interface.inputs} if promise else {}
    tensor = promised.get(spec.name)
    if tensor is None:
        return spec
    low = tensor.minimum if tensor.minimum is not None else spec.minimum
    high = tensor.maximum if tensor.maximum is not None else spec.maximum
    return TensorSpec(spec.name, spec.dtype, spec.shape, spec.dims, low, high)


def _spec(tensor: Tensor) -> TensorSpec:
    return TensorSpec(
        tensor.name,
        tensor.dtype,
        tuple(size if isinstance(size, int) else -1 for size in tensor.dims),
        tuple(size if isinstance(size, str) else "" for size in tensor.dims),
        tensor.minimum,
        tensor.maximum,
        tensor.sums_to,
    )


def _with_contract(
    report: dict[str, Any], contract: ServiceContract | None, faults: tuple[str, ...]
) -> dict[str, Any]:
    """The report with a line on the contract in force: another interface needs another contract."""
    if contract is None:
        return report
    line = Check(
        id="contract_interface",
        title="Interface of the contract in force",
        group="Contract",
        verdict="warning" if faults else "passed",
        detail=" ".join(faults) or f"Contract {contract.revision} describes this model.",
        fix="Propose a contract with the new interface before you ask for a release."
        if faults
        else "",
    )
    verdict = report["verdict"]
    if faults and verdict == "passed":
        verdict = "warning"
    return {
        **report,
        "verdict": verdict,
        "checks": [*report["checks"], line.to_json()],
        "contract": {"revision": contract.revision, "digest": contract.digest},
    }


def _reject(run: JobRun, report: dict[str, Any], replay: Artifact | None) -> None:
    stored = _store_report(report)
    failed = [check for check in report["checks"] if check["verdict"] == "failed"]
    first = failed[0] if failed else {"title": "Validation", "detail": "It failed.", "fix": ""}
    more = f" {len(failed) - 1} more checks failed." if len(failed) > 1 else ""
    with run.transaction():
        version = lock_version(run)
        version.report, version.report_artifact, version.replay = report, stored, replay
        version.save(update_fields=["report", "report_artifact", "replay"])
        audit.record(
            actor=run.actor,
            action="version.reject",
            subject=str(version),
            subject_url=url_of(version),
            after={
                "report": stored.sha256,
                "replay": replay.sha256 if replay else None,
                "failed": [check["id"] for check in failed],
            },
        )
    raise Invalid(
        f"{first['title']}: {first['detail']}{more}", code="validation_failed", hint=first["fix"]
    )


def _accept(
    run: JobRun,
    report: dict[str, Any],
    config: RenderedConfig,
    sample: bytes | None,
    replay: Artifact | None,
) -> dict[str, Any]:
    stored = _store_report(report)
    text = artifacts.store_bytes(config.text.encode(), "text/plain")
    recorded = artifacts.store_bytes(sample, "application/json") if sample else None
    with run.transaction():
        version = lock_version(run)
        if version.state != VersionState.VALIDATING:
            return _result(version)
        version.report, version.report_artifact, version.replay = report, stored, replay
        version.config, version.config_origins = text, config.origins
        version.sample = recorded or version.sample
        version.state, version.validated_at = VersionState.VALIDATED, timezone.now()
        version.save(
            update_fields=[
                "report", "report_artifact", "replay", "config", "config_origins", "sample",
                "state", "validated_at",
            ]
        )  # fmt: skip
        audit.record(
            actor=run.actor,
            action="version.validate",
            subject=str(version),
            subject_url=url_of(version),
            after={
                "verdict": report["verdict"],
                "report": stored.sha256,
                "config": text.sha256,
                "onnx": version.onnx.sha256 if version.onnx else None,
                **({"onnx_data": version.onnx_data.sha256} if version.onnx_data else {}),
            },
        )
        publish(version)
    for note in config.notes:
        run.log(note)
    return _result(version)


def _store_report(report: dict[str, Any]) -> Artifact:
    data = json.dumps(report, indent=2, sort_keys=True, ensure_ascii=False).encode()
    return artifacts.store_bytes(data, "application/json")


def _batches(report: dict[str, Any]) -> tuple[BatchLatency, ...]:
    """What was measured at each batch size, smallest first."""
    return tuple(
        BatchLatency(row["batch"], row["p50_ms"], row["p95_ms"])
        for row in sorted(report.get("latency", ()), key=lambda row: int(row["batch"]))
    )


def _mean_latency(report: dict[str, Any]) -> float | None:
    single = [row["mean_ms"] for row in report.get("latency", ()) if row.get("batch") in (1, None)]
    return float(single[0]) if single and isinstance(single[0], (int, float)) else None


def _result(version: ModelVersion) -> dict[str, Any]:
    report = version.report or {}
    return {
        "version": str(version),
        "verdict": report.get("verdict"),
        "config": version.config.sha256 if version.config else None,
    }
