"""Seats and models handed over by somebody who goes: all of it, in the caller's transaction."""

from __future__ import annotations

from collections.abc import Mapping

from django.db.models import Q
from django.utils import timezone

from console import live
from console.actors import Actor
from console.errors import FieldError, Invalid
from console.models import Severity, User
from console.rules.duties import Duty
from console.services import audit
from console.services.notices import notify
from models_registry.models import RegisteredModel, Release, Seat, SeatHolder
from models_registry.selectors.duties import duties_of, owner_key, seat_key, stuck_without
from models_registry.services.catalog import subject_of, url_of
from models_registry.services.release_records import no_approver
from models_registry.services.release_records import subject_of as subject_of_release
from models_registry.services.release_records import url_of as url_of_release
from models_registry.services.seats import seat_fault


def lock_duties(person: User) -> None:
    """Lock the models that the person carries, by key: before the person's own row is locked.

    In the order of everybody who assigns a seat: the model, then the person.
    """
    carried = Q(owner=person) | Q(pk__in=SeatHolder.objects.filter(user=person).values("model"))
    list(RegisteredModel.objects.select_for_update().filter(carried).order_by("pk"))


def hand_over(
    *, person: User, successors: Mapping[str, User], reason: str, actor: Actor
) -> list[Duty]:
    """Move each seat and model of the person to its successor; gives what was moved.

    Whether the actor may is the caller's business; the models are locked (`lock_duties`). Raises
    Invalid (`successors_unfit`) that names each successor who cannot take over, or is missing.
    Who asked for a release that nobody else can approve is told.
    """
    now = timezone.now()
    duties = duties_of(person, now=now, suggest=False)
    held = SeatHolder.objects.filter(user=person).select_related("model").order_by("model__name")
    seats = {seat_key(holder.model, holder.seat): holder for holder in held}
    owned = {
        owner_key(model): model
        for model in RegisteredModel.objects.filter(owner=person).order_by("name")
    }
    _check_fit(person, seats, owned, successors)
    for key, holder in seats.items():
        holder.user, holder.since = successors[key], now
        holder.save(update_fields=["user", "since"])
    for key, model in owned.items():
        model.owner = successors[key]
        model.save(update_fields=["owner"])
    for key, holder in seats.items():
        _record(
            holder.model,
            "model.assign_seat",
            before={"seat": holder.seat, "user": person.username},
            after={"seat": holder.seat, "user": successors[key].username},
            reason=reason,
            actor=actor,
        )
    for key, model in owned.items():
        _record(
            model,
            "model.change",
            before={"owner": person.username},
            after={"owner": successors[key].username},
            reason=reason,
            actor=actor,
        )
    for username in sorted({person.username, *(user.username for user in successors.values())}):
        live.publish(f"inbox:{username}", "inbox.changed")
    # Who took over a seat may be able to approve by it.
    for release in stuck_without(person, duties, now):
        _tell_who_waits(release, person)
    return [duty for duty in duties if duty.needs_successor]


def _check_fit(
    person: User,
    seats: Mapping[str, SeatHolder],
    owned: Mapping[str, RegisteredModel],
    successors: Mapping[str, User],
) -> None:
    faults = []
    for key in (*seats, *owned):
        successor = successors.get(key)
        holder = seats.get(key)
        if successor is None:
            why = "needs a successor"
        elif successor.pk == person.pk:
            why = "is handed over to the person who goes"
        elif successor.is_service or not successor.is_active:
            why = f"{successor.username} is a service account or has left"
        elif holder is not None:
            phrase = seat_fault(holder.model, holder.seat, successor)[1]
            why = f"{successor.username} {phrase}: {Seat(holder.seat).label}" if phrase else ""
        else:
            why = ""
        if why:
            faults.append(FieldError(f"/successors/{key}", why))
    if faults:
        raise Invalid(
            f"Not all that {person.username} carries can be handed over like this.",
            code="successors_unfit",
            hint="Name for each seat a person who has its role, globally or in the model's team, "
            "and no other seat of that model.",
            errors=tuple(faults),
        )


def _tell_who_waits(release: Release, person: User) -> None:
    notify(
        people=[release.requested_by],
        kind="release.no_approver",
        key=no_approver(release),
        subject=subject_of_release(release),
        subject_url=url_of_release(release),
        severity=Severity.WARNING,
        data={"release": str(release), "person": person.username},
    )


def _record(
    model: RegisteredModel,
    action: str,
    *,
    before: dict[str, str],
    after: dict[str, str],
    reason: str,
    actor: Actor,
) -> None:
    audit.record(
        actor=actor,
        action=action,
        subject=subject_of(model),
        subject_url=url_of(model),
        before=before,
        after=after,
        reason=reason,
    )
    live.publish(f"model:{model.name}", "model.changed")
