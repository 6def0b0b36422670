"""Keyless sign-in of programs: a platform's own token for a short token of a service account."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import jwt
from django.db import IntegrityError, transaction
from django.utils import timezone

from console.actors import Actor, require
from console.adapters.oidc_issuer import signing_key
from console.errors import Conflict, FieldError, Invalid, NotAllowed, NotFound
from console.models import ApiToken, User, WorkloadIdentity, WorkloadTokenUse
from console.rules import workload_tokens as rules
from console.services import audit
from console.services.attempts import Limit, count_attempt, forget_attempts
from console.services.service_accounts import lock_account, url_of
from console.services.tokens import issue_token

PER_ADDRESS = Limit(attempts=30, seconds=15 * 60)
SMALLEST_RSA = 2048


def add_workload(
    *,
    username: str,
    name: str,
    issuer: str,
    audience: str,
    claims: Mapping[str, str],
    scopes: Sequence[str],
    actor: Actor,
) -> WorkloadIdentity:
    """Let tokens of an issuer that fit these claims speak for the service account.

    Raises Invalid with each fault at its place, NotFound.
    """
    require(actor, "service_account.manage")
    faults = _faults(name, issuer, audience, claims, scopes)
    if faults:
        raise Invalid(
            "The workload identity is not accepted.",
            hint="It takes an https issuer, an audience, and at least the claim `sub`.",
            errors=tuple(FieldError(pointer, why) for pointer, why in faults),
        )
    with transaction.atomic():
        account = lock_account(username)
        identity = WorkloadIdentity.objects.create(
            service_account=account,
            name=name.strip(),
            issuer=issuer,
            audience=audience,
            claims=dict(claims),
            scopes=sorted(set(scopes)),
            created_by=actor.user,
        )
        _record(identity, "workload.create", actor)
    return identity


def remove_workload(
    *, username: str, workload_id: int, reason: str = "", actor: Actor
) -> WorkloadIdentity:
    """Trust these tokens no longer; short tokens that were given for them end at once."""
    require(actor, "service_account.manage")
    with transaction.atomic():
        account = lock_account(username)
        identity = WorkloadIdentity.objects.filter(pk=workload_id, service_account=account).first()
        if identity is None:
            raise NotFound(f"{username} has no such workload identity.")
        identity.service_account = account
        if identity.removed_at is None:
            now = timezone.now()
            identity.removed_at = now
            identity.save(update_fields=["removed_at"])
            live = ApiToken.objects.filter(workload=identity, revoked_at__isnull=True)
            live.update(revoked_at=now)
            _record(identity, "workload.remove", actor, reason=reason)
    return identity


def exchange_token(
    *, token: str, account: str = "", address: str, source: str, request_id: str = ""
) -> tuple[ApiToken, str]:
    """A token of 15 minutes for a platform's own; gives it with its clear text.

    `account` says which service account is meant where the token fits several. Raises NotAllowed
    (`workload_refused`, `workload_replayed`) with the reason, Conflict (`workload_ambiguous`),
    Unavailable when the issuer cannot be asked, TooMany after 30 refusals from one address.
    """
    count_attempt(f"workload:{address}", PER_ADDRESS)
    header, issuer = _look_at(token)
    # Nothing is asked of an issuer that nobody registered: a token cannot make us call anywhere.
    trusted = list(
        WorkloadIdentity.objects.filter(issuer=issuer, removed_at__isnull=True)
        .filter(service_account__is_active=True)
        .select_related("service_account")
        .order_by("pk")
    )
    if not trusted:
        raise _refused("no workload identity here trusts its issuer")
    claims = _verified(token, header, issuer)
    identity = _the_one(trusted, claims, account)
    expires_at = timezone.now() + rules.LIFETIME
    with transaction.atomic():
        _use_once(issuer, token, claims)
        given, clear = issue_token(
            owner=identity.service_account,
            name=f"workload {identity.name}",
            scopes=identity.scopes,
            expires_at=expires_at,
            workload=identity,
        )
        WorkloadIdentity.objects.filter(pk=identity.pk).update(last_used_at=timezone.now())
        audit.record(
            actor=Actor(
                user=identity.service_account,
                source=f"{source} {address}"[:100],
                request_id=request_id,
            ),
            action="workload.sign_in",
            subject=f"service account {identity.service_account.username}",
            subject_url=url_of(identity.service_account),
            after={
                "identity": identity.name,
                "issuer": issuer,
                "subject": str(claims.get("sub"))[:300],
                "token": given.prefix,
                "scopes": given.scopes,
            },
        )
    forget_attempts(f"workload:{address}")
    return given, clear


def forget_used_tokens() -> int:
    """Delete what is known of platforms' tokens that have expired by now; gives how many."""
    old = timezone.now() - timedelta(hours=1)
    deleted, _ = WorkloadTokenUse.objects.filter(expires_at__lt=old).delete()
    return deleted


def _look_at(token: str) -> tuple[dict[str, Any], str]:
    """Header and issuer as they are said, before anything is verified."""
    if len(token) > rules.MOST_BYTES:
        raise _refused(f"it is longer than {rules.MOST_BYTES // 1024} KiB")
    try:
        header = jwt.get_unverified_header(token)
        said = jwt.decode(token, options={"verify_signature": False})
    except jwt.PyJWTError as error:
        raise _refused("it is no JSON Web Token") from error
    issuer = said.get("iss")
    if header.get("alg") not in rules.ALGORITHMS:
        raise _refused(
            f"it is signed by {str(header.get('alg'))[:20]}, not by one of "
            + ", ".join(rules.ALGORITHMS)
        )
    if "crit" in header:
        raise _refused("its header asks for an extension (crit) that is not known here")
    if not isinstance(header.get("kid"), str) or not isinstance(issuer, str):
        raise _refused("it names no key (kid) or no issuer (iss)")
    return header, issuer


def _verified(token: str, header: Mapping[str, Any], issuer: str) -> dict[str, Any]:
    """The claims, once signature and times hold. The audience is each identity's own."""
    key = signing_key(issuer, header["kid"])
    if key is None:
        raise _refused("its issuer has no key with its key id")
    if key.algorithm_name != header["alg"]:
        raise _refused("its algorithm is not the one of its issuer's key")
    if getattr(key.key, "key_size", SMALLEST_RSA) < SMALLEST_RSA and key.key_type == "RSA":
        raise _refused(f"its issuer's key has fewer than {SMALLEST_RSA} bits")
    try:
        claims: dict[str, Any] = jwt.decode(
            token,
            key,
            algorithms=list(rules.ALGORITHMS),
            issuer=issuer,
            leeway=rules.LEEWAY,
            options={"require": ["exp", "iat", "iss", "aud", "sub"], "verify_aud": False},
        )
    except jwt.ExpiredSignatureError as error:
        raise _refused("it has expired") from error
    except jwt.ImmatureSignatureError as error:
        raise _refused("it is not valid yet: compare the clocks") from error
    except jwt.InvalidSignatureError as error:
        raise _refused("its signature does not fit") from error
    except jwt.PyJWTError as error:
        raise _refused(f"{error}".rstrip(".")[:200]) from error
    if _ends(claims) > timezone.now() + rules.LONGEST_LIFE:
        raise _refused("it lives for longer than a day")
    return claims


def _the_one(
    trusted: Sequence[WorkloadIdentity], claims: Mapping[str, Any], account: str
) -> WorkloadIdentity:
    meant = [one for one in trusted if rules.is_for(one.audience, claims.get("aud"))]
    if not meant:
        raise _refused("its audience (aud) is not the one that was registered")
    fitting = [one for one in meant if rules.claims_fit(one.claims, claims)]
    if account:
        fitting = [one for one in fitting if one.service_account.username == account]
    if not fitting:
        raise _refused("its claims are not those of a workload identity")
    if len({one.service_account_id for one in fitting}) > 1:
        raise Conflict(
            "The token fits more than one service account.",
            code="workload_ambiguous",
            hint="Say which is meant, by `account`.",
        )
    return fitting[0]


def _use_once(issuer: str, token: str, claims: Mapping[str, Any]) -> None:
    """Remember the token by its id, or by itself where it has none. Refuses it the second time."""
    said = claims.get("jti")
    token_id = said if isinstance(said, str) and said else token
    try:
        with transaction.atomic():
            WorkloadTokenUse.objects.create(
                digest=rules.use_digest(issuer, token_id), expires_at=_ends(claims)
            )
    except IntegrityError as error:
        raise NotAllowed(
            "This workload token was used already.",
            code="workload_replayed",
            hint="Ask the platform for a new token in each run.",
        ) from error


def _ends(claims: Mapping[str, Any]) -> datetime:
    try:
        return datetime.fromtimestamp(float(claims["exp"]), tz=UTC)
    except (OverflowError, ValueError, OSError) as error:
        raise _refused("it says no time at which it expires") from error


def _faults(
    name: str, issuer: str, audience: str, claims: Mapping[str, str], scopes: Sequence[str]
) -> list[tuple[str, str]]:
    beyond = sorted(set(scopes) - set(rules.SCOPES))
    found = [
        ("/name", "" if 0 < len(name.strip()) <= 80 else "is missing or too long"),
        ("/issuer", rules.issuer_fault(issuer) if len(issuer) <= 300 else "is too long"),
        ("/audience", "" if 0 < len(audience) <= 200 else "is missing or too long"),
        ("/claims", rules.patterns_fault(claims)),
        (
            "/scopes",
            f"cannot have {', '.join(beyond)}" if beyond else "" if scopes else "are missing",
        ),
    ]
    return [(pointer, why) for pointer, why in found if why]


def _record(identity: WorkloadIdentity, action: str, actor: Actor, *, reason: str = "") -> None:
    account: User = identity.service_account
    audit.record(
        actor=actor,
        action=action,
        subject=f"service account {account.username}",
        subject_url=url_of(account),
        after={
            "identity": identity.name,
            "issuer": identity.issuer,
            "audience": identity.audience,
            "claims": identity.claims,
            "scopes": identity.scopes,
        },
        reason=reason,
    )


def _refused(why: str) -> NotAllowed:
    return NotAllowed(
        f"The workload token is refused: {why}.",
        code="workload_refused",
        hint="See docs/people.md, “Programs without a secret”.",
    )
