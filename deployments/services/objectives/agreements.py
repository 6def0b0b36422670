"""What maintenance and exclusions have in common: the word of three seats, told and recorded."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.db.models import Q

from console import live
from console.actors import Actor, allowed
from console.errors import Conflict, NotAllowed
from console.models import Severity
from console.services import audit, notices
from deployments.models import (
    AgreementState,
    Endpoint,
    Exclusion,
    ExclusionAgreement,
    MaintenanceAgreement,
    MaintenanceWindow,
)
from deployments.rules.objectives.spans import MINUTE, Span, floor_minute
from deployments.selectors.traffic.endpoints import find_endpoint
from models_registry.models import Seat, SeatHolder
from models_registry.services.contract_signers import seat_of

SetAside = MaintenanceWindow | Exclusion


def locked_endpoint(environment: str, model: str, actor: Actor) -> Endpoint:
    """The endpoint, its row locked, so that what is set aside at it is decided one by one."""
    return lock(find_endpoint(environment, model, user=actor.user))


def lock(endpoint: Endpoint) -> Endpoint:
    """The same endpoint with its row locked until the transaction ends."""
    rows = Endpoint.objects.select_for_update(of=("self",))
    return rows.select_related("model", "environment").get(pk=endpoint.pk)


def windows_at(endpoint: Endpoint, now: datetime) -> list[Span]:
    """Maintenance that is agreed, or may still be: what began without three words is void."""
    agreed = Q(state=AgreementState.AGREED)
    open_still = Q(state=AgreementState.PROPOSED, starts_at__gt=now)
    rows = MaintenanceWindow.objects.filter(agreed | open_still, endpoint=endpoint)
    return [Span(start, end) for start, end in rows.values_list("starts_at", "ends_at")]


def exclusions_at(endpoint: Endpoint) -> list[Span]:
    """Exclusions that are proposed or agreed."""
    rows = Exclusion.objects.filter(endpoint=endpoint).exclude(state=AgreementState.WITHDRAWN)
    return [Span(start, end) for start, end in rows.values_list("starts_at", "ends_at")]


def begin(one: SetAside, now: datetime, actor: Actor) -> None:
    """Record a proposal, count the proposer's own seat as agreed, and ask the other seats."""
    record(
        one,
        "propose",
        actor,
        after={"from": one.starts_at.isoformat(), "to": one.ends_at.isoformat()},
        reason=one.reason,
    )
    model = one.endpoint.model
    seats = SeatHolder.objects.filter(model=model).select_related("user").order_by("seat")
    for holder in seats:
        if holder.user_id != actor.user.pk:
            notices.notify(
                people=[holder.user],
                kind="agreement.asked",
                key=_asked_key(one, holder.seat),
                subject=str(one.endpoint),
                subject_url=url_of(one),
                severity=Severity.WARNING,
                data=_facts(one, actor),
            )
    mine = {holder.seat for holder in seats if holder.user_id == actor.user.pk}
    roles = actor.user.roles_in(model.team_id)
    if mine & roles and allowed(actor, "maintenance.agree", model.team_id):
        give_word(one, now, actor)
    publish(one)


def give_word(one: SetAside, now: datetime, actor: Actor) -> None:
    """The actor's seat agrees; with the third seat the time is set aside. Twice is once.

    Raises NotAllowed (`no_seat`, `role_missing`, `person_deactivated`), Conflict (`seat_agreed`,
    `agreement_withdrawn`).
    """
    seat = seat_of(one.endpoint.model, actor)
    given = list(one.agreements.select_related("person"))
    if any(word.person_id == actor.user.pk for word in given):
        return
    if one.state == AgreementState.WITHDRAWN:
        raise _withdrawn()
    if any(word.seat == seat for word in given):
        raise Conflict(
            f"The seat {Seat(seat).label} has agreed already, by somebody else.",
            code="seat_agreed",
            hint="Each seat agrees once.",
        )
    _add_word(one, seat, now, actor)
    record(one, "agree", actor, after={"seat": seat})
    notices.end(key=_asked_key(one, seat))
    if len(given) + 1 == len(Seat):
        one.state, one.agreed_at = AgreementState.AGREED, now
        one.save(update_fields=["state", "agreed_at"])
    publish(one)


def take_back(one: SetAside, reason: str, now: datetime, actor: Actor) -> None:
    """Withdraw what was proposed or agreed: the proposer may, and whoever sits in a seat.

    What was agreed and is taken back is told to the seats. Raises NotAllowed, Conflict
    `agreement_withdrawn`.
    """
    model = one.endpoint.model
    seats = list(SeatHolder.objects.filter(model=model).select_related("user"))
    if actor.user.pk not in {one.proposed_by_id, *(holder.user_id for holder in seats)}:
        raise NotAllowed(
            f"{actor.user.username} has neither proposed it nor sits in a seat of {model.name}.",
            code="no_seat",
            hint="Ask who proposed it, or one of the seats.",
        )
    if one.state == AgreementState.WITHDRAWN:
        raise _withdrawn()
    was_agreed = one.state == AgreementState.AGREED
    one.withdrawn_by, one.withdrawn_at, one.withdrawn_because = actor.user, now, reason
    fields = ["withdrawn_by", "withdrawn_at", "withdrawn_because"]
    if _runs(one, now):
        # What was done under it so far stays left out; the rest counts again.
        one.ends_at = min(one.ends_at, floor_minute(now) + MINUTE)
        fields.append("ends_at")
    else:
        one.state = AgreementState.WITHDRAWN
        fields.append("state")
    one.save(update_fields=fields)
    record(one, "withdraw", actor, after={"to": one.ends_at.isoformat()}, reason=reason)
    for seat in Seat.values:
        notices.end(key=_asked_key(one, seat))
    if was_agreed:
        notices.notify(
            people=[holder.user for holder in seats if holder.user_id != actor.user.pk],
            kind="agreement.withdrawn",
            key=f"{kind_of(one)}.withdrawn:{one.pk}",
            subject=str(one.endpoint),
            subject_url=url_of(one),
            severity=Severity.WARNING,
            data={**_facts(one, actor), "reason": reason},
        )
    publish(one)


def record(
    one: SetAside, act: str, actor: Actor, *, after: dict[str, Any], reason: str = ""
) -> None:
    """The audit entry of an act, in the caller's transaction."""
    audit.record(
        actor=actor,
        action=f"{kind_of(one)}.{act}",
        subject=str(one.endpoint),
        subject_url=url_of(one),
        after={"id": str(one.pk), **after},
        reason=reason,
    )


def publish(one: SetAside) -> None:
    """Pages that show the endpoint look again."""
    live.publish(
        f"endpoint:{one.endpoint}", "agreement.changed", {"id": str(one.pk), "state": one.state}
    )


def kind_of(one: SetAside) -> str:
    """`maintenance` or `exclusion`, as audit entries and notices name it."""
    return "maintenance" if isinstance(one, MaintenanceWindow) else "exclusion"


def url_of(one: SetAside) -> str:
    """Where people agree to it."""
    endpoint = one.endpoint
    return f"/endpoints/{endpoint.environment.name}/{endpoint.model.name}/objectives/"


def _add_word(one: SetAside, seat: str, now: datetime, actor: Actor) -> None:
    if isinstance(one, MaintenanceWindow):
        MaintenanceAgreement.objects.create(window=one, seat=seat, person=actor.user, at=now)
    else:
        ExclusionAgreement.objects.create(exclusion=one, seat=seat, person=actor.user, at=now)


def _runs(one: SetAside, now: datetime) -> bool:
    return (
        isinstance(one, MaintenanceWindow)
        and one.state == AgreementState.AGREED
        and one.starts_at <= now
    )


def _facts(one: SetAside, actor: Actor) -> dict[str, str]:
    return {
        "what": kind_of(one),
        "by": actor.user.username,
        "from": f"{one.starts_at:%Y-%m-%d %H:%M}",
        "to": f"{one.ends_at:%Y-%m-%d %H:%M}",
        "reason": one.reason,
    }


def _asked_key(one: SetAside, seat: str) -> str:
    return f"{kind_of(one)}.asked:{one.pk}:{seat}"


def _withdrawn() -> Conflict:
    return Conflict(
        "It has been withdrawn.", code="agreement_withdrawn", hint="Propose it anew if need be."
    )
