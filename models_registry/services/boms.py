"""The bill of materials of a release: what it is made of, by digest."""

from __future__ import annotations

import uuid
from typing import Any

from console.errors import Conflict
from models_registry.adapters import cyclonedx_bom
from models_registry.adapters.cyclonedx_bom import BomFile, BomMetric, BomTensor
from models_registry.exporting.protocol import ExportFacts, TensorSpec
from models_registry.models import Release
from models_registry.rules.contract_types import ContractDocument
from models_registry.selectors.versions import FileRow, files_of
from models_registry.services.contract_checks import verify_bytes

_NAMESPACE = uuid.UUID("6f0c2d3e-5a0b-4b4e-9a55-4f4c1f6f6c11")
_NO_LIBRARIES = {"python", "target", "machine"}


def release_bom(release: Release) -> bytes:
    """A CycloneDX 1.6 ML-BOM as JSON text; the same release gives the same bytes.

    Raises Conflict (`version_not_exported`) where the version's graph is not known.
    """
    version = release.version
    if not version.facts or version.onnx is None:
        raise Conflict(
            f"{version} has not been exported, so there is nothing to bill.",
            code="version_not_exported",
            hint="Wait for its validation.",
        )
    facts = ExportFacts.from_json(version.facts)
    report: dict[str, Any] = version.report or {}
    contract = verify_bytes(release.contract) if release.contract else None
    rows = {row.name: row for row in files_of(version)}
    environment = report.get("environment", {})
    return cyclonedx_bom.write(
        cyclonedx_bom.ModelBom(
            serial=uuid.uuid5(_NAMESPACE, f"{release.pk} {release.digest}"),
            at=release.requested_at,
            model=version.model.name,
            version=version.number,
            description=version.model.description,
            team=version.model.team.slug if version.model.team else "",
            architecture=f"{version.model_class}; {facts.parameters} parameters; ONNX opset "
            f"{facts.opset}",
            onnx=_file(rows["onnx"]),
            files=[_file(row) for row in rows.values()],
            inputs=[_tensor(spec) for spec in facts.inputs],
            outputs=[_tensor(spec) for spec in facts.outputs],
            metrics=_metrics(report),
            limitations=_limitations(contract, report),
            users=[f"{holder.seat}: {holder.user.username}" for holder in _seats(release)],
            libraries=[
                (name, str(text))
                for name, text in sorted(environment.items())
                if name not in _NO_LIBRARIES
            ],
            runtime=("Triton Inference Server", version.target),
            properties=_properties(release, facts),
        )
    )


def _seats(release: Release) -> list[Any]:
    return list(release.version.model.seats.select_related("user"))


def _file(row: FileRow) -> BomFile:
    artifact = row.artifact
    return BomFile(row.name, row.filename, artifact.sha256, artifact.size, artifact.media_type)


def _tensor(spec: TensorSpec) -> BomTensor:
    dims = spec.dims or ("",) * len(spec.shape)
    shape = (name or str(size) for size, name in zip(spec.shape, dims, strict=True))
    return BomTensor(spec.name, f"{spec.dtype} [{', '.join(shape)}]")


def _metrics(report: dict[str, Any]) -> list[BomMetric]:
    metrics = [
        BomMetric("max_absolute_error_against_source", f"{one['max_abs']:.3g}", one["name"])
        for one in report.get("equivalence", {}).get("outputs", ())
        if one.get("max_abs") is not None
    ]
    metrics += [
        BomMetric("latency_p95_ms", f"{one['p95_ms']:.3g}", f"batch {one['batch']}")
        for one in report.get("latency", ())
    ]
    return metrics


def _limitations(contract: ContractDocument | None, report: dict[str, Any]) -> list[str]:
    found = [
        f"{check['title']}: {check['detail']}"
        for check in report.get("checks", ())
        if check["verdict"] == "warning"
    ]
    found += [
        f"Input {tensor.name} is promised from {tensor.minimum} to {tensor.maximum} only."
        for tensor in (contract.interface.inputs if contract else ())
        if tensor.minimum is not None or tensor.maximum is not None
    ]
    return found


def _properties(release: Release, facts: ExportFacts) -> dict[str, str]:
    version = release.version
    said = {
        "release": str(release.pk),
        "release_digest": release.digest,
        "environment": release.environment.name,
        "risk_class": version.model.risk_class,
        "source_format": version.source_format,
        "exporter": facts.exporter,
        "validation_verdict": str((version.report or {}).get("verdict", "")),
    }
    if release.contract:
        said["contract_revision"] = str(release.contract.revision)
        said["contract_digest"] = release.contract.digest
    if version.derived_from:
        said["derived_from"] = str(version.derived_from)
        said["optimisation"] = version.optimisation
    return {name: value for name, value in said.items() if value}
