"""What an outsider needs to check a release with no server at hand."""

from __future__ import annotations

from django.utils import timezone

from console.rules.dsse import Envelope
from models_registry.models import Release
from models_registry.rules import bundles
from models_registry.rules.bundle_report import BrokenGlass
from models_registry.selectors.release_policies import broken_glass
from models_registry.services.contracts import contract_bundle
from models_registry.services.signatures import public_key


def release_bundle(release: Release) -> bytes:
    """Everything that an offline check of the release (and its contract) needs, as JSON text.

    Approvals that were given again are left out; how the glass was broken is not.
    """
    approvals = release.approvals.filter(approved=True, superseded_at__isnull=True)
    signed = [
        (one.role, one.person, one.key, one.envelope, one.at)
        for one in approvals.select_related("person", "key").order_by("pk")
        if one.key is not None and one.envelope
    ]
    broken = broken_glass(release)
    glass = None
    if broken is not None:
        signed.append((broken.role, broken.person, broken.key, broken.envelope, broken.at))
        glass = BrokenGlass(
            keyid=broken.key.keyid,
            reason=broken.reason,
            waived=tuple(
                (str(one["code"]), str(one["sentence"]))
                for one in broken.waived
                if isinstance(one, dict) and {"code", "sentence"} <= set(one)
            ),
            reviewed_by=broken.reviewed_by.username if broken.reviewed_by else None,
            reviewed_at=broken.reviewed_at,
            review=broken.review,
        )
    signers = [
        bundles.SeatSignature(
            seat=role,
            user=person.username,
            keyid=key.keyid,
            signed_at=at,
            revoked_at=key.revoked_at,
        )
        for role, person, key, _, at in signed
    ]
    return bundles.release_bundle(
        payload=bytes(release.payload),
        envelopes=[Envelope.parse(envelope) for _, _, _, envelope, _ in signed],
        approvals=signers[:-1] if glass else signers,
        broken_glass=(signers[-1], glass) if glass else None,
        keys=[public_key(key) for _, _, key, _, _ in signed],
        issued=timezone.now(),
        contract=contract_bundle(release.contract) if release.contract else None,
    )
