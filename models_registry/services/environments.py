"""Environments and their policies."""

from __future__ import annotations

import re
from collections.abc import Iterable

from django.db import transaction

from console import live
from console.actors import Actor, require
from console.errors import FieldError, Invalid
from console.services import audit
from models_registry.models import Environment
from models_registry.rules.releases import ROLE_WORDS

MOST_P95_MS = 60_000.0
_NAME = re.compile(r"[a-z][a-z0-9-]{0,39}")


def set_environment(
    *,
    name: str,
    description: str | None = None,
    requires_contract: bool | None = None,
    approver_roles: Iterable[str] | None = None,
    author_may_approve: bool | None = None,
    production: bool | None = None,
    requires_load_test: bool | None = None,
    load_test_p95_ms: float | None = None,
    load_test_success: float | None = None,
    actor: Actor,
) -> Environment:
    """Make an environment, or change what is given of one; saying the same changes nothing.

    `load_test_success` is in per cent. Raises Invalid for a bad name, a role that cannot approve
    or a limit that no load test could be measured against.
    """
    require(actor, "environment.change")
    if not _NAME.fullmatch(name):
        raise Invalid(
            f"“{name[:80]}” is not an environment's name: use up to 40 lower-case letters, digits "
            "and -, beginning with a letter.",
            code="bad_name",
            hint="For example: staging.",
            errors=(FieldError("/name", "is not accepted"),),
        )
    roles = None if approver_roles is None else list(dict.fromkeys(approver_roles))
    if unknown := sorted(set(roles or ()) - set(ROLE_WORDS)):
        raise Invalid(
            f"The role {unknown[0]} cannot approve.",
            code="unknown_role",
            hint="Roles that can are " + ", ".join(ROLE_WORDS) + ".",
            errors=(FieldError("/approver_roles", f"{unknown[0]} cannot approve"),),
        )
    _check_limits(load_test_p95_ms, load_test_success)
    wanted = {
        "description": description,
        "requires_contract": requires_contract,
        "approver_roles": roles,
        "author_may_approve": author_may_approve,
        "production": production,
        "requires_load_test": requires_load_test,
        "load_test_p95_ms": load_test_p95_ms,
        "load_test_success": load_test_success,
    }
    given = {field: value for field, value in wanted.items() if value is not None}
    with transaction.atomic():
        environment, created = Environment.objects.select_for_update().get_or_create(
            name=name, defaults=given
        )
        before = {field: getattr(environment, field) for field in given}
        if not created and before == given:
            return environment
        for field, value in given.items():
            setattr(environment, field, value)
        environment.save()
        audit.record(
            actor=actor,
            action="environment.create" if created else "environment.change",
            subject=f"environment {name}",
            before=None if created else before,
            after=given,
        )
        live.publish("environments", "environment.changed", {"name": name})
    return environment


def _check_limits(p95_ms: float | None, success: float | None) -> None:
    faults = []
    if p95_ms is not None and not 0 < p95_ms <= MOST_P95_MS:
        faults.append(
            FieldError("/load_test_p95_ms", f"is not between 0 and {MOST_P95_MS:g} milliseconds")
        )
    if success is not None and not 0 < success <= 100:
        faults.append(FieldError("/load_test_success", "is not between 0 and 100 per cent"))
    if faults:
        raise Invalid(
            "No load test can be measured against these limits.",
            code="bad_limit",
            hint="The usual ones are a p95 of 50 ms and 100 % success.",
            errors=tuple(faults),
        )
