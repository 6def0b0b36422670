"""What a dossier rests on: verified anew for it, put inside it, and on record when it leaves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import transaction

from console.actors import Actor
from console.adapters.pdf import Attached
from console.errors import CovenantError, Invalid
from console.models import SigningKey
from console.rules.canonical import digest
from console.rules.dsse import CONTRACT_PAYLOAD_TYPE, RELEASE_PAYLOAD_TYPE
from console.services import audit
from deployments.selectors.dossiers import Dossier
from models_registry.models import ContractSignature, Release, ReleaseApproval, ReleaseState
from models_registry.services.boms import release_bom
from models_registry.services.contracts import contract_bundle
from models_registry.services.release_checks import verify_release
from models_registry.services.releases import release_bundle
from models_registry.services.signatures import verify_stored

MOST_BUNDLES = 10


@dataclass(frozen=True, slots=True)
class Holds:
    """Whether something holds now, and what is to be said of it."""

    ok: bool
    note: str = ""


def signature_holds(signature: ContractSignature, payload: bytes) -> Holds:
    """A seat's signature over a contract, verified now."""
    return _verified(signature.envelope, signature.key, signature.signer_id, signature.signed_at,
                     CONTRACT_PAYLOAD_TYPE, payload)  # fmt: skip


def approval_holds(approval: ReleaseApproval, release: Release) -> Holds:
    """An approval of a release, verified now; a refusal carries no signature."""
    if approval.key is None or approval.envelope is None:
        return Holds(ok=not approval.approved)
    return _verified(approval.envelope, approval.key, approval.person_id, approval.at,
                     RELEASE_PAYLOAD_TYPE, bytes(release.payload))  # fmt: skip


def release_holds(release: Release) -> Holds | None:
    """Whether an approved release still stands as what it approved; None for others."""
    if release.state != ReleaseState.APPROVED:
        return None
    try:
        verified = verify_release(release, read_files=False, restoring=True)
    except CovenantError as error:
        return Holds(ok=False, note=error.message)
    return Holds(ok=True, note=" ".join(verified.notes))


def attachments(dossier: Dossier) -> list[Attached]:
    """What lets a reader check the dossier alone: bundles, the report, a bill of materials."""
    name, number = dossier.version.model.name, dossier.version.number
    found = []
    for release in dossier.releases[:MOST_BUNDLES]:
        where = release.environment.name
        found.append(
            Attached(
                f"{name}-v{number}-{where}-{str(release.pk)[:8]}.bundle.json",
                f"Release to {where}: payload, signatures and keys, for covenant verify",
                release_bundle(release),
            )
        )
    if dossier.contract is not None:
        found.append(
            Attached(
                f"{name}-contract-{dossier.contract.revision}.bundle.json",
                "Service contract: payload, signatures and keys, for covenant verify",
                contract_bundle(dossier.contract),
            )
        )
    if dossier.releases and dossier.version.onnx is not None:
        found.append(
            Attached(
                f"{name}-v{number}.cdx.json",
                "Bill of materials, CycloneDX 1.6",
                release_bom(dossier.releases[0]),
            )
        )
    return found


def record_export(*, dossier: Dossier, language: str, data: bytes, actor: Actor) -> None:
    """Note in the audit trail who took a dossier away, by its digest."""
    version = dossier.version
    with transaction.atomic():
        audit.record(
            actor=actor,
            action="dossier.export",
            subject=str(version),
            subject_url=f"/models/{version.model.name}/versions/{version.number}/",
            after={"language": language, "sha256": digest(data), "bytes": len(data)},
        )


def _verified(
    envelope: Mapping[str, Any],
    key: SigningKey,
    signer_id: int,
    signed_at: datetime,
    payload_type: str,
    payload: bytes,
) -> Holds:
    try:
        note = verify_stored(
            envelope,
            key=key,
            signer_id=signer_id,
            signed_at=signed_at,
            payload_type=payload_type,
            payload=payload,
        )
    except Invalid as error:
        return Holds(ok=False, note=error.message)
    return Holds(ok=True, note=note)
