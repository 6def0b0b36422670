"""The floor's way to what people carry above it: by name, so that nothing is imported upwards."""

from __future__ import annotations

from collections.abc import Mapping

from django.utils.module_loading import import_string

from console.actors import Actor
from console.errors import Conflict, FieldError
from console.models import User
from console.rules import duties as rules
from console.rules.duties import Duty


def lock_duties(person: User) -> None:
    """Lock what the person carries, before the person's own row."""
    import_string(rules.LOCK_DUTIES)(person)


def hand_over(
    *, person: User, successors: Mapping[str, User], reason: str, actor: Actor
) -> list[Duty]:
    """Move all that the person carries; gives what was moved. Raises Invalid."""
    moved: list[Duty] = import_string(rules.HAND_OVER)(
        person=person, successors=successors, reason=reason, actor=actor
    )
    return moved


def duties_of(person: User) -> list[Duty]:
    """The seats and models that the person carries, without suggestions of who could take over."""
    duties: list[Duty] = import_string(rules.DUTIES_OF)(person, now=None, suggest=False)
    return duties


def keep_seats(
    person: User, *, roles: frozenset[str], team_roles: Mapping[int, frozenset[str]]
) -> None:
    """Raise Conflict (`seats_depend`) when with these roles the person could not hold a seat.

    `roles` are the global ones and `team_roles` those in each team, as they would be. Belongs
    behind the lock on the person's row: who assigns a seat takes it too.
    """

    def roles_in(team_id: int | None) -> frozenset[str]:
        return roles if team_id is None else roles | team_roles.get(team_id, frozenset())

    duties = duties_of(person)
    lacking = rules.seats_lost(duties, person.roles_in)
    lost = [duty for duty in rules.seats_lost(duties, roles_in) if duty not in lacking]
    if lost:
        raise Conflict(
            f"{person.username} needs the role for {', '.join(duty.subject for duty in lost)}.",
            code="seats_depend",
            hint="Give these seats to somebody else first, on the pages of the models.",
            errors=tuple(FieldError("/roles", f"{duty.role}: {duty.subject}") for duty in lost),
        )
