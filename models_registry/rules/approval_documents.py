"""The approval policy as a document: its schema, faults and shorthand, and what weakens it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator, ValidationError

from console.errors import FieldError, Invalid
from console.rules.canonical import pointer_of
from models_registry.rules.approval_rules import (
    EXCLUDABLE,
    NOUNS,
    REQUESTER,
    ROLES,
    SEATS,
    ApprovalRule,
    implies,
    not_implied,
    role_rule,
)

_SCHEMA_FILE = Path(__file__).with_name("approval_policy_schema.json")
_TYPES = {
    "object": "an object",
    "array": "a list",
    "integer": "a whole number",
    "boolean": "true or false",
    "null": "null",
}


@cache
def schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of an environment's policy."""
    loaded: dict[str, Any] = json.loads(_SCHEMA_FILE.read_text(encoding="utf-8"))
    return loaded


def check(policy: Mapping[str, Any]) -> None:
    """Raise Invalid `bad_policy` with a pointer for each fault of the given parts of a policy."""
    faults = [*_schema_faults(policy), *_rule_faults(policy.get("approval_rules"))]
    if not faults:
        return
    first = faults[0]
    raise Invalid(
        f"The policy is not accepted: {first.pointer or 'it'} {first.detail}.",
        code="bad_policy",
        hint='A rule reads {"count": 2, "roles": ["sre"], "seats": [], "not": ["uploader"]}; '
        "see docs/approvals.md.",
        errors=tuple(faults),
    )


def read_rules(written: Sequence[Mapping[str, Any]]) -> tuple[ApprovalRule, ...]:
    """Rules from their JSON form. Raises Invalid `bad_policy`."""
    check({"approval_rules": list(written)})
    return tuple(
        ApprovalRule(
            int(one["count"]),
            _in_order(one.get("roles", ()), ROLES),
            _in_order(one.get("seats", ()), SEATS),
            _in_order(one.get("not", ()), EXCLUDABLE),
        )
        for one in written
    )


def write_rules(rules: Iterable[ApprovalRule]) -> list[dict[str, Any]]:
    """Rules in their JSON form, each part there and in one order."""
    return [
        {
            "count": rule.count,
            "roles": list(rule.roles),
            "seats": list(rule.seats),
            "not": list(rule.excluded),
        }
        for rule in rules
    ]


def from_shorthand(
    rules: Sequence[ApprovalRule],
    *,
    approver_roles: Iterable[str] | None,
    author_may_approve: bool | None,
) -> tuple[ApprovalRule, ...]:
    """The rules that the shorthand stands for: one approval by a holder of each role.

    What is not given stays as it is in `rules`; new rules exclude the authors.
    """
    if author_may_approve is None:
        author_may_approve = bool(rules) and admits_authors(rules)
    excluded = () if author_may_approve else EXCLUDABLE
    if approver_roles is None:
        return tuple(
            ApprovalRule(one.count, one.roles, one.seats, _excluding(one, author_may_approve))
            for one in rules
        )
    return tuple(role_rule(role, excluded=excluded) for role in dict.fromkeys(approver_roles))


def approver_roles(rules: Iterable[ApprovalRule]) -> list[str]:
    """The shorthand of the rules: the roles that are asked for."""
    return list(dict.fromkeys(role for rule in rules for role in rule.roles))


def admits_authors(rules: Iterable[ApprovalRule]) -> bool:
    """Whether the person who asked for a release may give an approval by each rule."""
    return not any(REQUESTER in rule.excluded for rule in rules)


def weaker(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Sentences on what a policy does not ask for any more; [] when it is as strict as before.

    Both are whole policies in their JSON form.
    """
    old, new = read_rules(before["approval_rules"]), read_rules(after["approval_rules"])
    found = [_weaker_rule(rule, new) for rule in not_implied(old, new)]
    was, now = before["approval_valid_days"], after["approval_valid_days"]
    if was is not None and (now is None or now > was):
        found.append(
            f"An approval counts {'without end' if now is None else f'for {now} days'}, not {was}."
        )
    for name, words in (
        ("requires_contract", "It asks for no contract in force any more."),
        ("requires_load_test", "It asks for no load test any more."),
    ):
        if before[name] and not after[name]:
            found.append(words)
    found += [
        f"{NOUNS[role][1]} may release against the policy.".capitalize()
        if role != "sre"
        else "SREs may release against the policy."
        for role in after["break_glass_roles"]
        if role not in before["break_glass_roles"]
    ]
    return found


def _weaker_rule(rule: ApprovalRule, new: Sequence[ApprovalRule]) -> str:
    alike = [one for one in new if set(one.roles) & set(rule.roles) and not implies(one, rule)]
    instead = f", only {alike[0].words()}" if alike else ""
    return f"It does not ask for {rule.words()} any more{instead}."


def _excluding(rule: ApprovalRule, author_may_approve: bool) -> tuple[str, ...]:
    if author_may_approve:
        return ()
    return rule.excluded if REQUESTER in rule.excluded else EXCLUDABLE


def _in_order(names: Iterable[str], order: Sequence[str]) -> tuple[str, ...]:
    given = set(names)
    return tuple(name for name in order if name in given)


def _schema_faults(policy: Mapping[str, Any]) -> list[FieldError]:
    errors = sorted(_validator().iter_errors(dict(policy)), key=lambda error: list(error.path))
    return [fault for error in errors for fault in _in_words(error)]


@cache
def _validator() -> Draft202012Validator:
    return Draft202012Validator(schema())


def _in_words(error: ValidationError) -> list[FieldError]:
    pointer = pointer_of(*error.absolute_path)
    limit: Any = error.validator_value
    part: Any = error.schema
    value: Any = error.instance
    match error.validator:
        case "additionalProperties":
            known = part["properties"]
            return [
                FieldError(f"{pointer}{pointer_of(name)}", "is not a known field")
                for name in value
                if name not in known
            ]
        case "required":
            return [
                FieldError(f"{pointer}{pointer_of(name)}", "is missing")
                for name in limit
                if name not in value
            ]
        case "type":
            names = [limit] if isinstance(limit, str) else limit
            detail = "is not " + " or ".join(_TYPES[name] for name in names)
        case "enum":
            detail = f"is not one of {', '.join(limit)}"
        case "minimum":
            detail = f"is below {limit}"
        case "maximum":
            detail = f"is above {limit}"
        case "maxItems":
            detail = f"has more than {limit} rules"
        case "uniqueItems":
            detail = "names one twice"
        case _:
            detail = error.message
    return [FieldError(pointer, detail)]


def _rule_faults(rules: object) -> list[FieldError]:
    """What a schema does not say: a rule that nobody can meet."""
    faults = []
    for index, rule in enumerate(rules if isinstance(rules, list) else ()):
        if not isinstance(rule, dict):
            continue
        roles, seats = rule.get("roles") or [], rule.get("seats") or []
        if not isinstance(roles, list) or not isinstance(seats, list):
            continue
        count = rule.get("count")
        if not roles and not seats:
            detail = "names neither a role nor a seat, so nobody could approve"
            faults.append(FieldError(pointer_of("approval_rules", index), detail))
        elif not roles and isinstance(count, int) and count > len(seats):
            detail = f"is more than the {len(seats)} people in these seats"
            faults.append(FieldError(pointer_of("approval_rules", index, "count"), detail))
    return faults
