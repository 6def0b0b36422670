"""Which roles and teams the groups of a directory or an identity provider stand for."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from console.rules.permissions import BUSINESS_OWNER, DATA_SCIENTIST, PLATFORM_ADMIN, SRE

ROLES = (DATA_SCIENTIST, SRE, BUSINESS_OWNER, PLATFORM_ADMIN, "viewer")
MOST_GROUPS = 1000


@dataclass(frozen=True, slots=True)
class GroupRule:
    """Who is in `group` has `role`; with a `team`, has it there, and is a member of it."""

    group: str
    role: str = ""
    team: str = ""


@dataclass(frozen=True, slots=True)
class Standing:
    """What somebody's groups give them; `teams` names each team that the rules speak of."""

    roles: tuple[str, ...] = ()
    teams: Mapping[str, tuple[str, ...] | None] = field(default_factory=dict)


def parse_rules(text: str) -> tuple[GroupRule, ...]:
    """Rules as an environment variable has them: `group=role;group=team/slug:role;…`.

    A team without a role makes a member. The last equals sign parts group and meaning, so that a
    distinguished name can be a group. Raises ValueError with a sentence.
    """
    return tuple(_rule(part.strip()) for part in text.split(";") if part.strip())


def standing_of(groups: Collection[str], rules: Collection[GroupRule]) -> Standing:
    """Roles, and for each team of the rules the roles there, or None for who is not in it."""
    mine = {group.casefold() for group in list(groups)[:MOST_GROUPS]}
    met = [rule for rule in rules if rule.group.casefold() in mine]
    named = sorted({rule.team for rule in rules if rule.team})
    teams: dict[str, tuple[str, ...] | None] = dict.fromkeys(named)
    for team in teams:
        here = [rule for rule in met if rule.team == team]
        if here:
            teams[team] = tuple(sorted({rule.role for rule in here if rule.role}))
    return Standing(tuple(sorted({rule.role for rule in met if not rule.team})), teams)


def _rule(part: str) -> GroupRule:
    group, equals, meaning = part.rpartition("=")
    group, meaning = group.strip(), meaning.strip()
    if not equals or not group or not meaning:
        raise ValueError(f"{part!r} is not group=role or group=team/name:role")
    team, role = "", meaning
    if meaning.startswith("team/"):
        team, _, role = meaning.removeprefix("team/").partition(":")
        if not team:
            raise ValueError(f"{part!r} names no team")
    if role and role not in ROLES:
        raise ValueError(f"{role!r} is no role: roles are {', '.join(ROLES)}")
    return GroupRule(group, role, team)
