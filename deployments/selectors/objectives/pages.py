"""An endpoint's objectives as its page and the API show them: budgets, burns, time set aside."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from django.db.models import QuerySet
from django.urls import reverse

from console.errors import NotFound
from console.models import User
from deployments.models import AgreementState, Endpoint, Exclusion, MaintenanceWindow
from deployments.rules.objectives import agreements as rules
from deployments.rules.objectives.burn_rates import Burn
from deployments.rules.objectives.effects import ExclusionEffect
from deployments.rules.objectives.slo import Attainment, Objective, window_start
from deployments.rules.objectives.spans import MINUTE, Span, floor_minute
from deployments.rules.objectives.time_budgets import TimeBudget
from deployments.selectors.objectives.burns import burns_of, traffic_of_spans
from deployments.selectors.objectives.exclusions import excluded_spans
from deployments.selectors.objectives.minutes import time_budget
from deployments.selectors.objectives.promises import attainments
from deployments.selectors.traffic.routing import contracts_that_hold
from models_registry.models import Seat, SeatHolder

Row = TypeVar("Row", MaintenanceWindow, Exclusion)
MOST_SHOWN = 50
PEOPLE = (
    "endpoint__model",
    "endpoint__environment",
    "proposed_by",
    "withdrawn_by",
)


@dataclass(frozen=True, slots=True)
class ObjectiveStanding:
    """One objective over its own window that ends now: budgets, and its burn-rate alerts."""

    objective: Objective
    start: datetime
    attainment: Attainment
    minutes: TimeBudget
    burns: list[Burn]


@dataclass(frozen=True, slots=True)
class SeatWord:
    """A seat of the model beside something to agree to; `person` agreed, or should."""

    seat: str
    person: User | None
    at: datetime | None

    @property
    def label(self) -> str:
        """The seat's name in the reader's language."""
        return str(Seat(self.seat).label)


@dataclass(frozen=True, slots=True)
class SetAside:
    """Time set aside, or proposed to be, as it stands at a moment.

    `state` is of the state family `agreement`; `waits_for_me`: the reader's seat has not agreed.
    `effects` say what an exclusion would do, where that was asked for.
    """

    row: MaintenanceWindow | Exclusion
    kind: str
    state: str
    minutes: int
    seats: list[SeatWord]
    waits_for_me: bool
    may_withdraw: bool
    effects: tuple[ExclusionEffect, ...] = ()

    @property
    def dialog(self) -> str:
        """Id of the dialog that asks before it is withdrawn."""
        return f"withdraw-{self.row.pk}"

    @property
    def end_format(self) -> str:
        """How the end is written: without its day where it is the day of the start."""
        same = self.row.starts_at.date() == self.row.ends_at.date()
        return "H:i" if same else "Y-m-d H:i"

    @property
    def agree_url(self) -> str:
        """Where a seat's word is posted."""
        return reverse(f"deployments:{self.kind}-agree", args=[self.row.pk])

    @property
    def withdraw_url(self) -> str:
        """Where it is taken back."""
        return reverse(f"deployments:{self.kind}-withdraw", args=[self.row.pk])


def standings(endpoint: Endpoint, now: datetime) -> list[ObjectiveStanding]:
    """Each objective of the contract that holds; none without a contract.

    Beside what all objectives take together, two queries for each.
    """
    contracts = contracts_that_hold([endpoint.model_id])
    pairs = attainments(contracts, [endpoint], now).get(endpoint.pk, [])
    if not pairs:
        return []
    spans = traffic_of_spans([endpoint.pk], now)[endpoint.pk]
    found = []
    for objective, attained in pairs:
        start = floor_minute(window_start(objective, now))
        gone = excluded_spans([endpoint.pk], start, floor_minute(now) + MINUTE)
        found.append(
            ObjectiveStanding(
                objective=objective,
                start=start,
                attainment=attained,
                minutes=time_budget(endpoint, objective, now, gone.get(endpoint.pk, [])),
                burns=list(burns_of(objective, spans)),
            )
        )
    return found


def maintenance_list(
    *, user: User, environment: str = "", model: str = "", state: str = ""
) -> QuerySet[MaintenanceWindow]:
    """Maintenance windows that the user may see, latest first (two queries with the words)."""
    return _filtered(MaintenanceWindow.objects.visible_to(user), environment, model, state)


def exclusion_list(
    *, user: User, environment: str = "", model: str = "", state: str = ""
) -> QuerySet[Exclusion]:
    """Exclusions that the user may see, latest first (two queries with the words)."""
    return _filtered(Exclusion.objects.visible_to(user), environment, model, state)


def find_maintenance(window_id: uuid.UUID, *, user: User) -> MaintenanceWindow:
    """One window. Raises NotFound, also for what is not to be seen."""
    found = maintenance_list(user=user).filter(pk=window_id).first()
    if found is None:
        raise NotFound("There is no such maintenance window.")
    return found


def find_exclusion(exclusion_id: uuid.UUID, *, user: User) -> Exclusion:
    """One exclusion. Raises NotFound, also for what is not to be seen."""
    found = exclusion_list(user=user).filter(pk=exclusion_id).first()
    if found is None:
        raise NotFound("There is no such exclusion.")
    return found


def set_aside(
    endpoint: Endpoint, now: datetime, *, user: User
) -> tuple[list[SetAside], list[SetAside]]:
    """The endpoint's maintenance and exclusions, latest first, 50 of each (five queries)."""
    names = {"environment": endpoint.environment.name, "model": endpoint.model.name}
    holders = list(SeatHolder.objects.filter(model=endpoint.model).select_related("user"))
    windows = maintenance_list(user=user, **names)[:MOST_SHOWN]
    exclusions = exclusion_list(user=user, **names)[:MOST_SHOWN]
    return (
        [as_set_aside(one, holders, now, user=user) for one in windows],
        [as_set_aside(one, holders, now, user=user) for one in exclusions],
    )


def as_set_aside(
    row: MaintenanceWindow | Exclusion,
    holders: Sequence[SeatHolder],
    now: datetime,
    *,
    user: User,
) -> SetAside:
    """A row with the words of its seats, for one reader."""
    beforehand = isinstance(row, MaintenanceWindow)
    span = Span(row.starts_at, row.ends_at)
    state = rules.standing(row.state, span, now, beforehand=beforehand)
    given = {word.seat: word for word in row.agreements.all()}
    seated = {holder.seat: holder.user for holder in holders}
    seats = [
        SeatWord(seat, given[seat].person, given[seat].at)
        if seat in given
        else SeatWord(seat, seated.get(seat), None)
        for seat in Seat.values
    ]
    mine = [seat for seat, person in seated.items() if person == user]
    said = any(word.person_id == user.pk for word in given.values())
    concerned = bool(mine) or row.proposed_by_id == user.pk
    return SetAside(
        row=row,
        kind="maintenance" if beforehand else "exclusion",
        state=state,
        minutes=span.minutes,
        seats=seats,
        waits_for_me=(
            state == AgreementState.PROPOSED
            and not said
            and any(seat not in given for seat in mine)
        ),
        may_withdraw=concerned and state not in ("withdrawn", "over"),
    )


def _filtered(rows: QuerySet[Row], environment: str, model: str, state: str) -> QuerySet[Row]:
    if environment:
        rows = rows.filter(endpoint__environment__name=environment)
    if model:
        rows = rows.filter(endpoint__model__name=model)
    if state:
        rows = rows.filter(state=state)
    return (
        rows.select_related(*PEOPLE)
        .prefetch_related("agreements__person")
        .order_by("-starts_at", "-pk")
    )
