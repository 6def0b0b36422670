"""Who is on call: schedules as they are decided, and who takes over for a while."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import ProtectedError
from django.utils import timezone

from console.actors import Actor, require
from console.errors import Conflict, FieldError, Invalid, NotFound, Stale
from console.models import Team
from console.services import audit
from deployments.models import OnCallLayer, OnCallOverride, OnCallSchedule, OnCallTurn
from deployments.rules.alerts.route_terms import LayerTerms, ScheduleTerms, check_schedule
from deployments.services.alerts.named import one_of, people_of

LONGEST_OVERRIDE = timedelta(days=92)
FURTHEST_OVERRIDE = timedelta(days=400)
"""How far ahead the calendar looks."""
MOST_OVERRIDES = 200


def set_schedule(
    *,
    name: str,
    terms: ScheduleTerms,
    actor: Actor,
    revision: int | None = None,
    reason: str = "",
) -> OnCallSchedule:
    """Make the schedule of this name, or decide it anew; who took over stays.

    Raises Invalid (`invalid_on_call`, `unknown_name`), Conflict (`covered_already`), Stale.
    """
    require(actor, "on_call.manage")
    check_schedule(terms)
    team = one_of(Team, "slug", terms.team, "/team")
    people = [people_of(one.people, f"/layers/{n}/people") for n, one in enumerate(terms.layers)]
    try:
        with transaction.atomic():
            schedule = OnCallSchedule.objects.select_for_update(of=("self",)).filter(name=name)
            found = schedule.first()
            if revision is not None and revision != (found.revision if found else 0):
                raise Stale(
                    f"Somebody has changed the schedule {name} meanwhile.",
                    hint="Look at it again, and change what is still to be changed.",
                )
            before = facts(found) if found else None
            row = found or OnCallSchedule(name=name, revision=0)
            row.title, row.time_zone = terms.title.strip(), terms.time_zone
            row.covers, row.team, row.changed_by = terms.covers, team, actor.user
            row.revision += 1
            row.save()
            row.layers.all().delete()
            for number, (layer, turns) in enumerate(zip(terms.layers, people, strict=True)):
                made = _layer(row, number, layer)
                OnCallTurn.objects.bulk_create(
                    OnCallTurn(layer=made, position=at, person=one) for at, one in enumerate(turns)
                )
            action = "on_call.change" if before else "on_call.create"
            _record(row, action, actor, before=before, after=facts(row), reason=reason)
    except IntegrityError as error:
        raise Conflict(
            "Another schedule covers that already.",
            code="covered_already",
            hint="Change that one, or let this one hold only where it is named.",
            errors=(FieldError("/covers", "Covered by another schedule."),),
        ) from error
    return row


def remove_schedule(*, name: str, actor: Actor, reason: str = "") -> None:
    """Take a schedule away; the SRE seat is called in its place.

    Raises Conflict (`schedule_in_use`) while a route or an escalation names it.
    """
    require(actor, "on_call.manage")
    with transaction.atomic():
        schedule = _locked(name)
        _record(schedule, "on_call.remove", actor, before=facts(schedule), reason=reason)
        try:
            schedule.delete()
        except ProtectedError as error:
            raise Conflict(
                f"A route or an escalation names {name}.",
                code="schedule_in_use",
                hint="Take it out there first.",
            ) from error


def take_over(
    *,
    schedule: str,
    ends_at: datetime,
    actor: Actor,
    person: str = "",
    starts_at: datetime | None = None,
    reason: str = "",
) -> OnCallOverride:
    """Be on call oneself, or put `person` on call, from `starts_at` (now) until `ends_at`.

    Where several do, the newest holds. Raises Invalid (`invalid_on_call`, `unknown_name`).
    """
    require(actor, "on_call.manage")
    now = timezone.now()
    begins = max(starts_at or now, now)
    if not timedelta(0) < ends_at - begins <= LONGEST_OVERRIDE:
        detail = f"It ends after it begins, and within {LONGEST_OVERRIDE.days} days."
        raise Invalid(detail, code="invalid_on_call", errors=(FieldError("/ends_at", detail),))
    if begins - now > FURTHEST_OVERRIDE:
        detail = f"It begins within {FURTHEST_OVERRIDE.days} days."
        raise Invalid(detail, code="invalid_on_call", errors=(FieldError("/starts_at", detail),))
    who = people_of([person or actor.user.username], "/person")[0]
    with transaction.atomic():
        row = _locked(schedule)
        if row.overrides.filter(ends_at__gt=now).count() >= MOST_OVERRIDES:
            raise Invalid(
                f"{MOST_OVERRIDES} people take over in turn already.",
                code="too_many_overrides",
                hint="Change the schedule itself.",
            )
        override = OnCallOverride.objects.create(
            schedule=row,
            person=who,
            starts_at=begins,
            ends_at=ends_at,
            reason=reason.strip()[:200],
            created_by=actor.user,
        )
        _record(row, "on_call.take_over", actor, after=_override(override), reason=reason)
    return override


def end_override(*, override_id: int, actor: Actor, reason: str = "") -> None:
    """The schedule holds again: a takeover that has begun ends now, another is taken away.

    Raises NotFound, also for one that is over.
    """
    require(actor, "on_call.manage")
    now = timezone.now()
    with transaction.atomic():
        row = (
            OnCallOverride.objects.select_for_update(of=("self",))
            .select_related("schedule", "person")
            .filter(pk=override_id, ends_at__gt=now)
            .first()
        )
        if row is None:
            raise NotFound("There is no such takeover any more.", hint="Look at the calendar.")
        _record(row.schedule, "on_call.give_back", actor, before=_override(row), reason=reason)
        if row.starts_at < now:
            row.ends_at = now
            row.save(update_fields=["ends_at"])
        else:
            row.delete()


def find_schedule(name: str) -> OnCallSchedule:
    """The schedule of this name; raises NotFound."""
    found = OnCallSchedule.objects.select_related("team").filter(name=name).first()
    if found is None:
        raise missing(name)
    return found


def missing(name: str) -> NotFound:
    """The refusal of a schedule that is not there."""
    return NotFound(f"There is no schedule called {name}.", hint="See Settings → On call.")


def facts(schedule: OnCallSchedule) -> dict[str, Any]:
    """A schedule by names, as the audit trail and the API tell of it."""
    layers = schedule.layers.prefetch_related("turns__person")
    return {
        "title": schedule.title,
        "time_zone": schedule.time_zone,
        "covers": schedule.covers,
        "team": schedule.team.slug if schedule.team else "",
        "layers": [
            {
                "people": [turn.person.username for turn in layer.turns.all()],
                "starts_on": layer.starts_on.isoformat(),
                "handover": f"{layer.handover:%H:%M}",
                "days_each": layer.days_each,
                "from_time": f"{layer.from_time:%H:%M}" if layer.from_time else None,
                "until_time": f"{layer.until_time:%H:%M}" if layer.until_time else None,
                "weekdays": list(layer.weekdays),
            }
            for layer in layers
        ],
    }


def _layer(schedule: OnCallSchedule, number: int, terms: LayerTerms) -> OnCallLayer:
    return OnCallLayer.objects.create(
        schedule=schedule,
        position=number,
        starts_on=terms.starts_on,
        handover=terms.handover,
        days_each=terms.days_each,
        from_time=terms.from_time,
        until_time=terms.until_time,
        weekdays=sorted(set(terms.weekdays)),
    )


def _override(row: OnCallOverride) -> dict[str, Any]:
    return {
        "person": row.person.username,
        "starts_at": row.starts_at.isoformat(timespec="seconds"),
        "ends_at": row.ends_at.isoformat(timespec="seconds"),
    }


def _locked(name: str) -> OnCallSchedule:
    row = OnCallSchedule.objects.select_for_update(of=("self",)).filter(name=name).first()
    if row is None:
        raise missing(name)
    return row


def _record(
    schedule: OnCallSchedule,
    action: str,
    actor: Actor,
    *,
    before: object = None,
    after: object = None,
    reason: str = "",
) -> None:
    audit.record(
        actor=actor,
        action=action,
        subject=f"on-call schedule {schedule.name}",
        subject_url=f"/settings/on-call/{schedule.name}/",
        before=before,
        after=after,
        reason=reason,
    )
