"""Lighter variants: a new version of the same model, made from a validated one's ONNX file.

It goes the ordinary way: its export step runs `optimise` on the original's file, its validation
compares it with the source of the original, and what comes out has digests, a report, releases and
deployments of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.db import transaction

from console.actors import Actor, require
from console.errors import Conflict, FieldError, Invalid
from console.models import Job
from console.services import audit
from models_registry.exporting import protocol
from models_registry.models import (
    ModelVersion,
    Optimisation,
    RegisteredModel,
    VersionState,
)
from models_registry.rules import optimisations
from models_registry.services.catalog import lock_model, require_part_in
from models_registry.services.version_requests import MAX_NOTES
from models_registry.services.versions import ask_for_export, publish, url_of

_GONE = (VersionState.REJECTED, VersionState.ARCHIVED)


@dataclass(frozen=True, slots=True)
class _Wanted:
    optimisation: str
    keep_io: bool
    notes: str


def optimise_version(
    *,
    version: ModelVersion,
    optimisation: str,
    keep_io: bool = True,
    notes: str = "",
    actor: Actor,
) -> tuple[ModelVersion, Job]:
    """The variant of `version` and the job that makes it; asked twice, the one that is there.

    `keep_io=False` lets an FP16 variant take and give FP16, which is another interface. One that
    was rejected or archived may be asked for anew. Raises Invalid (`unknown_optimisation`,
    `nothing_to_quantise` …) and Conflict (`version_not_validated`, `version_is_derived`,
    `version_too_large`).
    """
    require(actor, "version.create", version.model.team_id)
    require_part_in(version.model, actor)
    wanted = _checked(optimisation, keep_io, notes)
    with transaction.atomic():
        model = lock_model(version.model)
        origin = ModelVersion.objects.select_related("model", "onnx").get(pk=version.pk)
        _refuse_origin(origin, wanted)
        variants = ModelVersion.objects.filter(
            derived_from=origin, optimisation=wanted.optimisation
        ).select_related("model", "export_job")
        for one in variants.exclude(state__in=_GONE):
            if one.export_job and one.export_job.arguments["keep_io"] == wanted.keep_io:
                return one, one.export_job
        return _write(model, origin, wanted, variants.count(), actor)


def request_of(version: ModelVersion, job: Job) -> protocol.OptimiseRequest:
    """What the sandboxed program is asked for a variant."""
    return protocol.OptimiseRequest(
        optimisation=version.optimisation,
        facts=protocol.ExportFacts.from_json(origin_of(version).facts),
        target=version.target,
        keep_io=bool(job.arguments.get("keep_io", True)),
    )


def origin_of(version: ModelVersion) -> ModelVersion:
    """The version that a variant was made of. Raises RuntimeError for any other version."""
    if version.derived_from is None:
        raise RuntimeError(f"{version} was not derived from another version")
    return version.derived_from


def source_types(version: ModelVersion, facts: protocol.ExportFacts) -> dict[str, str]:
    """Inputs that the original takes in another data type than its variant does."""
    original = protocol.ExportFacts.from_json(origin_of(version).facts)
    taken = {spec.name: spec.dtype for spec in original.inputs}
    return {spec.name: taken[spec.name] for spec in facts.inputs if taken[spec.name] != spec.dtype}


def _checked(optimisation: str, keep_io: bool, notes: str) -> _Wanted:
    if optimisation not in Optimisation.values:
        raise _invalid(
            "/optimisation",
            f"There is no optimisation {optimisation[:40]}.",
            "Use one of " + ", ".join(Optimisation.values) + ".",
            "unknown_optimisation",
        )
    if not keep_io and optimisation != Optimisation.FP16:
        raise _invalid(
            "/keep_io",
            "Only FP16 can change the data types of inputs and outputs.",
            "Leave keep_io out.",
            "invalid_input",
        )
    if len(notes) > MAX_NOTES:
        raise _invalid(
            "/notes", f"The notes are longer than {MAX_NOTES} characters.", "", "invalid_input"
        )
    return _Wanted(optimisation, keep_io, notes.strip())


def _refuse_origin(origin: ModelVersion, wanted: _Wanted) -> None:
    if origin.state != VersionState.VALIDATED or origin.onnx is None:
        raise Conflict(
            f"{origin} is {origin.get_state_display()}: a variant is measured against a version "
            "that has been validated.",
            code="version_not_validated",
            hint="Choose a validated version of the model.",
        )
    if origin.derived_from_id is not None:
        raise Conflict(
            f"{origin} is itself a variant ({origin.get_optimisation_display()}): errors would "
            "add up unseen.",
            code="version_is_derived",
            hint=f"Make the variant of v{origin.derived_from.number} instead."
            if origin.derived_from
            else "",
        )
    if origin.onnx_data_id is not None:
        raise Conflict(
            f"{origin} keeps its weights beside the ONNX file: the tools that make a model "
            "lighter take one file, which may have 2 GB.",
            code="version_too_large",
            hint="Make it lighter before the export, in the framework that it comes from.",
        )
    refusal = optimisations.refusal(
        wanted.optimisation, origin.facts.get("operators", {}), int(origin.facts.get("opset", 0))
    )
    if refusal is not None:
        raise _invalid("/optimisation", refusal.message, refusal.hint, refusal.code)


def _write(
    model: RegisteredModel, origin: ModelVersion, wanted: _Wanted, turn: int, actor: Actor
) -> tuple[ModelVersion, Job]:
    model.last_version_number += 1
    model.save(update_fields=["last_version_number"])
    version = ModelVersion.objects.create(
        model=model,
        number=model.last_version_number,
        derived_from=origin,
        optimisation=wanted.optimisation,
        notes=wanted.notes,
        created_by=actor.user,
        **_taken_over(origin),
    )
    job = ask_for_export(
        version,
        {file.name: file.artifact for file in origin.files.all()},
        key=f"optimise:{origin.pk}:{wanted.optimisation}:{turn}",
        actor=actor,
        keep_io=wanted.keep_io,
    )
    audit.record(
        actor=actor,
        action="version.derive",
        subject=str(version),
        subject_url=url_of(version),
        after={
            "optimisation": wanted.optimisation,
            "keep_io": wanted.keep_io,
            "derived_from": origin.number,
            "onnx": origin.onnx.sha256 if origin.onnx else None,
            "job": str(job.pk),
        },
    )
    publish(version)
    publish(origin)
    return version, job


def _taken_over(origin: ModelVersion) -> dict[str, Any]:
    """What makes the variant comparable: the original's source and how it was described."""
    names = (
        "source", "code", "sample", "source_format", "filename", "model_class", "opset", "target",
        "inputs", "outputs", "module_entry", "module_arguments", "tuning",
    )  # fmt: skip
    return {name: getattr(origin, name) for name in names}


def _invalid(pointer: str, message: str, hint: str, code: str) -> Invalid:
    return Invalid(message, code=code, hint=hint, errors=(FieldError(pointer, message),))
