"""Service accounts: programs' accounts with their tokens and what speaks for them."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from console.actors import require
from console.api.authentication import actor_of
from console.errors import Conflict, CovenantError, Invalid
from console.people_forms import (
    AccountTokenForm,
    ServiceAccountChangeForm,
    ServiceAccountForm,
    WorkloadForm,
)
from console.selectors.paging import page_of
from console.selectors.people import role_labels, token_state, tokens_of
from console.selectors.teams import find_service_account, service_accounts, workloads_of
from console.services.service_accounts import (
    change_service_account,
    create_service_account,
    disable_service_account,
    enable_service_account,
)
from console.services.tokens import create_account_token
from console.services.workloads import add_workload, remove_workload

REFUSED = (Invalid, Conflict)
ACTION = "service_account.manage"


@require_safe
def index(request: HttpRequest) -> HttpResponse:
    """All service accounts."""
    require(actor_of(request), ACTION)
    page = page_of(service_accounts(), cursor=request.GET.get("cursor", ""))
    labels = role_labels()
    rows = [
        (
            one,
            [(m.team, [labels.get(r, r) for r in m.roles]) for m in one.memberships.all()],
        )
        for one in page.rows
    ]
    context = {"accounts": rows, **page.links(request.GET)}
    return render(request, "console/settings/service_accounts.html", context)


@require_http_methods(["GET", "POST"])
def create(request: HttpRequest) -> HttpResponse:
    """Make an account for a program."""
    actor = actor_of(request)
    require(actor, ACTION)
    form = ServiceAccountForm(request.POST or None)
    status = 200
    if form.is_bound:
        status = 422
        if form.is_valid():
            try:
                account = create_service_account(**form.wanted(), actor=actor)
            except REFUSED as error:
                form.add_refusal(error)
            else:
                return redirect("console:service-account", account.username)
    context = {"form": form}
    return render(request, "console/settings/service_account_create.html", context, status=status)


@require_safe
def detail(request: HttpRequest, username: str) -> HttpResponse:
    """One account: team and roles, tokens, workload identities."""
    require(actor_of(request), ACTION)
    return _detail(request, username)


@require_POST
def change(request: HttpRequest, username: str) -> HttpResponse:
    """Rename it, or give it another team or other roles."""
    actor = actor_of(request)
    require(actor, ACTION)
    form = ServiceAccountChangeForm(request.POST)
    if form.is_valid():
        try:
            change_service_account(username=username, **form.wanted(), actor=actor)
        except REFUSED as error:
            form.add_refusal(error)
        else:
            messages.success(request, _("The account is changed."))
            return redirect("console:service-account", username)
    return _detail(request, username, change_form=form, status=422)


@require_POST
def token_create(request: HttpRequest, username: str) -> HttpResponse:
    """Make a token for the account, shown this once."""
    actor = actor_of(request)
    require(actor, ACTION)
    form = AccountTokenForm(request.POST)
    if form.is_valid():
        try:
            _token, clear = create_account_token(
                username=username, **form.cleaned_data, actor=actor
            )
        except REFUSED as error:
            form.add_refusal(error)
        else:
            response = _detail(request, username, clear=clear, status=201)
            response["Cache-Control"] = "no-store"
            return response
    return _detail(request, username, token_form=form, status=422)


@require_POST
def workload_add(request: HttpRequest, username: str) -> HttpResponse:
    """Trust tokens of a platform to speak for the account."""
    actor = actor_of(request)
    require(actor, ACTION)
    form = WorkloadForm(request.POST)
    if form.is_valid():
        try:
            add_workload(username=username, **form.cleaned_data, actor=actor)
        except REFUSED as error:
            form.add_refusal(error)
        else:
            messages.success(request, _("Jobs whose tokens fit can sign in from now on."))
            return redirect("console:service-account", username)
    return _detail(request, username, workload_form=form, status=422)


@require_POST
def workload_remove(request: HttpRequest, username: str, workload_id: int) -> HttpResponse:
    """Trust these tokens no longer."""
    reason = request.POST.get("reason", "")[:300]
    remove_workload(
        username=username, workload_id=workload_id, reason=reason, actor=actor_of(request)
    )
    messages.success(request, _("Tokens of that kind open nothing any more."))
    return redirect("console:service-account", username)


@require_POST
def activate(request: HttpRequest, username: str, active: bool) -> HttpResponse:
    """Disable an account, or enable it again."""
    set_active = enable_service_account if active else disable_service_account
    reason = request.POST.get("reason", "")[:300]
    try:
        set_active(username=username, reason=reason, actor=actor_of(request))
    except REFUSED as error:
        _tell(request, error)
    return redirect("console:service-account", username)


def _detail(
    request: HttpRequest, username: str, *, status: int = 200, clear: str = "", **forms: Any
) -> HttpResponse:
    account = find_service_account(username)
    now, labels = timezone.now(), role_labels()
    membership = next(iter(account.memberships.all()), None)
    initial = {
        "display_name": account.display_name,
        "team": membership.team.slug if membership else None,
        "roles": membership.roles if membership else [],
    }
    context = {
        "account": account,
        "membership": membership,
        "roles": [labels.get(r, r) for r in membership.roles] if membership else [],
        "tokens": [(token, token_state(token, now)) for token in tokens_of(account)],
        "workloads": workloads_of(account),
        "clear": clear,
        "base_url": settings.CONFIG.base_url,
        "change_form": forms.get("change_form") or ServiceAccountChangeForm(initial=initial),
        "token_form": forms.get("token_form")
        or AccountTokenForm(initial={"days": settings.TOKEN_LIFETIME_DAYS}),
        "workload_form": forms.get("workload_form")
        or WorkloadForm(initial={"audience": settings.CONFIG.base_url}),
    }
    return render(request, "console/settings/service_account.html", context, status=status)


def _tell(request: HttpRequest, error: CovenantError) -> None:
    messages.error(request, f"{error.message} {error.hint}".strip())
