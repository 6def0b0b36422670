"""Versions: created with their number under the model's lock, and archived."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import transaction

from console import live
from console.actors import Actor, require
from console.errors import Conflict, FieldError, Invalid
from console.models import Job
from console.services import audit, jobs
from models_registry.exporting import protocol
from models_registry.models import (
    Artifact,
    ModelAlias,
    ModelVersion,
    RegisteredModel,
    Release,
    ReleaseState,
    Upload,
    VersionFile,
    VersionState,
)
from models_registry.rules.versions import check_move
from models_registry.services import artifacts, source_files, uploads
from models_registry.services.catalog import lock_model, require_part_in
from models_registry.services.version_requests import (
    MAX_DOCUMENT_BYTES,
    VersionRequest,
    check_content,
    check_request,
    detect,
)


@dataclass(frozen=True, slots=True)
class _Files:
    source: Artifact
    filename: str
    code: Artifact | None
    sample: Artifact | None
    beside: dict[str, Artifact]


def create_version(
    *,
    model: RegisteredModel,
    upload_id: uuid.UUID,
    source_format: str = "",
    inputs: Sequence[Mapping[str, Any]] = (),
    outputs: Sequence[Mapping[str, Any]] = (),
    opset: int = protocol.DEFAULT_OPSET,
    target: str = "",
    model_class: str = "tabular",
    code_upload_id: uuid.UUID | None = None,
    data_upload_ids: Sequence[uuid.UUID] = (),
    sample: Mapping[str, Any] | uuid.UUID | None = None,
    module_entry: str = "",
    module_arguments: Mapping[str, Any] | None = None,
    tuning: Mapping[str, Any] | None = None,
    notes: str = "",
    actor: Actor,
) -> tuple[ModelVersion, Job]:
    """The model's next version from a complete upload, and the job that exports it.

    `inputs`/`outputs` are as people write them (`rules.tensors.parse`); `target` is the Triton
    release that has to load the export, the site's own where empty; `sample` is a v2 request,
    a mapping of names to nested lists, or an upload (.npz or JSON). `data_upload_ids` are files
    that an .onnx file keeps its weights in, by the names it calls them. The same request again
    gives the version that it made. Raises Invalid with pointers; a file whose content is not taken
    is refused for good.
    """
    require(actor, "version.create", model.team_id)
    require_part_in(model, actor)
    request = check_request(
        source_format=source_format,
        inputs=inputs,
        outputs=outputs,
        opset=opset,
        target=target,
        model_class=model_class,
        module_entry=module_entry,
        module_arguments=module_arguments,
        chosen=tuning,
        notes=notes,
    )
    upload = uploads.completed(upload_id=upload_id, actor=actor)
    found = _identify(request, upload, has_code=code_upload_id is not None, actor=actor)
    source_files.check_number(data_upload_ids, found)
    files = _Files(
        source=content_of(upload),
        filename=upload.filename,
        code=_uploaded(code_upload_id, actor),
        sample=_sample(sample, actor),
        beside=source_files.beside(data_upload_ids, actor),
    )
    key = request.fingerprint(
        str(model.pk),
        str(upload.pk),
        *(part.sha256 if part else "" for part in (files.code, files.sample)),
        *(f"{name}:{part.sha256}" for name, part in files.beside.items()),
    )
    with transaction.atomic():
        locked = lock_model(model)
        earlier = Job.objects.filter(idempotency_key=f"export:{key}").first()
        if earlier is not None:
            return ModelVersion.objects.get(pk=earlier.arguments["version"]), earlier
        return _write(locked, request, found, files, key, actor)


def archive_version(*, version: ModelVersion, reason: str, actor: Actor) -> ModelVersion:
    """Archive a version that no release needs; its aliases go.

    Raises Conflict (`illegal_move`, `version_released`), NotAllowed.
    """
    require(actor, "version.archive", version.model.team_id)
    with transaction.atomic():
        model = lock_model(version.model)
        require_part_in(model, actor)
        version = (
            ModelVersion.objects.select_for_update(of=("self",))
            .select_related("model")
            .get(pk=version.pk)
        )
        if version.state == VersionState.ARCHIVED:
            return version
        check_move(version.state, VersionState.ARCHIVED, str(version))
        open_states = (ReleaseState.PROPOSED, ReleaseState.APPROVED)
        if Release.objects.filter(version=version, state__in=open_states).exists():
            raise Conflict(
                f"{version} has a release that is open or approved.",
                code="version_released",
                hint="Withdraw the release first; an approved one keeps its version.",
            )
        before, version.state = version.state, VersionState.ARCHIVED
        version.save(update_fields=["state"])
        ModelAlias.objects.filter(version=version).delete()
        audit.record(
            actor=actor,
            action="version.archive",
            subject=str(version),
            subject_url=url_of(version),
            before={"state": before},
            after={"state": version.state},
            reason=reason,
        )
        publish(version)
    return version


def publish(version: ModelVersion) -> None:
    """Tell viewers of the version and of its model how it stands."""
    data = {"model": version.model.name, "number": version.number, "state": version.state}
    live.publish(f"version:{version.model.name}/{version.number}", "version.changed", data)
    live.publish(f"model:{version.model.name}", "version.changed", data)


def url_of(version: ModelVersion) -> str:
    """The version's page."""
    return f"/models/{version.model.name}/versions/{version.number}/"


def _write(
    model: RegisteredModel,
    request: VersionRequest,
    found: str,
    files: _Files,
    key: str,
    actor: Actor,
) -> tuple[ModelVersion, Job]:
    model.last_version_number += 1
    model.save(update_fields=["last_version_number"])
    version = ModelVersion.objects.create(
        model=model,
        number=model.last_version_number,
        state=VersionState.UPLOADED,
        source_format=found,
        filename=files.filename,
        model_class=request.model_class,
        opset=request.opset,
        target=request.target,
        inputs=[spec.to_json() for spec in request.inputs],
        outputs=[spec.to_json() for spec in request.outputs],
        module_entry=request.module_entry,
        module_arguments=request.module_arguments,
        tuning=request.tuning,
        notes=request.notes,
        source=files.source,
        code=files.code,
        sample=files.sample,
        created_by=actor.user,
    )
    job = ask_for_export(version, files.beside, key=f"export:{key}", actor=actor)
    audit.record(
        actor=actor,
        action="version.create",
        subject=str(version),
        subject_url=url_of(version),
        after={
            "format": found,
            "filename": files.filename,
            "source": files.source.sha256,
            **({"beside": _digests(files.beside)} if files.beside else {}),
            "opset": request.opset,
            "target": request.target,
            "model_class": request.model_class,
            "job": str(job.pk),
        },
    )
    publish(version)
    return version, job


def ask_for_export(
    version: ModelVersion,
    beside: Mapping[str, Artifact],
    *,
    key: str,
    actor: Actor,
    **arguments: Any,
) -> Job:
    """Keep the files beside a new version's source, and the job that exports it, under `key`.

    `arguments` go to the job. In the transaction that creates the version.
    """
    VersionFile.objects.bulk_create(
        VersionFile(version=version, name=name, artifact=part) for name, part in beside.items()
    )
    version.export_job = jobs.enqueue(
        kind="export",
        subject=str(version),
        subject_url=url_of(version),
        arguments={"version": version.pk, **arguments},
        actor=actor,
        idempotency_key=key,
    )
    version.save(update_fields=["export_job"])
    return version.export_job


def _digests(files: Mapping[str, Artifact]) -> dict[str, str]:
    return {name: artifact.sha256 for name, artifact in files.items()}


def _identify(request: VersionRequest, upload: Upload, *, has_code: bool, actor: Actor) -> str:
    with artifacts.local_path(content_of(upload)) as path:
        detected = detect(path)
    if not detected.accepted:
        uploads.refuse_upload(upload=upload, reason=detected.reason, actor=actor)
    return check_content(request, detected, has_code=has_code)


def content_of(upload: Upload) -> Artifact:
    """The bytes of a complete upload. Raises Conflict (`upload_incomplete`)."""
    if upload.artifact is None:
        raise Conflict(f"{upload.filename} is not complete.", code="upload_incomplete")
    return upload.artifact


def _uploaded(upload_id: uuid.UUID | None, actor: Actor) -> Artifact | None:
    if upload_id is None:
        return None
    return content_of(uploads.completed(upload_id=upload_id, actor=actor))


def _sample(sample: Mapping[str, Any] | uuid.UUID | None, actor: Actor) -> Artifact | None:
    if sample is None or isinstance(sample, uuid.UUID):
        return _uploaded(sample, actor)
    data = json.dumps(sample, sort_keys=True).encode()
    if len(data) > MAX_DOCUMENT_BYTES:
        raise Invalid(
            "The sample is larger than 1 MiB.",
            code="sample_too_large",
            hint="Upload it as a file and name the upload.",
            errors=(FieldError("/sample", "is larger than 1 MiB"),),
        )
    return artifacts.store_bytes(data, "application/json")
