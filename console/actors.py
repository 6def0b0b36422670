"""Who acts: handed to every service, never fetched from a global."""

from __future__ import annotations

from dataclasses import dataclass

from console.errors import NotAllowed
from console.models import User
from console.rules.permissions import ACTIONS

SYSTEM_USERNAME = "system"


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

    @property
    def is_system(self) -> bool:
        return self.user.username == SYSTEM_USERNAME


def allowed(actor: Actor, action: str) -> bool:
    """Whether the actor's roles (and the token's scopes) permit the action as such."""
    rule = ACTIONS[action]
    if actor.is_system:
        return True
    if not actor.user.is_active:
        return False
    if actor.scopes is not None and rule.scope not in actor.scopes:
        return False
    return actor.user.is_superuser or not rule.roles or actor.user.has_role(*rule.roles)


def require(actor: Actor, action: str) -> None:
    """Raise NotAllowed, with what is missing, unless the actor may do the action."""
    if allowed(actor, action):
        return
    rule = ACTIONS[action]
    if actor.scopes is not None and rule.scope not in actor.scopes:
        raise NotAllowed(
            f"This token may not {rule.words}: it lacks the scope “{rule.scope}”.",
            code="scope_missing",
            hint="Create a token with that scope under Settings → My tokens.",
        )
    raise NotAllowed(
        f"{actor.user.username} may not {rule.words}.",
        hint="It takes one of these roles: " + ", ".join(sorted(rule.roles)) + ".",
    )
