"""Signing keys of people: enrolled after the password was asked again, revoked for good."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db import IntegrityError, transaction
from django.utils import timezone

from console import live
from console.actors import Actor, allowed, require
from console.errors import Conflict, FieldError, Invalid, NotFound
from console.models import KeyOrigin, SigningKey
from console.rules.signing_keys import parse_public_key
from console.services import audit
from console.services.sign_ins import check_own_password


def enrol_key(
    *,
    name: str,
    public_key: str | bytes | Mapping[str, Any],
    origin: str,
    password: str | None,
    actor: Actor,
) -> SigningKey:
    """Enrol the public half of a key that the actor will sign with.

    A session gives the password again; a token was given the scope `sign` and needs none, but a
    password that is sent has to be right.
    `public_key` is PEM, base64 of DER, or a JWK. Raises Invalid (`wrong_password`,
    `unsupported_key`, `invalid_key`, `private_key_sent`) and Conflict (`key_exists`).
    """
    require(actor, "key.manage_own")
    if password or (actor.scopes is None and not actor.is_system):
        check_own_password(password=password or "", actor=actor)
    if not name.strip() or origin not in KeyOrigin.values:
        raise Invalid(
            "A key needs a name and an origin (browser or cli).",
            errors=(FieldError("/name", "Say where the key lives, as in “laptop”."),),
        )
    parsed = parse_public_key(public_key)
    try:
        with transaction.atomic():
            key = SigningKey.objects.create(
                user=actor.user,
                name=name.strip()[:80],
                keyid=parsed.key_id,
                algorithm=parsed.algorithm,
                origin=origin,
                public_key_pem=parsed.pem,
            )
            audit.record(
                actor=actor,
                action="key.enrol",
                subject=f"key {key.keyid[:12]}",
                after={
                    "owner": actor.user.username,
                    "name": key.name,
                    "keyid": key.keyid,
                    "algorithm": key.algorithm,
                    "origin": key.origin,
                },
            )
            live.publish(f"inbox:{actor.user.username}", "keys.changed")
    except IntegrityError as error:
        raise Conflict(
            f"The key {parsed.key_id[:12]} is enrolled already.",
            code="key_exists",
            hint="A revoked key stays revoked: make a new one.",
        ) from error
    return key


def revoke_key(*, key_id: str, reason: str, actor: Actor) -> SigningKey:
    """Revoke a key by its key id (or its row's number); what it signed stays, marked.

    One's own, or anybody's for a platform admin. Revoking twice changes nothing. Raises NotFound,
    and Invalid when no reason is given.
    """
    require(actor, "key.manage_own")
    if not reason.strip():
        raise Invalid(
            "Say why the key is revoked.",
            code="reason_missing",
            errors=(FieldError("/reason", "A reason is required."),),
        )
    with transaction.atomic():
        key = _locked(key_id)
        own = key is not None and key.user_id == actor.user.pk
        if key is None or not (own or allowed(actor, "user.manage")):
            raise NotFound("There is no such key of yours.", hint="See Settings → My keys.")
        if key.revoked_at is None:
            key.revoked_at, key.revoked_reason = timezone.now(), reason.strip()[:300]
            key.save(update_fields=["revoked_at", "revoked_reason"])
            audit.record(
                actor=actor,
                action="key.revoke",
                subject=f"key {key.keyid[:12]}",
                after={"owner": key.user.username, "keyid": key.keyid},
                reason=reason.strip(),
            )
            live.publish(f"inbox:{key.user.username}", "keys.changed")
    return key


def _locked(key_id: str) -> SigningKey | None:
    keys = SigningKey.objects.select_for_update(of=("self",)).select_related("user")
    if len(key_id) < 20 and key_id.isdecimal():
        return keys.filter(pk=int(key_id)).first()
    return keys.filter(keyid=key_id).first()
