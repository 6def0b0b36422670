"""Environments, their policies and freezes: a part of the settings, asked for by address."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.forms.formsets import BaseFormSet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from console.actors import allowed, require
from console.api.authentication import actor_of, user_of
from console.errors import CovenantError, NotFound
from console.models import Role
from models_registry.environment_forms import (
    EnvironmentForm,
    FreezeForm,
    NewEnvironmentForm,
    RuleForm,
    add_refusal,
    rule_forms,
    with_one_more,
    written_rules,
)
from models_registry.models import Environment
from models_registry.rules import freezes
from models_registry.selectors.policy_previews import PolicyPreview, policy_preview
from models_registry.selectors.release_policies import windows_of
from models_registry.selectors.releases import environment_list, find_environment
from models_registry.services.environments import set_environment
from models_registry.services.freezes import freeze_environment, lift_freeze
from models_registry.views.refusals import REFUSED, tell
from models_registry.views.release_words import (
    frozen_words,
    moment_words,
    preview_words,
    rule_words,
    span_words,
)


@require_safe
def panel(request: HttpRequest) -> HttpResponse:
    """All environments with their policies in words and their freezes; a fragment."""
    actor = actor_of(request)
    context = {
        "rows": [_row(one) for one in environment_list()],
        "may_change": allowed(actor, "environment.change"),
        "may_freeze": allowed(actor, "environment.freeze"),
    }
    return render(request, "models_registry/environments/_panel.html", context)


@require_http_methods(["GET", "POST"])
def change(request: HttpRequest, name: str) -> HttpResponse:
    """Change an environment's policy."""
    require(actor_of(request), "environment.change")
    environment = find_environment(name)
    initial = {field: getattr(environment, field) for field in EnvironmentForm.base_fields}
    form = EnvironmentForm(request.POST or None, initial=initial)
    return _answer(request, form, environment.approval_rules, name)


@require_http_methods(["GET", "POST"])
def create(request: HttpRequest) -> HttpResponse:
    """Make an environment."""
    require(actor_of(request), "environment.change")
    return _answer(request, NewEnvironmentForm(request.POST or None), [], "")


@require_POST
def preview(request: HttpRequest, name: str) -> HttpResponse:
    """The form as it was sent, with one more row if asked for, and what it would mean."""
    require(actor_of(request), "environment.change")
    environment = find_environment(name)
    data = with_one_more(request.POST) if request.POST.get("add") else request.POST
    form, rows = EnvironmentForm(data), rule_forms([], data)
    context = {
        "form": form,
        "rules": rows,
        "name": name,
        **_preview(request, environment, form, rows),
    }
    return render(request, "models_registry/environments/_policy.html", context)


@require_http_methods(["GET", "POST"])
def freeze(request: HttpRequest, name: str) -> HttpResponse:
    """Freeze an environment; see and lift what is frozen."""
    actor = actor_of(request)
    require(actor, "environment.freeze")
    environment = find_environment(name)
    form = FreezeForm(request.POST or None)
    status = 200
    if form.is_bound:
        status = 422
        if form.is_valid():
            try:
                freeze_environment(environment=environment, **form.cleaned_data, actor=actor)
            except REFUSED as error:
                form.add_refusal(error)
            else:
                messages.success(request, _("Nothing new is deployed there meanwhile."))
                return redirect("models_registry:environment-freeze", name)
    context = {
        "form": form,
        "name": name,
        "row": _row(environment),
        "nav_section": "settings",
    }
    return render(request, "models_registry/environments/freeze.html", context, status=status)


@require_POST
def lift(request: HttpRequest, name: str, freeze_id: int) -> HttpResponse:
    """End a freeze early."""
    try:
        lift_freeze(
            environment=find_environment(name),
            freeze_id=freeze_id,
            reason=request.POST.get("reason", ""),
            actor=actor_of(request),
        )
    except (*REFUSED, NotFound) as error:
        tell(request, error)
    else:
        messages.success(request, _("Lifted."))
    return redirect("models_registry:environment-freeze", name)


def _row(environment: Environment) -> dict[str, Any]:
    labels, now = dict(Role.choices), timezone.now()
    windows = windows_of(environment)
    frozen = freezes.frozen_at(windows, now)
    coming = freezes.next_freeze(windows, now)
    rows = getattr(environment, "open_windows", ())
    return {
        "environment": environment,
        "rules": [rule_words(rule) for rule in environment.rules],
        "break_glass": [labels[role] for role in environment.break_glass_roles],
        "frozen": frozen,
        "frozen_words": frozen_words(frozen) if frozen else "",
        "coming": coming,
        "coming_words": moment_words(coming.since) if coming else "",
        "windows": [
            {"row": row, "words": span_words(*times), "dialog": f"lift-{row.pk}"}
            for row, window in zip(rows, windows, strict=True)
            if (times := freezes.occurrence(window, now)) is not None
        ],
    }


def _answer(
    request: HttpRequest, form: EnvironmentForm, stored: list[dict[str, Any]], name: str
) -> HttpResponse:
    status, rows = 200, rule_forms(stored, request.POST if form.is_bound else None)
    if form.is_bound:
        status = 422
        if form.is_valid() and rows.is_valid():
            given = {"name": name, **form.cleaned_data, "approval_rules": written_rules(rows)}
            try:
                set_environment(**given, actor=actor_of(request))
            except REFUSED as error:
                add_refusal(form, rows, error)
            else:
                messages.success(request, _("The policy is in force for new decisions."))
                return redirect("console:environments")
    context = {"form": form, "rules": rows, "name": name, "nav_section": "settings"}
    return render(request, "models_registry/environments/change.html", context, status=status)


def _preview(
    request: HttpRequest,
    environment: Environment,
    form: EnvironmentForm,
    rows: BaseFormSet[RuleForm],
) -> dict[str, Any]:
    if not form.is_valid() or not rows.is_valid():
        return {}
    changes = {**form.cleaned_data, "approval_rules": written_rules(rows)}
    try:
        found = policy_preview(environment, changes, user=user_of(request), now=timezone.now())
    except CovenantError as error:
        add_refusal(form, rows, error)
        return {}
    return {"preview": _preview_words(found)}


def _preview_words(found: PolicyPreview) -> dict[str, Any]:
    return {
        "rules": [rule_words(rule) for rule in found.rules],
        "weaker": found.weaker,
        "impossible": found.impossible,
        "rows": [
            {"release": row.release, "missing": preview_words(row.unmet)} for row in found.rows
        ],
    }
