"""Teams: the list, one team with its members and models."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from console.actors import allowed, require
from console.api.authentication import actor_of
from console.errors import Conflict, CovenantError, Invalid, NotFound
from console.models import Team
from console.people_forms import MemberForm, TeamChangeForm, TeamForm
from console.selectors.paging import page_of
from console.selectors.teams import find_team, members_of, team_list
from console.services.teams import (
    change_team,
    create_team,
    delete_team,
    remove_member,
    set_member,
)

REFUSED = (Invalid, Conflict)


@require_safe
def index(request: HttpRequest) -> HttpResponse:
    """All teams."""
    q = request.GET.get("q", "")[:100]
    page = page_of(team_list(q=q), cursor=request.GET.get("cursor", ""))
    context = {
        "teams": page.rows,
        "q": q,
        "may_manage": allowed(actor_of(request), "team.manage"),
        **page.links(request.GET),
    }
    return render(request, "console/settings/teams.html", context)


@require_http_methods(["GET", "POST"])
def create(request: HttpRequest) -> HttpResponse:
    """Make a team."""
    actor = actor_of(request)
    require(actor, "team.manage")
    form = TeamForm(request.POST or None)
    status = 200
    if form.is_bound:
        status = 422
        if form.is_valid():
            try:
                team = create_team(**form.cleaned_data, actor=actor)
            except REFUSED as error:
                form.add_refusal(error)
            else:
                return redirect("console:team-detail", team.slug)
    return render(request, "console/settings/team_create.html", {"form": form}, status=status)


@require_safe
def detail(request: HttpRequest, slug: str) -> HttpResponse:
    """One team: members with their roles in it, and its models in a fragment of the registry."""
    return _detail(request, find_team(slug))


@require_http_methods(["GET", "POST"])
def change(request: HttpRequest, slug: str) -> HttpResponse:
    """Rename or describe a team."""
    actor = actor_of(request)
    require(actor, "team.manage")
    team = find_team(slug)
    initial = {"name": team.name, "description": team.description}
    form = TeamChangeForm(request.POST or None, initial=initial)
    status = 200
    if form.is_bound:
        status = 422
        if form.is_valid():
            try:
                change_team(slug=slug, **form.cleaned_data, actor=actor)
            except REFUSED as error:
                form.add_refusal(error)
            else:
                return redirect("console:team-detail", slug)
    context = {"form": form, "team": team}
    return render(request, "console/settings/team_change.html", context, status=status)


@require_POST
def member(request: HttpRequest, slug: str) -> HttpResponse:
    """Take somebody in, or give a member exactly the roles that are ticked."""
    team = find_team(slug)
    form = MemberForm(request.POST)
    if form.is_valid():
        try:
            set_member(slug=slug, **form.cleaned_data, actor=actor_of(request))
        except (*REFUSED, NotFound) as error:
            form.add_refusal(error)
        else:
            messages.success(request, _("The roles are changed."))
            return redirect("console:team-detail", slug)
    return _detail(request, team, form, status=422)


@require_POST
def member_remove(request: HttpRequest, slug: str, username: str) -> HttpResponse:
    """Take somebody out of the team."""
    reason = request.POST.get("reason", "")[:300]
    try:
        remove_member(slug=slug, username=username, reason=reason, actor=actor_of(request))
    except REFUSED as error:
        _tell(request, error)
    return redirect("console:team-detail", slug)


@require_POST
def delete(request: HttpRequest, slug: str) -> HttpResponse:
    """Delete a team to which nothing belongs."""
    reason = request.POST.get("reason", "")[:300]
    try:
        delete_team(slug=slug, reason=reason, actor=actor_of(request))
    except REFUSED as error:
        _tell(request, error)
        return redirect("console:team-detail", slug)
    messages.success(request, _("The team is deleted."))
    return redirect("console:teams")


def _detail(
    request: HttpRequest, team: Team, form: MemberForm | None = None, *, status: int = 200
) -> HttpResponse:
    actor = actor_of(request)
    members = members_of(team)
    if form is None:
        chosen = next(
            (one for one in members if one.membership.user.username == request.GET.get("change")),
            None,
        )
        initial = (
            {"username": chosen.membership.user.username, "roles": chosen.membership.roles}
            if chosen
            else {}
        )
        form = MemberForm(initial=initial)
    context = {
        "team": team,
        "members": members,
        "form": form,
        "may_manage": allowed(actor, "team.manage"),
    }
    return render(request, "console/settings/team.html", context, status=status)


def _tell(request: HttpRequest, error: CovenantError) -> None:
    messages.error(request, f"{error.message} {error.hint}".strip())
