"""Environments and their policies."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from django.db import transaction

from console import live
from console.actors import Actor, require
from console.errors import FieldError, Invalid
from console.services import audit
from models_registry.models import Environment
from models_registry.rules import approval_documents
from models_registry.rules.approval_rules import ROLES


class Unset(Enum):
    """Not given, where None means something."""

    UNSET = "unset"


UNSET: Final = Unset.UNSET
MOST_P95_MS = 60_000.0
_NAME = re.compile(r"[a-z][a-z0-9-]{0,39}")


def set_environment(
    *,
    name: str,
    description: str | None = None,
    requires_contract: bool | None = None,
    approval_rules: Sequence[Mapping[str, Any]] | None = None,
    approver_roles: Iterable[str] | None = None,
    author_may_approve: bool | None = None,
    approval_valid_days: int | Unset | None = UNSET,
    break_glass_roles: Iterable[str] | None = None,
    production: bool | None = None,
    requires_load_test: bool | None = None,
    load_test_p95_ms: float | None = None,
    load_test_success: float | None = None,
    actor: Actor,
) -> Environment:
    """Make an environment, or change what is given of one; saying the same changes nothing.

    `approver_roles` and `author_may_approve` are a shorthand for `approval_rules`: one approval
    by a holder of each role. `load_test_success` is in per cent. What makes the policy weaker is
    said in the audit entry. Raises Invalid: `bad_name`, `bad_policy` with pointers,
    `unknown_role`, or `bad_limit` for what no load test could be measured against.
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
    policy = {
        "approval_rules": None if approval_rules is None else list(approval_rules),
        "break_glass_roles": None if break_glass_roles is None else list(break_glass_roles),
    }
    given_policy = {field: value for field, value in policy.items() if value is not None}
    if not isinstance(approval_valid_days, Unset):
        given_policy["approval_valid_days"] = approval_valid_days  # type: ignore[assignment]
    approval_documents.check(given_policy)
    short = _Shorthand(None if approver_roles is None else list(approver_roles), author_may_approve)
    short.check(with_rules=approval_rules is not None)
    _check_limits(load_test_p95_ms, load_test_success)
    wanted = {
        **given_policy,
        "description": description,
        "requires_contract": requires_contract,
        "production": production,
        "requires_load_test": requires_load_test,
        "load_test_p95_ms": load_test_p95_ms,
        "load_test_success": load_test_success,
    }
    given = {f: v for f, v in wanted.items() if v is not None or f == "approval_valid_days"}
    with transaction.atomic():
        return _write(name, given, short, actor)


@dataclass(frozen=True, slots=True)
class _Shorthand:
    roles: list[str] | None
    author_may_approve: bool | None

    @property
    def is_given(self) -> bool:
        return self.roles is not None or self.author_may_approve is not None

    def check(self, *, with_rules: bool) -> None:
        if self.is_given and with_rules:
            raise Invalid(
                "The approvals are given twice: as rules and in short.",
                code="bad_policy",
                hint="Give approval_rules, or approver_roles and author_may_approve.",
                errors=(FieldError("/approval_rules", "is given beside its shorthand"),),
            )
        if unknown := sorted(set(self.roles or ()) - set(ROLES)):
            raise Invalid(
                f"The role {unknown[0]} cannot approve.",
                code="unknown_role",
                hint="Roles that can are " + ", ".join(ROLES) + ".",
                errors=(FieldError("/approver_roles", f"{unknown[0]} cannot approve"),),
            )


def _write(name: str, given: dict[str, Any], short: _Shorthand, actor: Actor) -> Environment:
    environment = Environment.objects.select_for_update().filter(name=name).first()
    created = environment is None
    if environment is None:
        environment = Environment.objects.create(name=name)
    if short.is_given:
        rules = approval_documents.from_shorthand(
            environment.rules,
            approver_roles=short.roles,
            author_may_approve=short.author_may_approve,
        )
        given["approval_rules"] = approval_documents.write_rules(rules)
    elif "approval_rules" in given:
        rules = approval_documents.read_rules(given["approval_rules"])
        given["approval_rules"] = approval_documents.write_rules(rules)
    before, strict = {field: getattr(environment, field) for field in given}, _policy(environment)
    if not created and before == given:
        return environment
    for field, value in given.items():
        setattr(environment, field, value)
    environment.save()
    weaker = [] if created else approval_documents.weaker(strict, _policy(environment))
    audit.record(
        actor=actor,
        action="environment.create" if created else "environment.change",
        subject=f"environment {name}",
        subject_url="/settings/environments/",
        before=None if created else before,
        after={**given, **({"weaker": weaker} if weaker else {})},
    )
    live.publish("environments", "environment.changed", {"name": name})
    return environment


def _policy(environment: Environment) -> dict[str, Any]:
    fields = (
        "approval_rules", "approval_valid_days", "break_glass_roles", "requires_contract",
        "requires_load_test",
    )  # fmt: skip
    return {field: getattr(environment, field) for field in fields}


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
