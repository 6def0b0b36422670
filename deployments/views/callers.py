"""Callers of an environment, their keys, and the issuers whose tokens name callers."""

from __future__ import annotations

import json
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from console.actors import allowed, require
from console.api.authentication import actor_of, user_of
from console.errors import CovenantError, NotAllowed, NotFound
from deployments.access_forms import CallerForm, CallerKeyForm, TokenIssuerForm
from deployments.selectors.access.callers import (
    MOST_SHOWN,
    caller_row,
    caller_rows,
    find_caller,
    is_valid,
    issuers_of,
    policies_of,
)
from deployments.services.access.callers import (
    block_caller,
    create_caller,
    create_caller_key,
    revoke_caller_key,
    unblock_caller,
)
from deployments.services.access.token_issuers import (
    refresh_token_issuer,
    remove_token_issuer,
    set_token_issuer,
)


@require_http_methods(["GET", "POST"])
def index(request: HttpRequest, environment: str) -> HttpResponse:
    """Callers and token issuers of an environment; POST registers a caller."""
    form = CallerForm(request.POST or None)
    if request.method == "POST":
        require(actor_of(request), "caller.manage")
        if form.is_valid():
            try:
                caller = create_caller(
                    environment=environment, actor=actor_of(request), **form.cleaned_data
                )
            except (NotFound, NotAllowed):
                raise
            except CovenantError as error:
                form.add_refusal(error)
            else:
                return redirect("deployments:caller-detail", environment, caller.name)
    query = request.GET.get("q", "").strip()[:60]
    now = timezone.now()
    rows = caller_rows(environment, now=now, query=query)
    context = {
        **_frame(request, environment),
        "rows": rows,
        "cut": len(rows) == MOST_SHOWN,
        "query": query,
        "issuers": _issuer_rows(environment),
        "policies": policies_of(environment, user=user_of(request)),
        "form": form,
    }
    status = 422 if request.method == "POST" else 200
    return render(request, "deployments/callers/list.html", context, status=status)


@require_safe
def detail(request: HttpRequest, environment: str, caller: str) -> HttpResponse:
    """One caller and its keys."""
    return _caller_page(request, environment, caller, CallerKeyForm())


@require_POST
def create_key(request: HttpRequest, environment: str, caller: str) -> HttpResponse:
    """Make a key; the answer shows its text, this once."""
    form = CallerKeyForm(request.POST)
    require(actor_of(request), "caller.manage")
    if form.is_valid():
        try:
            _key, text = create_caller_key(
                environment=environment,
                name=caller,
                expires_in_days=form.cleaned_data["expires_in_days"],
                actor=actor_of(request),
            )
        except (NotFound, NotAllowed):
            raise
        except CovenantError as error:
            form.add_refusal(error)
        else:
            answer = _caller_page(request, environment, caller, CallerKeyForm(), made=text)
            answer["Cache-Control"] = "no-store"
            return answer
    return _caller_page(request, environment, caller, form, status=422)


@require_POST
def revoke_key(request: HttpRequest, environment: str, caller: str, prefix: str) -> HttpResponse:
    """Revoke a key."""
    revoke_caller_key(
        environment=environment,
        name=caller,
        prefix=prefix,
        reason=request.POST.get("reason", ""),
        actor=actor_of(request),
    )
    messages.success(request, _("The key %(key)s opens nothing any more.") % {"key": prefix})
    return redirect("deployments:caller-detail", environment, caller)


@require_POST
def block(request: HttpRequest, environment: str, caller: str) -> HttpResponse:
    """Block a caller, or let it in again (`blocked` is 1 or 0)."""
    wanted = request.POST.get("blocked", "1") != "0"
    change = block_caller if wanted else unblock_caller
    change(
        environment=environment,
        name=caller,
        reason=request.POST.get("reason", ""),
        actor=actor_of(request),
    )
    words = _("%(name)s is blocked.") if wanted else _("%(name)s may call again.")
    messages.success(request, words % {"name": caller})
    return redirect("deployments:caller-detail", environment, caller)


@require_http_methods(["GET", "POST"])
def issuer(request: HttpRequest, environment: str) -> HttpResponse:
    """Register a token issuer, or change the one that is named."""
    found = issuers_of(environment).filter(name=request.GET.get("name", "")).first()
    initial: dict[str, Any] = {}
    if found is not None:
        initial = {
            "name": found.name,
            "issuer": found.issuer,
            "audiences": "\n".join(found.audiences),
            "caller_claim": found.caller_claim,
            "jwks_url": found.jwks_url,
            "jwks": "" if found.jwks_url else json.dumps(found.jwks, indent=2),
        }
    form = TokenIssuerForm(request.POST or None, initial=initial)
    if request.method == "POST":
        require(actor_of(request), "caller.manage")
        if form.is_valid():
            try:
                made = set_token_issuer(
                    environment=environment, actor=actor_of(request), **form.registration()
                )
            except (NotFound, NotAllowed):
                raise
            except CovenantError as error:
                form.add_refusal(error)
            else:
                words = _("Tokens of %(issuer)s are known.")
                messages.success(request, words % {"issuer": made.issuer})
                return redirect("deployments:callers", environment)
    context = {**_frame(request, environment), "form": form, "issuer": found}
    status = 422 if request.method == "POST" else 200
    return render(request, "deployments/callers/issuer.html", context, status=status)


@require_POST
def refresh_issuer(request: HttpRequest, environment: str, issuer_name: str) -> HttpResponse:
    """Fetch an issuer's keys now."""
    try:
        refresh_token_issuer(environment=environment, name=issuer_name, actor=actor_of(request))
    except (NotFound, NotAllowed):
        raise
    except CovenantError as error:
        messages.error(request, f"{error.message} {error.hint}".strip())
    else:
        messages.success(request, _("The keys are as the issuer publishes them now."))
    return redirect("deployments:callers", environment)


@require_POST
def remove_issuer(request: HttpRequest, environment: str, issuer_name: str) -> HttpResponse:
    """Take an issuer's tokens no more."""
    try:
        remove_token_issuer(
            environment=environment,
            name=issuer_name,
            reason=request.POST.get("reason", ""),
            actor=actor_of(request),
        )
    except (NotFound, NotAllowed):
        raise
    except CovenantError as error:
        messages.error(request, f"{error.message} {error.hint}".strip())
    else:
        messages.success(request, _("Its tokens are taken no more."))
    return redirect("deployments:callers", environment)


def _caller_page(
    request: HttpRequest,
    environment: str,
    name: str,
    form: CallerKeyForm,
    *,
    made: str = "",
    status: int = 200,
) -> HttpResponse:
    now = timezone.now()
    row = caller_row(find_caller(environment, name), now)
    context = {
        **_frame(request, environment),
        "row": row,
        "keys": [
            {"key": key, "state": _key_state(key, now), "dialog": f"revoke-{key.prefix}"}
            for key in row.keys
        ],
        "form": form,
        "made": made,
        "block_fields": [("blocked", "1")],
        "unblock_fields": [("blocked", "0")],
    }
    return render(request, "deployments/callers/detail.html", context, status=status)


def _key_state(key: Any, now: Any) -> str:
    if key.revoked_at is not None:
        return "revoked"
    return "usable" if is_valid(key, now) else "expired"


def _issuer_rows(environment: str) -> list[dict[str, Any]]:
    return [
        {
            "issuer": one,
            "keys": len(one.jwks.get("keys", [])),
            "dialog": f"remove-issuer-{one.name}",
        }
        for one in issuers_of(environment)[:100]
    ]


def _frame(request: HttpRequest, environment: str) -> dict[str, Any]:
    return {
        "environment": environment,
        "may_manage": allowed(actor_of(request), "caller.manage"),
        "nav_section": "settings",
        "current_environment": {
            "name": environment,
            "is_production": environment == "production",
        },
    }
