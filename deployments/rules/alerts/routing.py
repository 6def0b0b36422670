"""Which routes take what is to be told: in their order, the first that matches decides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

INCIDENT = "incident"
"""The rule name of incidents, so that a route can take them alone or leave them out."""


@dataclass(frozen=True, slots=True)
class Occasion:
    """What is to be told, as routes see it; what it is not of is empty."""

    severity: str
    environment: str = ""
    model: str = ""
    team: str = ""
    rule_name: str = ""
    label: str = ""


@dataclass(frozen=True, slots=True)
class Match:
    """What a route takes; what is empty takes everything. `rule_name`, `label` may have a *."""

    route: int
    severities: frozenset[str] = frozenset()
    environment: str = ""
    model: str = ""
    team: str = ""
    rule_name: str = ""
    label: str = ""
    goes_on: bool = False


def takes(match: Match, occasion: Occasion) -> bool:
    """Whether this route takes it."""
    return (
        (not match.severities or occasion.severity in match.severities)
        and match.environment in ("", occasion.environment)
        and match.model in ("", occasion.model)
        and match.team in ("", occasion.team)
        and (not match.rule_name or fnmatchcase(occasion.rule_name, match.rule_name))
        and (not match.label or fnmatchcase(occasion.label, match.label))
    )


def routes_of(matches: Sequence[Match], occasion: Occasion) -> list[int]:
    """The routes that take it: the first that matches, and as long as one goes on, the next."""
    found = []
    for match in matches:
        if takes(match, occasion):
            found.append(match.route)
            if not match.goes_on:
                break
    return found
