"""What a signing key signed here, and what its revocation does to contracts and releases."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from django.db.models import Q

from console import live
from console.models import Severity, SigningKey, User
from console.rules.key_life import KeyEffect, outcome_of
from console.services import notices
from models_registry.models import (
    BreakGlass,
    ContractSignature,
    ContractState,
    RegisteredModel,
    Release,
    ReleaseApproval,
    ReleaseState,
    SeatHolder,
    ServiceContract,
)

STANDING_CONTRACTS = (ContractState.PROPOSED, ContractState.IN_FORCE)
STANDING_RELEASES = (ReleaseState.PROPOSED, ReleaseState.APPROVED)


def effects_of(key: SigningKey, doubted_from: datetime | None) -> list[KeyEffect]:
    """Contracts and releases that stand by a signature of the key, newest first (three queries)."""
    contracts = [
        KeyEffect(
            "contract",
            str(signature.contract),
            f"/models/{signature.contract.model.name}/contracts/{signature.contract.revision}/",
            signature.contract.get_state_display(),
            signature.signed_at,
            outcome_of(signature.signed_at, doubted_from),
        )
        for signature in _contract_signatures(key)
    ]
    releases = [
        KeyEffect(
            "release",
            str(release),
            f"/releases/{release.pk}/",
            release.get_state_display(),
            signed_at,
            outcome_of(signed_at, doubted_from),
        )
        for release, signed_at in _releases(key)
    ]
    return sorted([*contracts, *releases], key=lambda effect: effect.signed_at, reverse=True)


def after_revocation(key: SigningKey) -> None:
    """Tell the people of every contract and release that no longer holds, once each.

    Belongs into the transaction that revokes the key.
    """
    if key.doubted_from is None:
        return
    for signature in _contract_signatures(key):
        if outcome_of(signature.signed_at, key.doubted_from) == "no_longer_counts":
            _tell_of_contract(signature.contract, key)
    for release, signed_at in _releases(key):
        if outcome_of(signed_at, key.doubted_from) == "no_longer_counts":
            _tell_of_release(release, key)


def contract_notice(contract: ServiceContract) -> str:
    """The cause under which people are told of a contract's doubted signature."""
    return f"signature-doubted:contract:{contract.pk}"


def release_notice(release: Release) -> str:
    """The cause under which people are told of a release's doubted approval."""
    return f"signature-doubted:release:{release.pk}"


def _contract_signatures(key: SigningKey) -> Iterable[ContractSignature]:
    return (
        ContractSignature.objects.filter(key=key, contract__state__in=STANDING_CONTRACTS)
        .select_related("contract__model__owner")
        .order_by("-signed_at")
    )


def _releases(key: SigningKey) -> list[tuple[Release, datetime]]:
    related = ("release__environment", "release__version__model__owner", "release__requested_by")
    standing = Q(release__state__in=STANDING_RELEASES, key=key)
    approvals = ReleaseApproval.objects.filter(
        standing, approved=True, superseded_at__isnull=True
    ).select_related(*related)
    broken = BreakGlass.objects.filter(standing).select_related(*related)
    return [(signed.release, signed.at) for signed in (*approvals, *broken)]


def _people_of(model: RegisteredModel) -> list[User]:
    holders = SeatHolder.objects.filter(model=model).select_related("user")
    return [model.owner, *(holder.user for holder in holders)]


def _tell_of_contract(contract: ServiceContract, key: SigningKey) -> None:
    name = contract.model.name
    notices.notify(
        people=_people_of(contract.model),
        kind="signature.doubted",
        key=contract_notice(contract),
        subject=str(contract),
        subject_url=f"/models/{name}/contracts/{contract.revision}/",
        severity=Severity.CRITICAL,
        data={"owner": key.user.username, "key": key.keyid[:12]},
    )
    data = {"model": name, "revision": contract.revision, "state": contract.state}
    live.publish(f"contract:{name}/{contract.revision}", "contract.changed", data)
    live.publish(f"model:{name}", "contract.changed", data)


def _tell_of_release(release: Release, key: SigningKey) -> None:
    notices.notify(
        people=[*_people_of(release.version.model), release.requested_by],
        kind="signature.doubted",
        key=release_notice(release),
        subject=str(release),
        subject_url=f"/releases/{release.pk}/",
        severity=Severity.CRITICAL,
        data={"owner": key.user.username, "key": key.keyid[:12]},
    )
    data = {"id": str(release.pk), "state": release.state}
    live.publish(f"release:{release.pk}", "release.changed", data)
