"""Settings of one's own: profile, password, tokens."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib import messages
from django.contrib.auth import update_session_auth_hash
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from console.api.authentication import actor_of
from console.api.problems import retry_after
from console.errors import Conflict, CovenantError, Invalid, TooMany
from console.forms import PasswordForm, TokenForm
from console.models import ApiToken
from console.selectors.people import tokens_of
from console.services.people import change_own_password
from console.services.sessions import forget_sessions
from console.services.tokens import create_token, revoke_token

REFUSED = (Invalid, Conflict, TooMany)


@sensitive_post_parameters("old", "password")
@require_http_methods(["GET", "POST"])
def you(request: HttpRequest) -> HttpResponse:
    """Who one is here, and a new password."""
    form = PasswordForm(request.POST or None)
    status = 200
    if form.is_bound:
        status = 422
        if form.is_valid():
            try:
                user = change_own_password(
                    old=form.cleaned_data["old"],
                    new=form.cleaned_data["password"],
                    actor=actor_of(request),
                )
            except REFUSED as error:
                status = _refuse(form, error)
            else:
                update_session_auth_hash(request, user)
                forget_sessions(user, keep=request.session.session_key)
                messages.success(
                    request, _("Your password is changed; your other sessions are ended.")
                )
                return redirect("console:settings")
    return _answer(request, "console/settings/you.html", {"form": form}, status)


@require_safe
def tokens(request: HttpRequest) -> HttpResponse:
    """One's tokens, without their clear text."""
    form = TokenForm(initial={"days": settings.TOKEN_LIFETIME_DAYS})
    context = {"tokens": _with_state(request), "form": form}
    return render(request, "console/settings/tokens.html", context)


@require_POST
def token_create(request: HttpRequest) -> HttpResponse:
    """Make a token and show it this once."""
    actor = actor_of(request)
    form = TokenForm(request.POST)
    clear, status = "", 422
    if form.is_valid():
        try:
            _token, clear = create_token(**form.cleaned_data, actor=actor)
        except REFUSED as error:
            status = _refuse(form, error)
        else:
            form = TokenForm(initial={"days": settings.TOKEN_LIFETIME_DAYS})
            status = 201
    context = {"tokens": _with_state(request), "form": form, "clear": clear}
    return _answer(request, "console/settings/tokens.html", context, status)


@require_POST
def token_revoke(request: HttpRequest, token_id: int) -> HttpResponse:
    """Revoke a token at once."""
    revoke_token(token_id=token_id, actor=actor_of(request))
    messages.success(request, _("The token is revoked: calls with it are refused from now on."))
    return redirect("console:tokens")


def _with_state(request: HttpRequest) -> list[tuple[ApiToken, str]]:
    now = timezone.now()
    return [
        (
            token,
            "revoked" if token.revoked_at else "active" if token.expires_at > now else "expired",
        )
        for token in tokens_of(actor_of(request).user)
    ]


@never_cache
def _answer(
    request: HttpRequest, template: str, context: dict[str, Any], status: int
) -> HttpResponse:
    return render(request, template, context, status=status)


def _refuse(form: Any, error: CovenantError) -> int:
    form.add_refusal(error)
    # Shown in place; 422 and 429 are what the scripts of forms understand.
    return 429 if retry_after(error) else 422
