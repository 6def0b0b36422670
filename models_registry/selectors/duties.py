"""What a person carries in the registry, for the floor to ask before they go or lose a role."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from django.db.models import Case, IntegerField, Q, QuerySet, Value, When

from console.models import TeamMembership, User, UserKind
from console.rules.duties import Duty
from models_registry.models import RegisteredModel, Release, ReleaseState, Seat, SeatHolder
from models_registry.models.catalog import visible_models
from models_registry.selectors.load_tests import ended_runs
from models_registry.selectors.release_policies import (
    facts_of,
    people_who_may,
    policy_of,
    with_standing,
)

SUGGESTED = 12
MOST_OPEN = 200


def duties_of(person: User, *, now: datetime | None, suggest: bool = True) -> list[Duty]:
    """Seats and models owned, by model's name; at `now` also releases nobody else can approve.

    Without `suggest` nobody is looked for who could take over.
    """
    return [
        *_seats(person, suggest=suggest),
        *_models(person, suggest=suggest),
        *(_approvals(person, now) if now is not None else ()),
    ]


def stuck_without(person: User, duties: Iterable[Duty], now: datetime) -> list[Release]:
    """Of the approvals among the duties those that nobody but this person could give now."""
    ids = [duty.key.partition(":")[2] for duty in duties if duty.kind == "approval"]
    waiting = with_standing(Release.objects.filter(pk__in=ids)).prefetch_related(ended_runs())
    return [
        release
        for release in waiting
        if not any(
            user.pk != person.pk
            for user, _ in people_who_may(release, policy_of(release), facts_of(release, now), now)
        )
    ]


def seats_held(person_ids: Iterable[int], *, viewer: User) -> dict[int, list[tuple[str, str]]]:
    """For each person that has any: (model's name, seat), by name (one query).

    Of models that exist for the viewer.
    """
    found: dict[int, list[tuple[str, str]]] = {}
    holders = (
        SeatHolder.objects.filter(user__in=list(person_ids))
        .filter(visible_models(viewer, "model__"))
        .order_by("model__name", "seat")
    )
    for user_id, name, seat in holders.values_list("user_id", "model__name", "seat"):
        found.setdefault(user_id, []).append((name, seat))
    return found


def fit_for(role: str, team_id: int | None) -> QuerySet[User]:
    """Active people with the role, globally or in the team; those of the team first."""
    inside = TeamMembership.objects.filter(team=team_id)
    with_role = inside.filter(roles__contains=[role])
    return (
        User.objects.filter(is_active=True, kind=UserKind.PERSON)
        .filter(Q(roles__contains=[role]) | Q(pk__in=with_role.values("user")))
        .alias(
            near=Case(
                When(pk__in=inside.values("user"), then=Value(0)),
                default=Value(1),
                output_field=IntegerField(),
            )
        )
        .order_by("near", "display_name", "username")
    )


def seat_key(model: RegisteredModel, seat: str) -> str:
    """What names a seat in requests."""
    return f"seat:{model.name}:{seat}"


def owner_key(model: RegisteredModel) -> str:
    """What names the ownership of a model in requests."""
    return f"owner:{model.name}"


def _seats(person: User, *, suggest: bool) -> list[Duty]:
    held = SeatHolder.objects.filter(user=person).select_related("model").order_by("model__name")
    duties = []
    for holder in held:
        model = holder.model
        fit: tuple[str, ...] = ()
        if suggest:
            others = SeatHolder.objects.filter(model=model).values("user")
            people = fit_for(holder.seat, model.team_id).exclude(pk__in=others)
            fit = tuple(people.values_list("username", flat=True)[:SUGGESTED])
        duties.append(
            Duty(
                key=seat_key(model, holder.seat),
                kind="seat",
                subject=f"the seat {Seat(holder.seat).label} of {model.name}",
                url=f"/models/{model.name}/",
                role=holder.seat,
                team_id=model.team_id,
                suggested=fit,
            )
        )
    return duties


def _models(person: User, *, suggest: bool) -> list[Duty]:
    duties = []
    for model in RegisteredModel.objects.filter(owner=person).order_by("name"):
        fit: tuple[str, ...] = ()
        if suggest:
            people = fit_for(Seat.DATA_SCIENTIST, model.team_id).exclude(pk=person.pk)
            fit = tuple(people.values_list("username", flat=True)[:SUGGESTED])
        duties.append(
            Duty(
                key=owner_key(model),
                kind="owner",
                subject=f"the model {model.name}",
                url=f"/models/{model.name}/",
                role="",
                team_id=model.team_id,
                suggested=fit,
            )
        )
    return duties


def _approvals(person: User, now: datetime) -> list[Duty]:
    """Open releases that this person could approve now, and nobody else."""
    waiting = (
        with_standing(Release.objects.filter(state=ReleaseState.PROPOSED))
        .prefetch_related(ended_runs())
        .order_by("requested_at")[:MOST_OPEN]
    )
    duties = []
    for release in waiting:
        able = people_who_may(release, policy_of(release), facts_of(release, now), now)
        if [user.pk for user, _ in able] == [person.pk]:
            duties.append(
                Duty(
                    key=f"approval:{release.pk}",
                    kind="approval",
                    subject=f"the release of {release}",
                    url=f"/releases/{release.pk}/",
                    role="",
                    team_id=release.version.model.team_id,
                )
            )
    return duties
