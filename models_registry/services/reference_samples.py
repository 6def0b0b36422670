"""Recording what a version was trained on, and reading it again."""

from __future__ import annotations

import json
import uuid

from django.db import transaction
from django.utils import timezone

from console.actors import Actor, require
from console.errors import Conflict, CovenantError, Invalid, TooLarge
from console.services import audit
from models_registry.exporting.protocol import TensorSpec
from models_registry.models import Artifact, ModelVersion, ReferenceSample
from models_registry.rules import reference_samples as rules
from models_registry.rules.reference_samples import Sample
from models_registry.services import artifacts, uploads
from models_registry.services.catalog import require_part_in

MEDIA_TYPE = "application/vnd.covenant.reference-sample+json"
_LONGEST_NOTE = 500


def record_reference_sample(
    *, version: ModelVersion, data: bytes | uuid.UUID, actor: Actor, note: str = ""
) -> ReferenceSample:
    """Keep the training sample in `data` (or of an upload) with the version; the newest one holds.

    The same content again changes nothing. The audit entry holds its digest and its size, never a
    value of it.

    Raises NotAllowed, NotFound (an upload), Invalid (`bad_reference_sample`), TooLarge
    (`sample_too_large`), Conflict (`version_not_described`).
    """
    require(actor, "version.create", version.model.team_id)
    require_part_in(version.model, actor)
    if len(note) > _LONGEST_NOTE:
        raise Invalid(f"The note has more than {_LONGEST_NOTE} characters.", code="note_too_long")
    inputs, batched = inputs_of(version)
    sample = rules.read_rows(_content(data, actor), inputs, batched=batched)
    with transaction.atomic():
        ModelVersion.objects.select_for_update(of=("self",)).get(pk=version.pk)
        artifact = artifacts.store_bytes(rules.to_bytes(sample), MEDIA_TYPE)
        held = version.reference_samples.filter(replaced_at__isnull=True).first()
        if held is not None and held.artifact_id == artifact.pk:
            return held
        version.reference_samples.filter(replaced_at__isnull=True).update(
            replaced_at=timezone.now()
        )
        row = ReferenceSample.objects.create(
            version=version,
            artifact=artifact,
            rows=sample.rows,
            features=[
                {
                    "name": one.name,
                    "title": one.title,
                    "kind": one.kind,
                    "missing": one.missing,
                    "values": len(one.values) or len(one.counts),
                }
                for one in sample.features
            ],
            note=note.strip(),
            recorded_by=actor.user,
        )
        audit.record(
            actor=actor,
            action="version.reference_sample",
            subject=str(version),
            subject_url=f"/models/{version.model.name}/versions/{version.number}/",
            reason=row.note,
            before={"sha256": held.artifact.sha256, "rows": held.rows} if held else None,
            after={"sha256": artifact.sha256, "rows": row.rows, "features": len(row.features)},
        )
    return row


def inputs_of(version: ModelVersion) -> tuple[list[TensorSpec], bool]:
    """The version's inputs, and whether their first axis counts rows.

    Raises Conflict (`version_not_described`) while nothing is known of them.
    """
    found = version.facts.get("inputs") or version.inputs
    if not found:
        raise Conflict(
            f"Of {version} no inputs are known yet.",
            code="version_not_described",
            hint="Wait until its export has ended, then record the training sample.",
        )
    return [TensorSpec.from_json(one) for one in found], version.facts.get("batch_axis") == 0


def load_reference_sample(artifact: Artifact) -> Sample:
    """The training sample of an artifact, verified. Raises Conflict as `artifacts.read_bytes`."""
    return rules.from_bytes(artifacts.read_bytes(artifact))


def recorded_as_reference(version: ModelVersion) -> Sample | None:
    """The request recorded with the version, where it has rows enough to stand for training.

    That of a version whose sample nobody gave is a single drawn row, which stands for nothing.
    """
    if version.sample is None or version.sample.size > rules.MOST_BYTES:
        return None
    document = json.loads(artifacts.read_bytes(version.sample))
    inputs, batched = inputs_of(version)
    try:
        return rules.of_request(document.get("request", document), inputs, batched=batched)
    except CovenantError:
        return None


def _content(data: bytes | uuid.UUID, actor: Actor) -> bytes:
    if isinstance(data, bytes):
        return data
    upload = uploads.completed(upload_id=data, actor=actor)
    if upload.length > rules.MOST_BYTES or upload.artifact is None:
        raise TooLarge(
            f"The training sample has more than {rules.MOST_BYTES // 1024**2} MiB.",
            code="sample_too_large",
            hint="Draw rows from it: 5,000 are enough.",
        )
    return artifacts.read_bytes(upload.artifact)
