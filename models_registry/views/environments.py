"""Environments and their policies: a part of the settings, asked for by address."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_safe

from console.actors import allowed, require
from console.api.authentication import actor_of
from console.models import Role
from models_registry.forms import EnvironmentForm, NewEnvironmentForm
from models_registry.selectors.releases import environment_list, find_environment
from models_registry.services.environments import set_environment
from models_registry.views.refusals import REFUSED


@require_safe
def panel(request: HttpRequest) -> HttpResponse:
    """All environments; a fragment."""
    labels = dict(Role.choices)
    rows = [
        (one, [labels.get(role, role) for role in one.approver_roles]) for one in environment_list()
    ]
    context = {"rows": rows, "may_change": allowed(actor_of(request), "environment.change")}
    return render(request, "models_registry/environments/_panel.html", context)


@require_http_methods(["GET", "POST"])
def change(request: HttpRequest, name: str) -> HttpResponse:
    """Change an environment's policy."""
    actor = actor_of(request)
    require(actor, "environment.change")
    environment = find_environment(name)
    initial = {field: getattr(environment, field) for field in EnvironmentForm.base_fields}
    form = EnvironmentForm(request.POST or None, initial=initial)
    return _answer(request, form, name)


@require_http_methods(["GET", "POST"])
def create(request: HttpRequest) -> HttpResponse:
    """Make an environment."""
    require(actor_of(request), "environment.change")
    return _answer(request, NewEnvironmentForm(request.POST or None), "")


def _answer(request: HttpRequest, form: EnvironmentForm, name: str) -> HttpResponse:
    status = 200
    if form.is_bound:
        status = 422
        if form.is_valid():
            given = {"name": name, **form.cleaned_data}
            try:
                set_environment(**given, actor=actor_of(request))
            except REFUSED as error:
                form.add_refusal(error)
            else:
                messages.success(request, _("The policy is in force for new decisions."))
                return redirect("console:environments")
    context = {"form": form, "name": name, "nav_section": "settings"}
    return render(request, "models_registry/environments/change.html", context, status=status)
