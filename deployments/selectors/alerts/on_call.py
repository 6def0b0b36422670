"""Who is on call, by schedule, by seat, or because somebody has to know."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Prefetch, Q, QuerySet

from console.models import Role, User, UserKind
from deployments.models import Covers, OnCallLayer, OnCallOverride, OnCallSchedule, OnCallTurn
from deployments.rules.alerts.on_call import Layer, Override, Schedule, on_call_at
from models_registry.models import RegisteredModel, Seat, SeatHolder

MOST_CALLED = 50


@dataclass(frozen=True, slots=True)
class Called:
    """Whom to call, and why them: "schedule", "seat", "operators", "admins" or "nobody".

    `schedule` is the one that was asked, also when it had nobody.
    """

    people: list[User]
    why: str
    schedule: OnCallSchedule | None = None


def operators_of(model: RegisteredModel | None) -> list[User]:
    """Who is told when the model fails: its SRE seat, and every SRE who may see and operate it.

    That is the SREs of the whole installation and those of the model's team. Where there is none,
    the platform admins: somebody has to know. Of no model: the SREs of the installation. One
    query, or two.
    """
    operators = Q(roles__contains=[Role.SRE])
    if model is not None:
        operators |= Q(pk__in=_seat(model))
        if model.team_id is not None:
            operators |= Q(memberships__team=model.team_id, memberships__roles__contains=[Role.SRE])
    found = list(_people().filter(operators).distinct().order_by("username")[:MOST_CALLED])
    return found or admins()


def admins() -> list[User]:
    """The platform admins (one query)."""
    return list(_people().filter(roles__contains=[Role.PLATFORM_ADMIN])[:MOST_CALLED])


def who_is_called(
    model: RegisteredModel | None, at: datetime, *, schedule: OnCallSchedule | None = None
) -> Called:
    """Whom to call about the model: the schedule's person first, then the seat, then operators.

    `schedule` is what a route names; without it the one that covers the model. At most eight
    queries.
    """
    asked = schedule or covering(model)
    if asked is not None and (person := person_on_call(asked, at)) is not None:
        return Called([person], "schedule", asked)
    if model is not None and (seat := list(_people().filter(pk__in=_seat(model)))):
        return Called(seat, "seat", asked)
    operators = operators_of(model)
    why = "operators" if any(Role.SRE in one.roles for one in operators) else "admins"
    return Called(operators, why if operators else "nobody", asked)


def covering(model: RegisteredModel | None) -> OnCallSchedule | None:
    """The schedule of the model's team, else the one for everything (one query)."""
    wanted = Q(covers=Covers.EVERYTHING)
    if model is not None and model.team_id is not None:
        wanted |= Q(covers=Covers.TEAM, team=model.team_id)
    found = {one.covers: one for one in OnCallSchedule.objects.filter(wanted)}
    return found.get(Covers.TEAM) or found.get(Covers.EVERYTHING)


def person_on_call(schedule: OnCallSchedule, at: datetime) -> User | None:
    """Who is on call by the schedule now; None too when that account is closed (four queries)."""
    found = on_call_at(rotation(schedule, since=at), at)
    if found.person is None:
        return None
    return _people().filter(pk=found.person).first()


def rotation(schedule: OnCallSchedule, *, since: datetime) -> Schedule:
    """The schedule as the rules take it, with overrides that end after `since` (three queries)."""
    return rotations([schedule.pk], since=since)[schedule.pk]


def rotations(ids: Sequence[int], *, since: datetime) -> dict[int, Schedule]:
    """Several schedules as the rules take them (four queries)."""
    found = OnCallSchedule.objects.filter(pk__in=ids).prefetch_related(
        Prefetch("layers", OnCallLayer.objects.order_by("position")),
        Prefetch("layers__turns", OnCallTurn.objects.order_by("position")),
        Prefetch("overrides", OnCallOverride.objects.filter(ends_at__gt=since).order_by("-pk")),
    )
    return {one.pk: _rotation(one) for one in found}


def _rotation(schedule: OnCallSchedule) -> Schedule:
    return Schedule(
        zone=schedule.time_zone,
        layers=tuple(_layer(one) for one in schedule.layers.all()),
        overrides=tuple(_overrides(schedule.overrides.all())),
    )


def _layer(row: OnCallLayer) -> Layer:
    hours = (row.from_time, row.until_time)
    return Layer(
        people=tuple(turn.person_id for turn in row.turns.all()),
        starts_on=row.starts_on,
        handover=row.handover,
        days_each=row.days_each,
        hours=(hours[0], hours[1]) if hours[0] is not None and hours[1] is not None else None,
        weekdays=frozenset(row.weekdays),
    )


def _overrides(rows: Iterable[OnCallOverride]) -> Iterable[Override]:
    return (Override(one.person_id, one.starts_at, one.ends_at) for one in rows)


def _people() -> QuerySet[User]:
    return User.objects.filter(is_active=True, kind=UserKind.PERSON)


def _seat(model: RegisteredModel) -> QuerySet[SeatHolder, int]:
    return SeatHolder.objects.filter(model=model, seat=Seat.SRE).values_list("user_id", flat=True)
