"""People, environments and the system check."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from console.actors import allowed, require
from console.api.authentication import actor_of
from console.errors import Conflict, Invalid
from console.forms import PersonForm, RolesForm, person_initial
from console.models import Team, User
from console.people_forms import PeopleFilterForm
from console.selectors.paging import page_of
from console.selectors.people import (
    find_person,
    keys_of,
    people,
    people_rows,
    token_state,
    tokens_of,
)
from console.selectors.system import system_checks
from console.services.people import change_roles, create_person, reset_password
from console.services.tokens import revoke_token

TOKENS_SHOWN = 50


@require_safe
def index(request: HttpRequest) -> HttpResponse:
    """Everybody, with roles, teams, seats and the last sign of life."""
    form = PeopleFilterForm(request.GET)
    wanted = form.wanted()
    actor = actor_of(request)
    page = page_of(people(**wanted), cursor=request.GET.get("cursor", ""))
    context = {
        "people": people_rows(page.rows, viewer=actor.user),
        "form": form,
        "wanted": wanted,
        "teams": Team.objects.order_by("name"),
        "may_manage": allowed(actor, "user.manage"),
        **page.links(request.GET),
    }
    return render(request, "console/settings/people.html", context)


@require_http_methods(["GET", "POST"])
def create(request: HttpRequest) -> HttpResponse:
    """Create a person; the first password is shown this once."""
    actor = actor_of(request)
    require(actor, "user.manage")
    form = PersonForm(request.POST or None)
    status = 200
    if form.is_bound:
        status = 422
        if form.is_valid():
            try:
                person, clear = create_person(**form.cleaned_data, actor=actor)
            except (Invalid, Conflict) as error:
                form.add_refusal(error)
            else:
                return _show_password(request, person, clear)
    return render(request, "console/settings/person_create.html", {"form": form}, status=status)


@require_safe
def detail(request: HttpRequest, username: str) -> HttpResponse:
    """One person: roles, keys, and what an admin may do."""
    return _detail(request, find_person(username))


@require_POST
def roles(request: HttpRequest, username: str) -> HttpResponse:
    """Give a person exactly the roles that are ticked."""
    form = RolesForm(request.POST)
    if form.is_valid():
        try:
            change_roles(username=username, **form.cleaned_data, actor=actor_of(request))
        except (Invalid, Conflict) as error:
            form.add_refusal(error)
        else:
            messages.success(request, _("The roles are changed."))
            return redirect("console:person-detail", username)
    return _detail(request, find_person(username), form, status=422)


@require_POST
def token_revoke(request: HttpRequest, username: str, token_id: int) -> HttpResponse:
    """Revoke a token of somebody else at once."""
    actor = actor_of(request)
    require(actor, "user.manage")
    reason = request.POST.get("reason", "")[:300]
    token = revoke_token(token_id=token_id, reason=reason, actor=actor)
    messages.success(request, _("The token is revoked: calls with it are refused from now on."))
    page = "console:service-account" if token.user.is_service else "console:person-detail"
    return redirect(page, username)


@require_POST
def reset(request: HttpRequest, username: str) -> HttpResponse:
    """Give a person a new password, shown this once."""
    clear = reset_password(username=username, actor=actor_of(request))
    return _show_password(request, find_person(username), clear)


@require_safe
def environments(request: HttpRequest) -> HttpResponse:
    """The environments' policies, which the registry shows in a fragment of its own."""
    return render(request, "console/settings/environments.html")


@require_safe
def system(request: HttpRequest) -> HttpResponse:
    """Each part that the console depends on, with how it is and how to mend it."""
    if request.headers.get("HX-Request"):
        return render(request, "console/settings/_checks.html", {"checks": system_checks()})
    return render(request, "console/settings/system.html")


def _detail(
    request: HttpRequest, person: User, form: RolesForm | None = None, *, status: int = 200
) -> HttpResponse:
    actor = actor_of(request)
    may_manage = allowed(actor, "user.manage")
    now = timezone.now()
    context = {
        "person": person,
        "row": people_rows([person], viewer=actor.user)[0],
        "form": form or RolesForm(initial=person_initial(person)),
        "keys": keys_of(person),
        # What opens doors is shown to those who may close them.
        "tokens": [(one, token_state(one, now)) for one in tokens_of(person)[:TOKENS_SHOWN]]
        if may_manage
        else [],
        "may_manage": may_manage,
    }
    return render(request, "console/settings/person.html", context, status=status)


def _show_password(request: HttpRequest, person: User, clear: str) -> HttpResponse:
    context = {"person": person, "clear": clear}
    response = render(request, "console/settings/person_password.html", context, status=201)
    response["Cache-Control"] = "no-store"
    return response
