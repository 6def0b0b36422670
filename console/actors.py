"""Who acts: handed to every service, never fetched from a global."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from console.errors import NotAllowed
from console.models import Role, Team, User
from console.models.accounts import SYSTEM_USERNAME as SYSTEM_USERNAME
from console.rules.permissions import ACTIONS, ActionRule

ADMINS_NAMED = 3


class Somewhere(Enum):
    """No team in particular."""

    ANY_TEAM = "any team"


ANY_TEAM: Final = Somewhere.ANY_TEAM


@dataclass(frozen=True, slots=True)
class Actor:
    """A person (or the system) and the door they came through.

    `scopes` is None for a session and the set of a token's scopes for an API call: a token can
    do less than its owner, never more.
    """

    user: User
    source: str
    request_id: str = ""
    scopes: frozenset[str] | None = None

    @classmethod
    def system(cls, source: str) -> Actor:
        """The installation itself, for what happens by timer; it cannot sign in."""
        user, _ = User.objects.get_or_create(
            username=SYSTEM_USERNAME,
            defaults={"display_name": "Covenant", "is_active": False, "password": "!"},
        )
        return cls(user=user, source=source)

    def as_of_now(self) -> Actor:
        """The same actor with the person read anew (one query): asked under a lock, by what
        counts roles, since the request began with a look at them that may be old by now."""
        return replace(self, user=User.objects.get(pk=self.user.pk))

    @property
    def is_system(self) -> bool:
        return self.user.username == SYSTEM_USERNAME


def allowed(actor: Actor, action: str, team_id: int | Somewhere | None = ANY_TEAM) -> bool:
    """Whether the actor's roles (and the token's scopes) permit the action as such.

    Services on a model give `team_id=model.team_id`: the global roles count and those held in
    that team; None is a model of no team, where only global roles count. Without it any team's
    roles will do ("could they anywhere?"), which is what doors and menus ask. What concerns the
    whole installation always takes a global role.
    """
    rule = ACTIONS[action]
    if actor.is_system:
        return True
    if not actor.user.is_active:
        return False
    if rule.persons_only and actor.user.is_service:
        return False
    if actor.scopes is not None and rule.scope not in actor.scopes:
        return False
    if actor.user.is_superuser or not rule.roles or actor.user.has_role(*rule.roles):
        return True
    return rule.per_team and not rule.roles.isdisjoint(_roles(actor.user, team_id))


def require(actor: Actor, action: str, team_id: int | Somewhere | None = ANY_TEAM) -> None:
    """Raise NotAllowed, with what is missing and whom to ask, unless `allowed`."""
    if allowed(actor, action, team_id):
        return
    rule = ACTIONS[action]
    if rule.persons_only and actor.user.is_service:
        raise NotAllowed(
            f"{actor.user.username} is a service account, and it takes a person to {rule.words}.",
            code="person_needed",
            hint="Have a person with the role do it, in their own name.",
        )
    if actor.scopes is not None and rule.scope not in actor.scopes:
        raise NotAllowed(
            f"This token may not {rule.words}: it lacks the scope “{rule.scope}”.",
            code="scope_missing",
            hint="Create a token with that scope under Settings → My tokens.",
        )
    raise NotAllowed(
        f"{actor.user.username} may not {rule.words}.",
        hint=f"{_what_it_takes(rule, team_id)} {_whom_to_ask()}",
    )


def _roles(user: User, team_id: int | Somewhere | None) -> frozenset[str]:
    return user.roles_anywhere if isinstance(team_id, Somewhere) else user.roles_in(team_id)


def _what_it_takes(rule: ActionRule, team_id: int | Somewhere | None) -> str:
    sentence = "It takes one of these roles: " + ", ".join(sorted(rule.roles))
    if not rule.per_team or team_id is None:
        return f"{sentence}, for the whole installation."
    if isinstance(team_id, Somewhere):
        return f"{sentence}."
    team = Team.objects.filter(pk=team_id).first()
    return f"{sentence}, for the whole installation or in the team {team}."


def _whom_to_ask() -> str:
    admins = User.objects.filter(roles__contains=[Role.PLATFORM_ADMIN], is_active=True)
    names = list(admins.values_list("username", flat=True)[:ADMINS_NAMED])
    if not names:
        return "Ask whoever runs this installation."
    return f"Ask a platform admin: {', '.join(names)}."
