"""Which models do not exist for a person, and who sees one."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.db.models import Q, QuerySet

from console.actors import ANY_TEAM, Somewhere
from console.models import Role, Team, TeamMembership, User
from console.models.accounts import SYSTEM_USERNAME
from models_registry.models import RegisteredModel, Release, SeatHolder, Visibility
from models_registry.models.catalog import visible_models


def hidden_names(user: User) -> QuerySet[RegisteredModel, str]:
    """The names of the models that this person may not see (no query of its own)."""
    narrow = RegisteredModel.objects.filter(visibility=Visibility.TEAM)
    return narrow.exclude(visible_models(user)).order_by().values_list("name", flat=True)


def models_of_releases(topics: dict[uuid.UUID, str]) -> dict[str, str]:
    """Topic → name of the model, of the releases by their id (one query, none for none)."""
    if not topics:
        return {}
    rows = Release.objects.filter(pk__in=topics).values_list("pk", "version__model__name")
    return {topics[pk]: name for pk, name in rows}


NAMED = 20


@dataclass(frozen=True, slots=True)
class Sight:
    """Who sees a model once only its people do, by the reason, and who would no longer.

    `in_seats`, `in_team` and `losing` name the first 20, the counts are of all. `by_role` are the
    platform admins and global SREs, who see every model.
    """

    owner: User
    in_seats: tuple[User, ...]
    team: Team | None
    in_team: tuple[User, ...]
    team_count: int
    by_role: int
    losing: tuple[User, ...]
    losing_count: int


def viewers(model: RegisteredModel) -> QuerySet[User]:
    """The active people who may see the model as it stands (no query of its own)."""
    people = User.objects.filter(is_active=True).exclude(username=SYSTEM_USERNAME)
    if model.visibility == Visibility.EVERYBODY:
        return people
    return people.filter(_insiders(model) | _by_role())


def narrowed(model: RegisteredModel) -> Sight:
    """The model's sight with the visibility `team`, whether it has it now or not (7 queries)."""
    people = User.objects.filter(is_active=True).exclude(username=SYSTEM_USERNAME)
    losing = people.exclude(_insiders(model) | _by_role()).order_by("username")
    team = people.filter(memberships__team=model.team_id) if model.team_id else people.none()
    seats = people.filter(pk__in=SeatHolder.objects.filter(model=model).values("user"))
    return Sight(
        owner=model.owner,
        in_seats=tuple(seats.order_by("username")),
        team=model.team,
        in_team=tuple(team.order_by("username")[:NAMED]),
        team_count=team.count(),
        by_role=people.filter(_by_role()).count(),
        losing=tuple(losing[:NAMED]),
        losing_count=losing.count(),
    )


def losing_sight(before: QuerySet[User], model: RegisteredModel) -> tuple[list[str], int]:
    """Of `before` (`viewers` as they were) those who no longer see it: the first 20, how many."""
    losing = before.exclude(pk__in=viewers(model).values("pk")).order_by("username")
    return list(losing.values_list("username", flat=True)[:NAMED]), losing.count()


def _insiders(model: RegisteredModel) -> Q:
    members = Q(pk__in=TeamMembership.objects.filter(team=model.team_id).values("user"))
    seats = Q(pk__in=SeatHolder.objects.filter(model=model).values("user"))
    return Q(pk=model.owner_id) | seats | (members if model.team_id else Q(pk__in=[]))


def _by_role() -> Q:
    # The same as `User.sees_all_models`, as a condition.
    roles = [Role.PLATFORM_ADMIN, Role.SRE]
    return Q(is_superuser=True) | Q(roles__overlap=roles)


def team_of_address(user: User, route: str, values: Mapping[str, Any]) -> int | Somewhere | None:
    """The team of the model that an address is about (one query).

    ANY_TEAM where it is about none, or about one that the user may not see.
    """
    models = RegisteredModel.objects.visible_to(user)
    if "release_id" in values:
        models = models.filter(versions__releases=values["release_id"])
    elif "load_test_id" in values:
        models = models.filter(versions__load_tests=values["load_test_id"])
    elif "model" in values:
        models = models.filter(name=values["model"])
    elif "name" in values and ("models/" in route or "panels/" in route):
        models = models.filter(name=values["name"])
    else:
        return ANY_TEAM
    found = list(models.values_list("team_id", flat=True)[:1])
    return found[0] if found else ANY_TEAM
