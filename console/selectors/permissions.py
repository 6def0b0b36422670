"""The table of permissions as it is shown: in the settings, in the docs, at the command line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from django.urls import URLPattern, URLResolver, get_resolver

from console.models import Role
from console.rules.permissions import ACTIONS, ActionRule
from console.selectors.doors import page_acts

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
ROLES: tuple[Role, ...] = tuple(Role)
# What everybody has or may, about themselves, comes last.
GROUPS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("models", ("model", "upload", "version", "plan", "load_test", "allow_load_test")),
    ("contracts", ("contract",)),
    ("releases", ("release",)),
    (
        "traffic",
        (
            "deployment",
            "split",
            "endpoint",
            "rollout",
            "rollback_policy",
            "incident",
            "access",
            "experiment",
            "caller",
        ),
    ),
    (
        "promises",
        (
            "alert",
            "alert_rule",
            "alert_channel",
            "on_call",
            "maintenance",
            "sla",
            "telemetry",
            "diagnosis",
        ),
    ),
    ("installation", ("gateway", "node", "statistics", "environment", "job", "audit")),
    ("people", ("user", "team", "service_account")),
    ("own", ("read", "key", "token", "second_factor", "notice")),
)


@dataclass(frozen=True, slots=True)
class PermissionRow:
    """One action: `may` says for each of `ROLES` whether it permits it."""

    action: str
    rule: ActionRule
    may: tuple[bool, ...]


def permission_groups() -> list[tuple[str, list[PermissionRow]]]:
    """All actions by subject, in the order of the table."""
    return [
        (group, [_row(action) for action in ACTIONS if _subject(action) in subjects])
        for group, subjects in GROUPS
    ]


def doors() -> dict[str, list[str]]:
    """Action → the API's methods and the pages at which it is done."""
    found: dict[str, list[str]] = {}
    for name, route, view in _addresses(get_resolver().url_patterns, "", "/"):
        named: dict[str, str] = getattr(view, "required_actions", {})
        for method in METHODS:
            if method in named and hasattr(view, method.lower()):
                found.setdefault(named[method], []).append(f"{method} {route}")
        if name in page_acts():
            found.setdefault(page_acts()[name], []).append(f"page {route}")
    return found


def as_markdown() -> str:
    """The matrix and its doors as Markdown; docs/permissions.md holds the same text."""
    heads = ["Action", *(role.value for role in ROLES), "In a team", "Persons only", "Scope"]
    lines = [_line(heads), _line(["---"] * len(heads))]
    for _group, rows in permission_groups():
        for row in rows:
            cells = ["✓" if may else "" for may in row.may]
            team = "✓" if row.rule.roles and row.rule.per_team else ""
            persons = "✓" if row.rule.persons_only else ""
            lines.append(_line([f"`{row.action}`", *cells, team, persons, row.rule.scope]))
    lines += ["", _line(["Action", "Doors"]), _line(["---", "---"])]
    known = doors()
    for action in ACTIONS:
        places = "<br>".join(f"`{door}`" for door in known.get(action, []))
        lines.append(_line([f"`{action}`", places or "asked by services only"]))
    return "\n".join(lines) + "\n"


def _row(action: str) -> PermissionRow:
    rule = ACTIONS[action]
    return PermissionRow(
        action, rule, tuple(not rule.roles or role in rule.roles for role in ROLES)
    )


def _subject(action: str) -> str:
    return action.partition(".")[0]


def _line(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _addresses(
    patterns: list[URLPattern | URLResolver], namespace: str, route: str
) -> Iterator[tuple[str, str, object]]:
    for pattern in patterns:
        inner = route + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            deeper = f"{namespace}{pattern.namespace}:" if pattern.namespace else namespace
            yield from _addresses(pattern.url_patterns, deeper, inner)
        elif pattern.name:
            shown = re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", inner)
            view = getattr(pattern.callback, "cls", pattern.callback)
            yield f"{namespace}{pattern.name}", shown, view
