"""Alert rules: the list, and one in plain words with what it would have raised."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from console.actors import allowed
from console.api.authentication import actor_of, user_of
from console.errors import Conflict, CovenantError, Invalid, Stale
from deployments.alert_forms import (
    AlertRuleForm,
    document_initial,
    rule_initial,
    signal_choices,
)
from deployments.documents.alert_words import number, rule_words
from deployments.models import AlertRule
from deployments.rules.alerts.catalogue import signal_of
from deployments.rules.alerts.documents import Condition, RuleDocument, parse_rule
from deployments.selectors.alerts.preview import Preview, preview
from deployments.selectors.alerts.rules import find_rule, rule_list, series_names
from deployments.services.alerts.records import TOPIC
from deployments.services.alerts.rules import remove_rule, require_rule, restore_rule, set_rule
from deployments.services.alerts.scopes import scope_of

NEW = RuleDocument((Condition("error_rate_percent", ">", 1.0),), for_s=60, min_requests=100)


@require_safe
def index(request: HttpRequest) -> HttpResponse:
    """Every rule with what it says and how many of its alerts fire."""
    found = sorted(rule_list(user=user_of(request)), key=lambda row: (row.severity, row.name))
    rows = [{"rule": row, **_words(row)} for row in found]
    may_change = allowed(actor_of(request), "alert_rule.change")
    context = {"rows": rows, "may_change": may_change, "topic": TOPIC}
    return render(request, "deployments/alerts/rules.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
def create(request: HttpRequest) -> HttpResponse:
    """A new rule; POST tries it or puts it in force."""
    if request.method == "POST":
        return _post(request, None)
    form = AlertRuleForm(initial={"severity": "P2", "enabled": True, **document_initial(NEW)})
    return _page(request, None, form)


@require_http_methods(["GET", "HEAD", "POST"])
def detail(request: HttpRequest, rule: str) -> HttpResponse:
    """One rule; POST tries it or decides it anew."""
    row = find_rule(rule, user=user_of(request))
    if request.method == "POST":
        return _post(request, row)
    try:
        initial = rule_initial(row)
    except Invalid as error:
        messages.error(request, error.message)
        initial = {"name": row.name, "title": row.title, **document_initial(NEW)}
    return _page(request, row, AlertRuleForm(initial=initial))


@require_POST
def restore(request: HttpRequest, rule: str) -> HttpResponse:
    """Put a built-in rule back to what the product came with."""
    restore_rule(name=rule, reason=request.POST.get("reason", ""), actor=actor_of(request))
    messages.success(request, _("The rule is as it came with the product."))
    return redirect("deployments:alert-rule-detail", rule)


@require_POST
def remove(request: HttpRequest, rule: str) -> HttpResponse:
    """Remove a rule that people made."""
    try:
        remove_rule(name=rule, reason=request.POST.get("reason", ""), actor=actor_of(request))
    except Conflict as error:
        messages.error(request, f"{error.message} {error.hint}".strip())
    else:
        messages.success(request, _("The rule is removed; its alerts are over."))
    return redirect("deployments:alert-rule-list")


def _post(request: HttpRequest, row: AlertRule | None) -> HttpResponse:
    if row is not None:
        # Said before anything is read: whoever may not change it is told no faults of the form.
        require_rule(row.name, actor_of(request))
    form = AlertRuleForm(request.POST)
    if row is not None:
        form.fields["name"].required = False
    if not form.is_valid():
        return _page(request, row, form, status=422)
    document = form.document(row.document if row is not None else None)
    name = row.name if row is not None else form.cleaned_data["name"]
    try:
        if "try" in request.POST:
            return _page(request, row, form, tried=_tried(request, form, document))
        revision = request.POST.get("revision", "")
        set_rule(
            name=name,
            document=document,
            expected_revision=int(revision) if revision.isdecimal() else None,
            actor=actor_of(request),
            **form.values(),
        )
    except Stale as error:
        messages.error(request, f"{error.message} {error.hint}")
        return redirect("deployments:alert-rule-detail", name)
    except CovenantError as error:
        form.add_refusal(_at_fields(error))
        return _page(request, row, form, status=error.status)
    messages.success(request, _("The rule is in force."))
    return redirect("deployments:alert-rule-detail", name)


def _tried(request: HttpRequest, form: AlertRuleForm, document: dict[str, Any]) -> Preview:
    """What the rule would have raised; nothing is stored."""
    data = form.cleaned_data
    scope = scope_of(data["environment"], data["model"], data["node"], actor_of(request))
    about = AlertRule(environment=scope.environment, model=scope.model, node=scope.node)
    return preview(parse_rule(document), about, user=user_of(request), now=timezone.now())


def _at_fields(error: CovenantError) -> CovenantError:
    """Pointers into conditions as the form's fields: `/conditions/1/signal` is `signal_2`."""
    moved = []
    for fault in error.errors:
        parts = fault.pointer.lstrip("/").split("/")
        if len(parts) == 3 and parts[0] == "conditions":
            name = parts[2] if parts[1] == "0" else f"{parts[2]}_2"
            moved.append(type(fault)(f"/{name}", fault.detail))
        else:
            moved.append(fault)
    error.errors = tuple(moved)
    return error


def _words(row: AlertRule) -> dict[str, Any]:
    try:
        return {"words": rule_words(parse_rule(row.document)), "readable": True}
    except Invalid as error:
        return {"words": [error.message], "readable": False}


def _page(
    request: HttpRequest,
    row: AlertRule | None,
    form: AlertRuleForm,
    *,
    tried: Preview | None = None,
    status: int = 200,
) -> HttpResponse:
    team = {"team_id": row.model.team_id if row.model else None} if row is not None else {}
    may_change = allowed(actor_of(request), "alert_rule.change", **team)
    context = {
        "rule": row,
        "form": form,
        "may_change": may_change,
        "signals": signal_choices(series_names(user=user_of(request))),
        "more": max(len((row.document if row else {}).get("conditions", ())) - 2, 0),
        "tried": tried,
        "fired": _fired(form, tried) if tried is not None else [],
        **(_words(row) if row is not None else {}),
    }
    return render(request, "deployments/alerts/rule.html", context, status=status)


def _fired(form: AlertRuleForm, tried: Preview) -> list[dict[str, Any]]:
    signal = signal_of(form.cleaned_data["signal"])
    unit = signal.unit if signal else ""
    span = (tried.end - tried.start).total_seconds()
    rows = []
    for one in reversed(tried.fired):
        until = one.resolved_at or tried.end
        rows.append(
            {
                "name": tried.names.get(one.target, ""),
                "fired_at": one.fired_at,
                "resolved_at": one.resolved_at,
                "lasted": (until - one.fired_at).total_seconds(),
                "worst": number(one.worst, unit),
                "left": 100 * (one.fired_at - tried.start).total_seconds() / span,
            }
        )
    return rows
