"""Settings → On call: who is called now and in the days to come, and taking over."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from console.actors import allowed, require
from console.api.authentication import actor_of
from console.errors import Conflict, CovenantError, Invalid, Stale
from deployments.models import OnCallSchedule
from deployments.on_call_forms import ScheduleForm, TakeOverForm
from deployments.selectors.alerts.calendar import calendar, on_call_now, overrides_of
from deployments.services.alerts.schedules import (
    end_override,
    find_schedule,
    remove_schedule,
    set_schedule,
    take_over,
)

ACTION = "on_call.manage"
METHODS = ["GET", "HEAD", "POST"]
WEEKS = 4


@require_safe
def index(request: HttpRequest) -> HttpResponse:
    """Each schedule with who is on call, who is next, and where nobody would be reached."""
    context = {
        "shown": on_call_now(timezone.now()),
        "may_manage": allowed(actor_of(request), ACTION),
    }
    return render(request, "deployments/on_call/list.html", context)


@require_safe
def detail(request: HttpRequest, schedule: str) -> HttpResponse:
    """The calendar of one schedule, four weeks of it, and who takes over."""
    return _page(request, find_schedule(schedule), None)


@require_http_methods(METHODS)
def create(request: HttpRequest) -> HttpResponse:
    """A new schedule."""
    require(actor_of(request), ACTION)
    return _set(request, None)


@require_http_methods(METHODS)
def change(request: HttpRequest, schedule: str) -> HttpResponse:
    """Decide a schedule anew."""
    require(actor_of(request), ACTION)
    return _set(request, find_schedule(schedule))


@require_POST
def remove(request: HttpRequest, schedule: str) -> HttpResponse:
    """Take a schedule away."""
    try:
        remove_schedule(
            name=schedule, reason=request.POST.get("reason", ""), actor=actor_of(request)
        )
    except Conflict as error:
        _tell(request, error)
        return redirect("deployments:on-call-schedule", schedule)
    messages.success(request, _("The schedule %(name)s is gone.") % {"name": schedule})
    return redirect("deployments:on-call")


@require_POST
def take(request: HttpRequest, schedule: str) -> HttpResponse:
    """Be on call oneself, or put somebody on call."""
    actor = actor_of(request)
    row = find_schedule(schedule)
    form = TakeOverForm(request.POST, zone=row.time_zone)
    if not form.is_valid():
        require(actor, ACTION)
        return _page(request, row, form, status=422)
    try:
        made = take_over(schedule=row.name, actor=actor, **form.given())
    except Invalid as error:
        form.add_refusal(error)
        return _page(request, row, form, status=422)
    messages.success(
        request,
        _("%(person)s is on call then, whatever the schedule says.") % {"person": made.person},
    )
    return redirect("deployments:on-call-schedule", row.name)


@require_POST
def give_back(request: HttpRequest, schedule: str, override_id: int) -> HttpResponse:
    """The schedule holds again."""
    try:
        end_override(
            override_id=override_id,
            reason=request.POST.get("reason", ""),
            actor=actor_of(request),
        )
    except CovenantError as error:
        if error.code != "not_found":
            raise
        _tell(request, error)
    else:
        messages.success(request, _("The schedule holds again."))
    return redirect("deployments:on-call-schedule", schedule)


def _set(request: HttpRequest, changed: OnCallSchedule | None) -> HttpResponse:
    status = 200
    if request.method == "POST":
        form, status = ScheduleForm(request.POST, changed=changed), 422
        if form.is_valid():
            try:
                made = set_schedule(
                    name=changed.name if changed else form.cleaned_data["name"],
                    terms=form.terms(),
                    revision=form.cleaned_data["revision"] if changed else 0,
                    actor=actor_of(request),
                )
            except (Invalid, Stale, Conflict) as error:
                form.add_refusal(error)
            else:
                messages.success(request, _("The schedule %(name)s is set.") % {"name": made.name})
                return redirect("deployments:on-call-schedule", made.name)
    else:
        form = ScheduleForm(changed=changed)
    context = {"form": form, "changed": changed}
    return render(request, "deployments/on_call/change.html", context, status=status)


def _page(
    request: HttpRequest, row: OnCallSchedule, form: TakeOverForm | None, status: int = 200
) -> HttpResponse:
    now = timezone.now()
    today = now.astimezone(ZoneInfo(row.time_zone)).date()
    start = _day(request.GET.get("from", "")) or today
    start -= timedelta(days=start.weekday())
    days = calendar(row, start=start, days=7 * WEEKS, now=now)
    people = list(
        dict.fromkeys(part.shift.person for day in days for part in day.parts if part.shift.person)
    )
    may = allowed(actor_of(request), ACTION)
    context: dict[str, Any] = {
        "schedule": row,
        "weeks": [days[n : n + 7] for n in range(0, len(days), 7)],
        "colours": {person.pk: f"vc-{n % 8 + 1}" for n, person in enumerate(people)},
        "people": people,
        "overrides": overrides_of(row, now),
        "earlier": (start - timedelta(weeks=WEEKS)).isoformat(),
        "later": (start + timedelta(weeks=WEEKS)).isoformat(),
        "is_now": start <= today < start + timedelta(weeks=WEEKS),
        "layers": row.layers.prefetch_related("turns__person"),
        "may_manage": may,
        "form": form or TakeOverForm(zone=row.time_zone),
        "now_shown": next((one for one in on_call_now(now) if one.schedule == row), None),
    }
    return render(request, "deployments/on_call/detail.html", context, status=status)


def _day(text: str) -> date | None:
    """The day of an address within ten years; what cannot be read shows today."""
    try:
        found = date.fromisoformat(text)
    except ValueError:
        return None
    return found if 2020 <= found.year <= 2060 else None


def _tell(request: HttpRequest, error: CovenantError) -> None:
    messages.error(request, f"{error.message} {error.hint}".strip())
