"""Signing keys of people: enrolled after they proved who they are, rotated, revoked for good."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db import IntegrityError, transaction
from django.utils import timezone
from django.utils.module_loading import import_string

from console import live
from console.actors import Actor, allowed, require
from console.errors import Conflict, FieldError, Invalid, NotFound
from console.models import KeyOrigin, RevocationKind, Severity, SigningKey
from console.rules.dsse import Envelope
from console.rules.fresh_sign_ins import SessionData
from console.rules.key_life import WARN_DAYS, KeyEffect, check_doubt, expiry_of, state_of
from console.rules.key_rotation import accept_rotation
from console.rules.relying_party import RelyingParty, relying_party
from console.rules.signing_keys import PublicKey, parse_public_key
from console.services import audit, notices
from console.services.key_rows import find_key, public_key
from console.services.reauthentication import confirm, ways_to_confirm

# The storeys above know what a key signed; they are reached by name, as the kinds of jobs are.
# Each module has `effects_of(key, doubted_from)` and `after_revocation(key)`.
ABOVE = ("models_registry.services.key_effects", "deployments.services.key_effects")


@dataclass(frozen=True, slots=True)
class Rotation:
    """Which key a new one replaces, and what both of them signed, where they did."""

    old: SigningKey
    envelope: Envelope | None


def enrol_key(
    *,
    name: str,
    public_key: str | bytes | Mapping[str, Any],
    origin: str,
    password: str | None,
    actor: Actor,
    code: str = "",
    session: SessionData | None = None,
    days: int | None = None,
    replaces: str = "",
    rotation: str | bytes | Mapping[str, Any] | None = None,
) -> SigningKey:
    """Enrol the public half of a key that the actor will sign with; passkeys: `enrol_passkey`.

    One proves again who one is (`reauthentication.confirm`), by a session as by a token, unless a
    `rotation` signed by the old key does. `public_key` is PEM, base64 of DER, or a JWK. `days`
    until it expires, at most `key_life.LIFETIME_DAYS`. With `replaces` (a key id of one's own)
    that key is revoked as replaced; `rotation` is the envelope that both signed (`key_rotation`).

    Raises Invalid (`wrong_password`, `confirmation_needed`, `unsupported_key`, `invalid_key`,
    `private_key_sent`, `lifetime_too_long`, and what `accept_rotation` raises), NotFound for
    `replaces`, Conflict (`key_exists`, `key_not_replaceable`).
    """
    require(actor, "key.manage_own")
    if origin not in (KeyOrigin.BROWSER, KeyOrigin.CLI):
        raise Invalid(
            "A key's origin is browser or cli.",
            hint="A passkey is enrolled by its own door: POST /api/v1/keys/passkeys/.",
            errors=(FieldError("/origin", "is browser or cli"),),
        )
    if rotation is None or password or code:
        confirm_owner(actor=actor, password=password or "", code=code, session=session)
    parsed = parse_public_key(public_key)
    return store_key(
        name=name,
        public_key=parsed,
        origin=origin,
        days=days,
        rotation=rotation_of(actor=actor, replaces=replaces, new=parsed, signed=rotation),
        actor=actor,
    )


def confirm_owner(
    *, actor: Actor, password: str = "", code: str = "", session: SessionData | None = None
) -> None:
    """Whoever enrols proves again who they are: a token that was taken must not sign for good.

    Somebody with neither password nor app can prove nothing by a token, whose scope then has to do.
    """
    if actor.is_system:
        return
    ways = ways_to_confirm(user=actor.user, session=session)
    if actor.scopes is None or password or code or ways.password or ways.code:
        confirm(actor=actor, password=password, code=code, session=session)


def rotation_of(
    *,
    actor: Actor,
    replaces: str,
    new: PublicKey,
    signed: str | bytes | Mapping[str, Any] | None = None,
) -> Rotation | None:
    """The rotation that is asked for, checked; None when the new key replaces none."""
    if not replaces and signed is None:
        return None
    old = find_key(replaces)
    if old is None or old.user_id != actor.user.pk:
        raise NotFound(
            "The key to replace is not one of yours.",
            hint="Name it by its key id; see Settings → My keys.",
        )
    envelope = None
    if signed is not None:
        envelope = accept_rotation(
            Envelope.parse(signed),
            owner=actor.user.username,
            old=public_key(old),
            new=new,
            origin=_origin(),
        )
        if state_of(old, timezone.now()) in ("expired", "revoked"):
            raise _not_replaceable(old, "signs nothing new, so it cannot vouch for another")
    return Rotation(old, envelope)


def store_key(
    *,
    name: str,
    public_key: PublicKey,
    origin: str,
    days: int | None,
    rotation: Rotation | None,
    actor: Actor,
    credential_id: str = "",
    sign_count: int = 0,
) -> SigningKey:
    """Write the row of a key whose owner is sure, and revoke the one that it replaces."""
    if not name.strip():
        raise Invalid(
            "A key needs a name.",
            errors=(FieldError("/name", "Say where the key lives, as in “laptop”."),),
        )
    expires_at = expiry_of(origin=origin, now=timezone.now(), days=days)
    try:
        with transaction.atomic():
            old = _replaced(rotation, actor) if rotation else None
            key = SigningKey.objects.create(
                user=actor.user,
                name=name.strip()[:80],
                keyid=public_key.key_id,
                algorithm=public_key.algorithm,
                origin=origin,
                public_key_pem=public_key.pem,
                expires_at=expires_at,
                replaces=old,
                credential_id=credential_id,
                rp_id=public_key.rp_id,
                sign_count=sign_count,
            )
            _record_enrolment(key, rotation, actor)
            live.publish(f"inbox:{actor.user.username}", "keys.changed")
    except IntegrityError as error:
        raise Conflict(
            f"The key {public_key.key_id[:12]} is enrolled already.",
            code="key_exists",
            hint="A revoked key stays revoked: make a new one.",
        ) from error
    return key


def revoke_key(
    *,
    key_id: str,
    reason: str,
    actor: Actor,
    kind: str = RevocationKind.OTHER,
    doubted_from: datetime | None = None,
) -> SigningKey:
    """Revoke a key by its key id (or its row's number); what it signed stays, marked.

    One's own, or anybody's for a platform admin. A key that was compromised is `doubted_from` a
    time on: what it signed since no longer counts, and what fails by that is told to its people.
    Revoking twice changes nothing, but that a key may turn out compromised, or to be so for longer.
    Raises NotFound, and Invalid (`reason_missing`, `doubted_from_missing`, `doubted_from_wrong`).
    """
    require(actor, "key.manage_own")
    now = timezone.now()
    _check_revocation(reason, kind, doubted_from, now)
    with transaction.atomic():
        key = find_key(key_id, lock=True)
        own = key is not None and key.user_id == actor.user.pk
        if key is None or not (own or allowed(actor, "user.manage")):
            raise NotFound("There is no such key of yours.", hint="See Settings → My keys.")
        worse = doubted_from is not None and (
            key.doubted_from is None or doubted_from < key.doubted_from
        )
        if key.revoked_at is not None and not worse:
            return key
        before = {"state": state_of(key, now), "revocation": key.revocation}
        key.revoked_at = key.revoked_at or now
        key.revocation, key.doubted_from = kind, doubted_from
        key.revoked_reason = reason.strip()[:300]
        key.save(update_fields=["revoked_at", "revocation", "doubted_from", "revoked_reason"])
        audit.record(
            actor=actor,
            action="key.revoke",
            subject=f"key {key.keyid[:12]}",
            before=before,
            after={
                "owner": key.user.username,
                "keyid": key.keyid,
                "revocation": kind,
                "doubted_from": doubted_from.isoformat() if doubted_from else None,
            },
            reason=reason.strip(),
        )
        _ended(key)
        if not own:
            _tell_owner(key, actor)
    return key


def effects_of(key: SigningKey, doubted_from: datetime | None = None) -> tuple[KeyEffect, ...]:
    """What the key signed that still matters, and what revoking it would do to each."""
    return tuple(
        effect
        for module in ABOVE
        for effect in import_string(f"{module}.effects_of")(key, doubted_from)
    )


def key_for_revocation(*, key_id: str, actor: Actor) -> SigningKey:
    """The key that the actor may revoke: their own, or anybody's for an admin. NotFound else."""
    require(actor, "key.manage_own")
    key = find_key(key_id)
    if key is None or not (key.user_id == actor.user.pk or allowed(actor, "user.manage")):
        raise NotFound("There is no such key of yours.", hint="See Settings → My keys.")
    return key


def _ended(key: SigningKey) -> None:
    for module in ABOVE:
        import_string(f"{module}.after_revocation")(key)
    for days in WARN_DAYS:
        notices.end(key=expiry_notice(key, days))
    live.publish(f"inbox:{key.user.username}", "keys.changed")


def _tell_owner(key: SigningKey, actor: Actor) -> None:
    notices.notify(
        people=[key.user],
        kind="key.revoked",
        key=f"key-revoked:{key.keyid}",
        subject=f"key {key.name}",
        subject_url=key_url(key),
        severity=Severity.WARNING,
        data={"name": key.name, "by": actor.user.username, "reason": key.revoked_reason},
    )


def key_url(key: SigningKey) -> str:
    """The key's page."""
    return f"/settings/keys/{key.keyid}/"


def expiry_notice(key: SigningKey, days: int) -> str:
    """The cause under which a key's owner is told of its end, so many days ahead."""
    return f"key-expires:{key.keyid}:{days}"


def _replaced(rotation: Rotation, actor: Actor) -> SigningKey:
    """The old key, locked and revoked as replaced; it may have ended meanwhile, but not twice."""
    old = SigningKey.objects.select_for_update(of=("self",)).select_related("user").get(
        pk=rotation.old.pk
    )  # fmt: skip
    if SigningKey.objects.filter(replaces=old).exists():
        raise _not_replaceable(old, "was replaced already")
    if rotation.envelope is not None and old.revoked_at is not None:
        raise _not_replaceable(old, "was revoked meanwhile, so it cannot vouch for another")
    if old.revoked_at is None:
        old.revoked_at, old.revocation = timezone.now(), RevocationKind.REPLACED
        old.revoked_reason = "Replaced by a new key."
        old.save(update_fields=["revoked_at", "revocation", "revoked_reason"])
        audit.record(
            actor=actor,
            action="key.revoke",
            subject=f"key {old.keyid[:12]}",
            after={
                "owner": old.user.username,
                "keyid": old.keyid,
                "revocation": RevocationKind.REPLACED.value,
                "doubted_from": None,
            },
            reason=old.revoked_reason,
        )
        _ended(old)
    return old


def _record_enrolment(key: SigningKey, rotation: Rotation | None, actor: Actor) -> None:
    after: dict[str, Any] = {
        "owner": actor.user.username,
        "name": key.name,
        "keyid": key.keyid,
        "algorithm": key.algorithm,
        "origin": key.origin,
        "expires_at": key.expires_at.isoformat() if key.expires_at else None,
    }
    if key.rp_id:
        after["rp_id"] = key.rp_id
    if rotation is not None:
        after["replaces"] = rotation.old.keyid
        # Kept where nothing is ever changed: what the old key said of the new one.
        after["rotation"] = rotation.envelope.to_dict() if rotation.envelope else None
    audit.record(
        actor=actor,
        action="key.rotate" if rotation else "key.enrol",
        subject=f"key {key.keyid[:12]}",
        after=after,
    )


def _check_revocation(reason: str, kind: str, doubted_from: datetime | None, now: datetime) -> None:
    if not reason.strip():
        raise Invalid(
            "Say why the key is revoked.",
            code="reason_missing",
            errors=(FieldError("/reason", "A reason is required."),),
        )
    if kind not in RevocationKind.values:
        known = ", ".join(RevocationKind.values)
        raise Invalid(
            f"A key is revoked as one of: {known}.",
            errors=(FieldError("/kind", f"is not one of {known}"),),
        )
    check_doubt(kind=kind, doubted_from=doubted_from, now=now)


def _origin() -> str:
    try:
        party: RelyingParty = relying_party(settings.CONFIG.base_url)
    except Conflict:
        return ""
    return party.origin


def _not_replaceable(old: SigningKey, why: str) -> Conflict:
    return Conflict(
        f"The key {old.name} ({old.keyid[:12]}…) {why}.",
        code="key_not_replaceable",
        hint="Enrol the new key with your password instead; see Settings → My keys.",
    )
