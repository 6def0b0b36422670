"""Callers of an environment and their keys: made, blocked, revoked."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping

from django.db import IntegrityError, transaction
from django.utils import timezone

from console.actors import Actor, require
from console.errors import Conflict, FieldError, Invalid, NotFound
from console.services import audit
from deployments.models import Caller, CallerKey
from deployments.rules.access.caller_keys import (
    DEFAULT_DAYS,
    PREFIX_BYTES,
    SECRET_BYTES,
    expiry,
    new_key,
)
from deployments.services.gateways.desired import wake_gateways
from models_registry.models import Environment

MOST_KEYS = 20
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,60}\Z")


def create_caller(
    *, environment: str, name: str, actor: Actor, description: str = "", contact: str = ""
) -> Caller:
    """A program that will call endpoints of the environment; it has no key yet.

    Raises Invalid, Conflict `name_taken`, NotFound, NotAllowed.
    """
    require(actor, "caller.manage")
    place = find_environment(environment)
    if not _NAME.match(name):
        raise Invalid(
            f"{name[:60]!r} is no name of a caller.",
            code="invalid_name",
            hint="Use 1 to 60 letters, digits, hyphens and underscores.",
            errors=(FieldError("/name", "Letters, digits, hyphen, underscore."),),
        )
    try:
        with transaction.atomic():
            caller = Caller.objects.create(
                environment=place,
                name=name,
                description=description.strip()[:300],
                contact=contact.strip()[:120],
                created_by=actor.user,
            )
            _record(caller, "caller.create", actor, after={"contact": caller.contact})
    except IntegrityError as error:
        raise Conflict(
            f"{environment} has a caller called {name} already.",
            code="name_taken",
            hint="Choose another name, or give that one a further key.",
            errors=(FieldError("/name", "Taken."),),
        ) from error
    return caller


def block_caller(*, environment: str, name: str, actor: Actor, reason: str = "") -> Caller:
    """Let a caller in nowhere in the environment, whichever key or token it brings."""
    return _set_blocked(environment, name, actor, reason, blocked=True)


def unblock_caller(*, environment: str, name: str, actor: Actor, reason: str = "") -> Caller:
    """Let a caller in again, where the policies do."""
    return _set_blocked(environment, name, actor, reason, blocked=False)


def create_caller_key(
    *, environment: str, name: str, actor: Actor, expires_in_days: int | None = DEFAULT_DAYS
) -> tuple[CallerKey, str]:
    """A new key of a caller, and its text: shown this once, kept nowhere.

    Raises Invalid `invalid_expiry`, Conflict `too_many_keys`, NotFound, NotAllowed.
    """
    require(actor, "caller.manage")
    with transaction.atomic():
        caller = _locked(environment, name)
        now = timezone.now()
        ends = expiry(expires_in_days, now)
        if caller.keys.filter(revoked_at__isnull=True).count() >= MOST_KEYS:
            raise Conflict(
                f"{name} has {MOST_KEYS} keys already.",
                code="too_many_keys",
                hint="Revoke one that is not used any more.",
            )
        made = new_key(secrets.token_bytes(PREFIX_BYTES), secrets.token_bytes(SECRET_BYTES))
        key = CallerKey.objects.create(
            caller=caller,
            prefix=made.prefix,
            digest=made.digest,
            created_by=actor.user,
            expires_at=ends,
        )
        wake_gateways()
        facts = {"key": made.prefix, "expires_at": ends.isoformat() if ends else None}
        _record(caller, "caller.key_create", actor, after=facts)
    return key, made.key


def revoke_caller_key(
    *, environment: str, name: str, prefix: str, actor: Actor, reason: str = ""
) -> CallerKey:
    """A key opens nothing any more, as soon as the gateways know; twice changes nothing."""
    require(actor, "caller.manage")
    with transaction.atomic():
        caller = _locked(environment, name)
        key = caller.keys.select_for_update().filter(prefix=prefix).first()
        if key is None:
            raise NotFound(f"{name} has no key {prefix[:24]}.", hint="See the list of its keys.")
        if key.revoked_at is None:
            key.revoked_at = timezone.now()
            key.save(update_fields=["revoked_at"])
            wake_gateways()
            _record(caller, "caller.key_revoke", actor, before={"key": prefix}, reason=reason)
    return key


def find_environment(name: str) -> Environment:
    """The environment of this name. Raises NotFound."""
    found = Environment.objects.filter(name=name).first()
    if found is None:
        raise NotFound(f"There is no environment {name}.")
    return found


def _set_blocked(
    environment: str, name: str, actor: Actor, reason: str, *, blocked: bool
) -> Caller:
    require(actor, "caller.manage")
    with transaction.atomic():
        caller = _locked(environment, name)
        if (caller.blocked_at is not None) != blocked:
            caller.blocked_at = timezone.now() if blocked else None
            caller.save(update_fields=["blocked_at"])
            wake_gateways()
            _record(
                caller,
                "caller.block" if blocked else "caller.unblock",
                actor,
                before={"blocked": not blocked},
                after={"blocked": blocked},
                reason=reason,
            )
    return caller


def _locked(environment: str, name: str) -> Caller:
    caller = (
        Caller.objects.select_for_update(of=("self",))
        .select_related("environment")
        .filter(environment__name=environment, name=name)
        .first()
    )
    if caller is None:
        raise NotFound(
            f"{environment} has no caller called {name[:60]}.", hint="See the list of callers."
        )
    return caller


def _record(
    caller: Caller,
    action: str,
    actor: Actor,
    *,
    before: Mapping[str, object] | None = None,
    after: Mapping[str, object] | None = None,
    reason: str = "",
) -> None:
    place = caller.environment.name
    audit.record(
        actor=actor,
        action=action,
        subject=f"caller {caller.name} of {place}",
        subject_url=f"/environments/{place}/callers/",
        before=before,
        after=after,
        reason=reason.strip(),
    )
