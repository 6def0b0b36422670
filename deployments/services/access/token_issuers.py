"""Token issuers of an environment: whose JWTs name callers, and their keys kept fresh."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import IntegrityError, transaction
from django.utils import timezone

from console.actors import Actor, require
from console.errors import Conflict, CovenantError, FieldError, Invalid, NotFound
from console.models import Role, Severity, User
from console.rules.outgoing import parse_target
from console.services import audit, notices
from deployments.adapters import jwks as jwks_adapter
from deployments.models import AccessPolicy, TokenIssuer
from deployments.rules.access.jwks import parse_jwks
from deployments.services.access.callers import find_environment
from deployments.services.gateways.desired import wake_gateways

FETCH_EVERY = timedelta(minutes=1)
STALE_AFTER = timedelta(hours=1)
SCHEMES = ("https", "http")
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,60}\Z")
_CLAIM = re.compile(r"[A-Za-z0-9_.:/-]{1,60}\Z")
_ISSUER = re.compile(r"[!-~]{1,300}\Z")


def set_token_issuer(
    *,
    environment: str,
    name: str,
    issuer: str,
    audiences: Sequence[str],
    actor: Actor,
    caller_claim: str = "sub",
    jwks: object = None,
    jwks_url: str = "",
) -> TokenIssuer:
    """Register an issuer, or change its registration; its keys are given, or fetched now by URL.

    Raises Invalid (each field at its pointer), Conflict when another one has the same `issuer`,
    Unavailable when the keys cannot be fetched.
    """
    require(actor, "caller.manage")
    place = find_environment(environment)
    _check(name, issuer, audiences, caller_claim)
    keys, url = _keys(jwks, jwks_url)
    fields = {
        "issuer": issuer,
        "audiences": list(dict.fromkeys(audiences)),
        "caller_claim": caller_claim,
        "jwks_url": url,
        "jwks": keys,
        "fetched_at": timezone.now() if url else None,
    }
    with transaction.atomic():
        other = TokenIssuer.objects.filter(environment=place, issuer=issuer).exclude(name=name)
        if other.exists():
            raise Conflict(
                f"{environment} has an issuer {issuer} already.",
                code="issuer_taken",
                hint="Change that one instead: who signs a token is told by its issuer alone.",
                errors=(FieldError("/issuer", "Taken."),),
            )
        before = (
            TokenIssuer.objects.select_for_update().filter(environment=place, name=name).first()
        )
        was = _facts(before) if before else None
        found = before or TokenIssuer(environment=place, name=name, created_by=actor.user)
        for field, value in fields.items():
            setattr(found, field, value)
        try:
            with transaction.atomic():
                found.save()
        except IntegrityError as error:
            raise Conflict(
                f"{environment} has an issuer called {name} already.", code="name_taken"
            ) from error
        wake_gateways()
        notices.end(key=stale_key(found))
        if was != _facts(found):
            _record(found, "token_issuer.set", actor, before=was, after=_facts(found))
    return found


def remove_token_issuer(*, environment: str, name: str, actor: Actor, reason: str = "") -> None:
    """Take no more of its tokens. Raises Conflict while an access policy names it."""
    require(actor, "caller.manage")
    with transaction.atomic():
        found = _locked(environment, name)
        users = AccessPolicy.objects.filter(
            endpoint__environment=found.environment,
            document__authentication__issuers__contains=[name],
        )
        if users.exists():
            seen = users.visible_to(actor.user).select_related(
                "endpoint__model", "endpoint__environment"
            )
            named = ", ".join(str(one.endpoint) for one in seen[:3])
            raise Conflict(
                f"The access policy of {named or 'an endpoint'} names {name}.",
                code="issuer_in_use",
                hint="Take it out of there first.",
            )
        _record(found, "token_issuer.remove", actor, before=_facts(found), reason=reason)
        notices.end(key=stale_key(found))
        found.delete()
        wake_gateways()


def refresh_token_issuer(*, environment: str, name: str, actor: Actor) -> TokenIssuer:
    """Fetch an issuer's keys now. Raises Unavailable, Invalid; then the last good ones stay."""
    require(actor, "caller.manage")
    found = TokenIssuer.objects.filter(environment__name=environment, name=name).first()
    if found is None or not found.jwks_url:
        raise NotFound(
            f"{environment} has no issuer called {name[:60]} whose keys are fetched.",
            hint="See the list of token issuers.",
        )
    return _refresh(found, actor)


def refresh_due(now: datetime) -> int:
    """Fetch the keys of every issuer that is due, and tell people of those that stay away.

    The last good keys serve on. Gives how many were fetched.
    """
    due = TokenIssuer.objects.exclude(jwks_url="").filter(fetched_at__lte=now - FETCH_EVERY)
    fetched = 0
    for issuer in due.select_related("environment"):
        try:
            _refresh(issuer, Actor.system("token issuers"))
            fetched += 1
        except CovenantError as error:
            if issuer.fetched_at and now - issuer.fetched_at >= STALE_AFTER:
                _tell(issuer, error)
    return fetched


def stale_key(issuer: TokenIssuer) -> str:
    """The notice's key for an issuer whose keys cannot be fetched."""
    return f"token_issuer.stale:{issuer.pk}"


def _refresh(issuer: TokenIssuer, actor: Actor) -> TokenIssuer:
    keys, _url = _keys(None, issuer.jwks_url)
    with transaction.atomic():
        found = TokenIssuer.objects.select_for_update().select_related("environment")
        fresh = found.get(pk=issuer.pk)
        if fresh.jwks_url != issuer.jwks_url:
            # Changed meanwhile: what was fetched belongs to the older registration.
            return fresh
        before = _facts(fresh)
        fresh.jwks, fresh.fetched_at = keys, timezone.now()
        fresh.save(update_fields=["jwks", "fetched_at"])
        notices.end(key=stale_key(fresh))
        if _facts(fresh) != before:
            wake_gateways()
            _record(fresh, "token_issuer.keys", actor, before=before, after=_facts(fresh))
    return fresh


def _keys(jwks: object, jwks_url: str) -> tuple[dict[str, Any], str]:
    url = jwks_url.strip()
    if bool(jwks) == bool(url):
        raise Invalid(
            "Give the issuer's key set, or the address where it lies.",
            code="invalid_issuer",
            errors=(FieldError("/jwks_url", "Give this, or jwks, and not both."),),
        )
    if not url:
        return parse_jwks(jwks), ""
    target = parse_target(url, SCHEMES)
    if len(url) > 500:
        raise Invalid(
            "The address is longer than 500 characters.",
            code="invalid_issuer",
            errors=(FieldError("/jwks_url", "At most 500 characters."),),
        )
    document = jwks_adapter.fetch(target, allowed=settings.PRIVATE_ADDRESSES)
    # Issuers publish keys for other purposes as well: those that do not fit hold up nothing.
    return parse_jwks(document, strict=False), url


def _check(name: str, issuer: str, audiences: Sequence[str], caller_claim: str) -> None:
    faults = []
    if not _NAME.match(name):
        faults.append(FieldError("/name", "Letters, digits, hyphen, underscore."))
    if not _ISSUER.match(issuer):
        faults.append(FieldError("/issuer", "What stands in the tokens’ iss, without spaces."))
    if not audiences or any(not _ISSUER.match(one) for one in audiences):
        # Without one, a token that was made for another service would open the models, too.
        faults.append(FieldError("/audiences", "At least one, as in the tokens’ aud."))
    if not _CLAIM.match(caller_claim):
        faults.append(FieldError("/caller_claim", "The name of a claim, such as sub."))
    if faults:
        raise Invalid(
            f"The token issuer cannot be used: {faults[0].detail}",
            code="invalid_issuer",
            errors=tuple(faults),
        )


def _locked(environment: str, name: str) -> TokenIssuer:
    found = (
        TokenIssuer.objects.select_for_update(of=("self",))
        .select_related("environment")
        .filter(environment__name=environment, name=name)
        .first()
    )
    if found is None:
        raise NotFound(
            f"{environment} has no token issuer called {name[:60]}.",
            hint="See the list of token issuers.",
        )
    return found


def _tell(issuer: TokenIssuer, error: CovenantError) -> None:
    place = issuer.environment.name
    notices.notify(
        people=User.objects.filter(roles__overlap=[Role.SRE, Role.PLATFORM_ADMIN]),
        kind="token_issuer.stale",
        key=stale_key(issuer),
        subject=f"token issuer {issuer.name} of {place}",
        subject_url=f"/environments/{place}/callers/",
        severity=Severity.WARNING,
        data={"name": issuer.name, "environment": place, "detail": error.message},
    )


def _facts(issuer: TokenIssuer) -> dict[str, Any]:
    keys: list[Mapping[str, Any]] = issuer.jwks.get("keys", [])
    return {
        "issuer": issuer.issuer,
        "audiences": issuer.audiences,
        "caller_claim": issuer.caller_claim,
        "jwks_url": issuer.jwks_url,
        "keys": [str(key.get("kid") or key.get("kty")) for key in keys],
        "jwks": issuer.jwks,
    }


def _record(issuer: TokenIssuer, action: str, actor: Actor, **rest: Any) -> None:
    place = issuer.environment.name
    audit.record(
        actor=actor,
        action=action,
        subject=f"token issuer {issuer.name} of {place}",
        subject_url=f"/environments/{place}/callers/",
        **rest,
    )
