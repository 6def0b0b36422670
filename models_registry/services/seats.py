"""Who may sit in a model's seats: a person with the role, for everything or in the model's team."""

from __future__ import annotations

from django.utils import timezone

from console.errors import Conflict, FieldError, Invalid
from console.models import User
from models_registry.models import RegisteredModel, Seat, SeatHolder


def take_seat(model: RegisteredModel, seat: str, user: User) -> SeatHolder:
    """Put a person into a seat of the locked model.

    The person's row is locked, so that a role taken away meanwhile is seen. Raises Invalid
    (`unknown_seat`, `role_missing`, `person_needed`), Conflict (`one_seat_per_person`).
    """
    if seat not in Seat.values:
        raise Invalid(
            f"There is no seat {seat}.",
            code="unknown_seat",
            hint="Seats are " + ", ".join(Seat.values) + ".",
            errors=(FieldError(f"/seats/{seat}", "is no seat"),),
        )
    user = User.objects.select_for_update(no_key=True).get(pk=user.pk)
    code, fault = seat_fault(model, seat, user)
    if code == "one_seat_per_person":
        raise Conflict(
            f"{user.username} already sits in another seat of {model.name}.",
            code=code,
            hint="Three different people carry a promise. Choose somebody else.",
            errors=(FieldError(f"/seats/{seat}", fault),),
        )
    if code:
        raise Invalid(
            f"{user.username} cannot sit in the seat {Seat(seat).label}: {_why(code, model)}",
            code=code,
            hint="Choose a person with the role, or have a platform admin give it.",
            errors=(FieldError(f"/seats/{seat}", fault),),
        )
    holder, _ = SeatHolder.objects.update_or_create(
        model=model, seat=seat, defaults={"user": user, "since": timezone.now()}
    )
    return holder


def seat_fault(model: RegisteredModel, seat: str, user: User) -> tuple[str, str]:
    """A code and a phrase on why this person cannot sit there; ("", "") when they can."""
    if user.is_service:
        return "person_needed", "is a service account"
    if not user.is_active or seat not in user.roles_in(model.team_id):
        return "role_missing", "does not have the role"
    if SeatHolder.objects.filter(model=model, user=user).exclude(seat=seat).exists():
        return "one_seat_per_person", "sits in another seat"
    return "", ""


def check_owner(owner: User) -> None:
    """Raise Invalid unless somebody can answer for the model: an active person."""
    if owner.is_service or not owner.is_active:
        raise Invalid(
            f"{owner.username} cannot own a model: it takes a person who is here.",
            code="person_needed",
            hint="Name the person who answers for the model as its owner.",
            errors=(FieldError("/owner", "is a service account or has left"),),
        )


def check_holders(model: RegisteredModel) -> None:
    """Raise Conflict when the model's team (just changed) leaves a seat with nobody fit for it."""
    held = SeatHolder.objects.filter(model=model).select_related("user").order_by("seat")
    unfit = [one for one in held if one.seat not in one.user.roles_in(model.team_id)]
    if unfit:
        names = ", ".join(f"{Seat(one.seat).label} ({one.user.username})" for one in unfit)
        raise Conflict(
            f"With that team these seats of {model.name} would have nobody fit for them: {names}.",
            code="seats_depend",
            hint="Their roles hold in the present team alone. Give the seats to others first.",
            errors=(FieldError("/team", "takes a role away from a seat"),),
        )


def _why(code: str, model: RegisteredModel) -> str:
    if code == "person_needed":
        return "it is a service account, and a seat is a person's."
    where = f", for everything or in the team {model.team}" if model.team else ""
    return f"it takes that role{where}."
