"""People, environments and the system check."""

from __future__ import annotations

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from console.actors import SYSTEM_USERNAME, allowed, require
from console.api.authentication import actor_of
from console.errors import Conflict, Invalid
from console.forms import PersonForm, RolesForm, person_initial
from console.models import Role, User
from console.selectors.paging import page_of
from console.selectors.people import keys_of, people
from console.selectors.system import system_checks
from console.services.people import (
    change_roles,
    create_person,
    deactivate_person,
    reactivate_person,
    reset_password,
)


@require_safe
def index(request: HttpRequest) -> HttpResponse:
    """Everybody, with their roles."""
    q, role = request.GET.get("q", "")[:100], request.GET.get("role", "")
    page = page_of(people(q=q, role=role), cursor=request.GET.get("cursor", ""))
    labels = dict(Role.choices)
    context = {
        "people": [(one, [labels.get(name, name) for name in one.roles]) for one in page.rows],
        "roles": Role.choices,
        "q": q,
        "role": role,
        "may_manage": allowed(actor_of(request), "user.manage"),
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
    return _detail(request, _person(username))


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
    return _detail(request, _person(username), form, status=422)


@require_POST
def activate(request: HttpRequest, username: str, active: bool) -> HttpResponse:
    """Deactivate a person, or let them in again."""
    change = reactivate_person if active else deactivate_person
    reason = request.POST.get("reason", "")[:300]
    try:
        change(username=username, reason=reason, actor=actor_of(request))
    except Conflict as error:
        messages.error(request, f"{error.message} {error.hint}")
    else:
        messages.success(
            request,
            _("The person can sign in again.") if active else _("The person is deactivated."),
        )
    return redirect("console:person-detail", username)


@require_POST
def reset(request: HttpRequest, username: str) -> HttpResponse:
    """Give a person a new password, shown this once."""
    clear = reset_password(username=username, actor=actor_of(request))
    return _show_password(request, _person(username), clear)


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


def _person(username: str) -> User:
    person = User.objects.filter(username=username).exclude(username=SYSTEM_USERNAME).first()
    if person is None:
        raise Http404
    return person


def _detail(
    request: HttpRequest, person: User, form: RolesForm | None = None, *, status: int = 200
) -> HttpResponse:
    labels = dict(Role.choices)
    context = {
        "person": person,
        "roles": [labels.get(name, name) for name in person.roles],
        "form": form or RolesForm(initial=person_initial(person)),
        "keys": keys_of(person),
        "may_manage": allowed(actor_of(request), "user.manage"),
    }
    return render(request, "console/settings/person.html", context, status=status)


def _show_password(request: HttpRequest, person: User, clear: str) -> HttpResponse:
    context = {"person": person, "clear": clear}
    response = render(request, "console/settings/person_password.html", context, status=201)
    response["Cache-Control"] = "no-store"
    return response
