"""API tokens: made once in clear, kept as a digest."""

from __future__ import annotations

import hashlib
import secrets
from datetime import timedelta

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from console.actors import Actor, require
from console.errors import Invalid, NotAllowed, NotFound
from console.models import ApiToken
from console.rules.permissions import SCOPES
from console.services import audit

LAST_USED_GRAIN = timedelta(minutes=1)


def create_token(
    *, name: str, scopes: list[str], actor: Actor, days: int | None = None
) -> tuple[ApiToken, str]:
    """Make a token for the actor; the clear text is given once and never again.

    Raises Invalid for an unknown scope, an empty name or a lifetime outside 1..365 days.
    """
    require(actor, "token.manage_own")
    unknown = sorted(set(scopes) - set(SCOPES))
    if unknown or not scopes:
        raise Invalid(
            f"Unknown scope: {', '.join(unknown)}." if unknown else "A token needs a scope.",
            code="bad_scope",
            hint="Scopes are " + ", ".join(SCOPES) + ".",
        )
    if actor.scopes is not None and not set(scopes) <= actor.scopes:
        raise NotAllowed(
            "A token cannot make one that may do more than itself.",
            code="scope_missing",
            hint="Sign in, or use a token that has these scopes.",
        )
    lifetime = settings.TOKEN_LIFETIME_DAYS if days is None else days
    if not 1 <= lifetime <= 365 or not name.strip():
        raise Invalid(
            "A token needs a name and a lifetime of 1 to 365 days.", code="bad_token_request"
        )
    clear = "cvt_" + secrets.token_urlsafe(32)
    with transaction.atomic():
        token = ApiToken.objects.create(
            user=actor.user,
            name=name.strip()[:80],
            prefix=clear[:10],
            digest=_digest(clear),
            scopes=sorted(set(scopes)),
            expires_at=timezone.now() + timedelta(days=lifetime),
        )
        audit.record(
            actor=actor,
            action="token.create",
            subject=f"token {token.prefix}",
            after={"name": token.name, "scopes": token.scopes, "owner": actor.user.username},
        )
    return token, clear


def revoke_token(*, token_id: int, actor: Actor) -> ApiToken:
    """Revoke one of the actor's own tokens; revoking twice changes nothing."""
    require(actor, "token.manage_own")
    with transaction.atomic():
        token = ApiToken.objects.select_for_update().filter(pk=token_id, user=actor.user).first()
        if token is None:
            raise NotFound("There is no such token of yours.")
        if token.revoked_at is None:
            token.revoked_at = timezone.now()
            token.save(update_fields=["revoked_at"])
            audit.record(actor=actor, action="token.revoke", subject=f"token {token.prefix}")
    return token


def authenticate_token(clear: str) -> ApiToken | None:
    """The valid token behind a clear text, its last use noted to the minute; else None."""
    now = timezone.now()
    token = (
        ApiToken.objects.select_related("user")
        .filter(
            digest=_digest(clear), revoked_at__isnull=True, expires_at__gt=now, user__is_active=True
        )
        .first()
    )
    if token and (token.last_used_at is None or now - token.last_used_at > LAST_USED_GRAIN):
        ApiToken.objects.filter(pk=token.pk).update(last_used_at=now)
    return token


def _digest(clear: str) -> str:
    # 256 random bits need no slow hash: there is nothing to guess.
    return hashlib.sha256(clear.encode()).hexdigest()
