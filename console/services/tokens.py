"""API tokens: made once in clear, kept as a digest."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from console.actors import Actor, allowed, require
from console.errors import Conflict, Invalid, NotAllowed, NotFound
from console.models import ApiToken, Severity, User, WorkloadIdentity
from console.rules.permissions import SCOPES
from console.services import audit, notices
from console.services.service_accounts import lock_account

LAST_USED_GRAIN = timedelta(minutes=1)
WARNED_BEFORE = timedelta(days=7)
WARNED_AT_ONCE = 500
# What a service account's token may do: a machine manages nobody and signs nothing.
MACHINE_SCOPES = ("read", "write", "operate")
# Short tokens of workloads are many; what they did is in the audit trail.
KEPT_AFTER_EXPIRY = timedelta(days=7)


def create_token(
    *, name: str, scopes: list[str], actor: Actor, days: int | None = None
) -> tuple[ApiToken, str]:
    """Make a token for the actor; the clear text is given once and never again.

    Names are labels: several may have the same, so that a new token can take over from an old one.
    Raises Invalid for an unknown scope, an empty name or a lifetime outside 1..365 days.
    """
    require(actor, "token.manage_own")
    _check_scopes(scopes, SCOPES)
    if actor.scopes is not None and not set(scopes) <= actor.scopes:
        raise NotAllowed(
            "A token cannot make one that may do more than itself.",
            code="scope_missing",
            hint="Sign in, or use a token that has these scopes.",
        )
    expires_at = _expiry(name, days)
    with transaction.atomic():
        token, clear = issue_token(
            owner=actor.user, name=name, scopes=scopes, expires_at=expires_at
        )
        _record(token, "token.create", actor)
    return token, clear


def create_account_token(
    *, username: str, name: str, scopes: list[str], days: int | None = None, actor: Actor
) -> tuple[ApiToken, str]:
    """Make a token for a service account, by an admin; the clear text is given once.

    Raises NotFound, Conflict (`deactivated`), and Invalid as `create_token`; a machine's token
    neither signs nor manages people.
    """
    require(actor, "service_account.manage")
    _check_scopes(scopes, MACHINE_SCOPES)
    expires_at = _expiry(name, days)
    with transaction.atomic():
        account = lock_account(username)
        if not account.is_active:
            raise Conflict(
                f"{account.username} is disabled: a token would open nothing.",
                code="deactivated",
                hint="Enable the account first.",
            )
        token, clear = issue_token(owner=account, name=name, scopes=scopes, expires_at=expires_at)
        _record(token, "token.create", actor)
    return token, clear


def issue_token(
    *,
    owner: User,
    name: str,
    scopes: Sequence[str],
    expires_at: datetime,
    workload: WorkloadIdentity | None = None,
) -> tuple[ApiToken, str]:
    """Write a token and give its clear text; who may ask for it is the caller's business."""
    clear = "cvt_" + secrets.token_urlsafe(32)
    token = ApiToken.objects.create(
        user=owner,
        name=name.strip()[:80],
        prefix=clear[:10],
        digest=_digest(clear),
        scopes=sorted(set(scopes)),
        expires_at=expires_at,
        workload=workload,
    )
    return token, clear


def revoke_token(*, token_id: int, reason: str = "", actor: Actor) -> ApiToken:
    """Revoke one's own token, or anybody's for a platform admin; twice changes nothing."""
    if not allowed(actor, "user.manage"):
        require(actor, "token.manage_own")
    with transaction.atomic():
        token = (
            ApiToken.objects.select_for_update(of=("self",))
            .select_related("user")
            .filter(pk=token_id)
            .first()
        )
        own = token is not None and token.user_id == actor.user.pk
        if token is None or not (own or allowed(actor, "user.manage")):
            raise NotFound("There is no such token of yours.", hint="See Settings → My tokens.")
        if token.revoked_at is None:
            token.revoked_at = timezone.now()
            token.save(update_fields=["revoked_at"])
            notices.end(key=_notice_key(token))
            _record(token, "token.revoke", actor, reason=reason)
    return token


def authenticate_token(clear: str, *, address: str = "") -> ApiToken | None:
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
        ApiToken.objects.filter(pk=token.pk).update(
            last_used_at=now, last_used_from=address[:100] or token.last_used_from
        )
    return token


def warn_of_expiring_tokens() -> int:
    """Tell owners once of tokens that expire within 7 days; gives how many were told.

    Of a service account's token the platform admins are told, who make them. A workload's short
    tokens expire as they should.
    """
    now = timezone.now()
    expiring = (
        ApiToken.objects.filter(
            revoked_at__isnull=True,
            workload__isnull=True,
            expires_at__gt=now,
            expires_at__lte=now + WARNED_BEFORE,
            user__is_active=True,
        )
        .select_related("user")
        .order_by("expires_at")[:WARNED_AT_ONCE]
    )
    told = 0
    for token in expiring:
        if token.expires_at - token.created_at <= WARNED_BEFORE:
            # It was made to live for a week: that it ends is no news.
            continue
        told += notices.notify(
            people=_answering_for(token),
            kind="token.expiring",
            key=_notice_key(token),
            subject=f"token {token.prefix}",
            subject_url=_url_of(token),
            severity=Severity.WARNING,
            data={
                "name": token.name,
                "owner": token.user.username,
                "day": f"{token.expires_at:%Y-%m-%d}",
            },
        )
    return told


def forget_spent_tokens() -> int:
    """Delete workloads' short tokens a week after they expired; gives how many."""
    oldest = timezone.now() - KEPT_AFTER_EXPIRY
    deleted, _ = ApiToken.objects.filter(workload__isnull=False, expires_at__lt=oldest).delete()
    return deleted


def _check_scopes(scopes: Sequence[str], known: Sequence[str]) -> None:
    unknown = sorted(set(scopes) - set(known))
    if unknown or not scopes:
        raise Invalid(
            f"Not a scope to give here: {', '.join(unknown)}."
            if unknown
            else "A token needs a scope.",
            code="bad_scope",
            hint="Scopes are " + ", ".join(known) + ".",
        )


def _expiry(name: str, days: int | None) -> datetime:
    lifetime = settings.TOKEN_LIFETIME_DAYS if days is None else days
    if not 1 <= lifetime <= 365 or not name.strip():
        raise Invalid(
            "A token needs a name and a lifetime of 1 to 365 days.", code="bad_token_request"
        )
    return timezone.now() + timedelta(days=lifetime)


def _answering_for(token: ApiToken) -> list[User]:
    if not token.user.is_service:
        return [token.user]
    return list(User.objects.filter(is_active=True, roles__contains=["platform_admin"]))


def _url_of(token: ApiToken) -> str:
    if token.user.is_service:
        return f"/settings/service-accounts/{token.user.username}/"
    return "/settings/tokens/"


def _notice_key(token: ApiToken) -> str:
    return f"token:{token.pk}:expiring"


def _record(token: ApiToken, action: str, actor: Actor, *, reason: str = "") -> None:
    audit.record(
        actor=actor,
        action=action,
        subject=f"token {token.prefix}",
        after={"name": token.name, "scopes": token.scopes, "owner": token.user.username},
        reason=reason,
    )


def _digest(clear: str) -> str:
    # 256 random bits need no slow hash: there is nothing to guess.
    return hashlib.sha256(clear.encode()).hexdigest()
