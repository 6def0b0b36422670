"""Callers, keys and token issuers, as gateways need them and as people read them."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Q, QuerySet

from console.errors import NotFound
from console.models import User
from deployments.models import AccessPolicy, Caller, CallerKey, TokenIssuer
from deployments.rules.access.caller_directory import CallerDirectory, Issuer
from models_registry.models import Environment

MOST_SHOWN = 200


@dataclass(frozen=True, slots=True)
class CallerRow:
    """A caller with its keys, newest first; `usable` counts those that open something now."""

    caller: Caller
    keys: tuple[CallerKey, ...]
    usable: int


def directories(
    environments: Collection[tuple[int, str]], now: datetime
) -> dict[str, CallerDirectory]:
    """Whom the gateways know in each environment (id, name); three queries."""
    names = dict(environments)
    valid = (
        CallerKey.objects.filter(
            Q(expires_at__isnull=True) | Q(expires_at__gt=now),
            caller__environment_id__in=names,
            revoked_at__isnull=True,
        )
        .order_by("digest")
        .values_list("caller__environment_id", "digest", "caller__name")
    )
    keys: dict[int, list[tuple[str, str]]] = defaultdict(list)
    for place, digest, caller in valid:
        keys[place].append((digest, caller))
    blocked: dict[int, list[str]] = defaultdict(list)
    barred = Caller.objects.filter(environment_id__in=names, blocked_at__isnull=False)
    for place, caller in barred.order_by("name").values_list("environment_id", "name"):
        blocked[place].append(caller)
    issuers: dict[int, list[Issuer]] = defaultdict(list)
    for one in TokenIssuer.objects.filter(environment_id__in=names).order_by("name"):
        issuers[one.environment_id].append(_issuer(one))
    return {
        name: CallerDirectory(tuple(keys[pk]), tuple(blocked[pk]), tuple(issuers[pk]))
        for pk, name in names.items()
    }


def callers_of(environment: str, *, query: str = "") -> QuerySet[Caller]:
    """Callers of an environment by name, with their keys. Raises NotFound."""
    _known(environment)
    return (
        Caller.objects.filter(environment__name=environment, name__icontains=query)
        .select_related("environment", "created_by")
        .prefetch_related("keys")
        .order_by("name")
    )


def find_caller(environment: str, name: str) -> Caller:
    """One caller with its keys. Raises NotFound."""
    found = callers_of(environment).filter(name=name).first()
    if found is None:
        raise NotFound(
            f"{environment} has no caller called {name[:60]}.", hint="See the list of callers."
        )
    return found


def caller_rows(environment: str, *, now: datetime, query: str = "") -> list[CallerRow]:
    """Callers of an environment by name, the first `MOST_SHOWN`; three queries."""
    return [caller_row(one, now) for one in callers_of(environment, query=query)[:MOST_SHOWN]]


def caller_row(caller: Caller, now: datetime) -> CallerRow:
    """One caller with its keys."""
    keys = tuple(caller.keys.all())
    return CallerRow(caller, keys, sum(is_valid(key, now) for key in keys))


def is_valid(key: CallerKey, now: datetime) -> bool:
    """Whether a key opens something now, apart from its caller being blocked."""
    return key.revoked_at is None and (key.expires_at is None or key.expires_at > now)


def issuers_of(environment: str) -> QuerySet[TokenIssuer]:
    """Token issuers of an environment by name. Raises NotFound."""
    _known(environment)
    found = TokenIssuer.objects.filter(environment__name=environment)
    return found.select_related("environment").order_by("name")


def policies_of(environment: str, *, user: User) -> list[AccessPolicy]:
    """Access policies in an environment that the user may see; one query."""
    return list(
        AccessPolicy.objects.visible_to(user)
        .filter(endpoint__environment__name=environment)
        .select_related("endpoint__model", "endpoint__environment", "changed_by")
        .order_by("endpoint__model__name")[:500]
    )


def _known(environment: str) -> None:
    if not Environment.objects.filter(name=environment).exists():
        raise NotFound(f"There is no environment {environment[:60]}.")


def _issuer(row: TokenIssuer) -> Issuer:
    return Issuer(
        row.name,
        row.issuer,
        tuple(row.audiences),
        row.caller_claim,
        json.dumps(row.jwks, sort_keys=True, separators=(",", ":")),
    )
