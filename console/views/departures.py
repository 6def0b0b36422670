"""The page on which a person goes: what they carry, who carries it on; and letting in again."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST

from console.actors import require
from console.api.authentication import actor_of
from console.errors import Conflict, Invalid
from console.models import User
from console.people_forms import DepartureForm
from console.selectors.departures import departure_of
from console.selectors.people import find_person
from console.services.departures import deactivate_person, reactivate_person


@require_http_methods(["GET", "POST"])
def deactivate(request: HttpRequest, username: str) -> HttpResponse:
    """What hangs on a person, with a successor for each thing; and the act."""
    actor = actor_of(request)
    require(actor, "user.manage")
    person = find_person(username)
    departure = departure_of(person)
    form = DepartureForm(
        request.POST or None,
        duties=departure.to_hand_over,
        initial={duty.key: next(iter(duty.suggested), "") for duty in departure.to_hand_over},
    )
    status = 200
    if form.is_bound:
        status = 422
        if form.is_valid():
            try:
                deactivate_person(
                    username=username,
                    reason=form.cleaned_data["reason"],
                    successors=form.successors(),
                    actor=actor,
                )
            except (Invalid, Conflict) as error:
                form.add_refusal(error)
            else:
                messages.success(
                    request, _("%(person)s is deactivated.") % {"person": person.get_full_name()}
                )
                return redirect("console:person-detail", username)
    names = {name for duty in departure.to_hand_over for name in duty.suggested}
    context = {
        "person": person,
        "departure": departure,
        "form": form,
        "names": {
            user.username: user.get_full_name() for user in User.objects.filter(username__in=names)
        },
    }
    return render(request, "console/settings/person_deactivate.html", context, status=status)


@require_POST
def reactivate(request: HttpRequest, username: str) -> HttpResponse:
    """Let a person in again, with nothing of what they had."""
    actor = actor_of(request)
    require(actor, "user.manage")
    if find_person(username).is_active:
        return redirect("console:person-detail", username)
    reason = request.POST.get("reason", "")[:300]
    reactivate_person(username=username, reason=reason, actor=actor)
    messages.success(
        request,
        _("The person is active again, with no role, team or password. Give what they need anew."),
    )
    return redirect("console:person-detail", username)
