"""Settings → Sign-in and security: second factors, passkeys, linked accounts, sessions."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from console.actors import Actor
from console.api.authentication import actor_of
from console.api.problems import problem_of
from console.errors import Conflict, CovenantError, Invalid, TooMany
from console.forms import CodeForm, ReasonForm
from console.rules.relying_party import relying_party, why_no_passkeys
from console.selectors.security import security_of
from console.services.external_accounts import unlink_identity
from console.services.passkeys import creation_options, enrol_passkey, remove_passkey
from console.services.reauthentication import confirm
from console.services.second_factors import (
    begin_app,
    confirm_app,
    remove_app,
    renew_recovery_codes,
    reset_second_factors,
)
from console.services.sessions import end_other_sessions, end_session
from console.services.sign_ins import must_have_second_factor
from console.views.accounts import read_json
from console.views.confirming import confirm_form, proof_of
from console.views.qr_codes import qr_code
from console.views.sign_in_steps import new_challenge, take_challenge

REFUSED = (Invalid, Conflict, TooMany)


@never_cache
@require_safe
def security(request: HttpRequest) -> HttpResponse:
    """How one signs in, and where one is signed in."""
    actor = actor_of(request)
    found = security_of(actor.user, session_key=request.session.session_key or "")
    context = {
        "security": found,
        "required": must_have_second_factor(actor.user),
        "no_passkeys": why_no_passkeys(settings.CONFIG.base_url),
        "provider": settings.CONFIG.sign_in.oidc,
        "passkey_form": confirm_form(request, "passkey"),
        "app_form": confirm_form(request, "app"),
        "codes_form": confirm_form(request, "codes"),
        "passkey_removals": [
            (passkey, confirm_form(request, f"passkey-{passkey.pk}")) for passkey in found.passkeys
        ],
        "identity_removals": [
            (identity, confirm_form(request, f"identity-{identity.pk}"))
            for identity in found.identities
        ],
    }
    return render(request, "console/settings/security.html", context)


@sensitive_post_parameters("password", "code", "first-code")
@never_cache
@require_http_methods(["GET", "POST"])
def app(request: HttpRequest) -> HttpResponse:
    """Set up an authenticator app: its QR code, and the first code that it shows."""
    actor = actor_of(request)
    proof = confirm_form(request)
    form = CodeForm(request.POST or None, prefix="first")
    status = 200
    if request.method == "POST":
        status = 422
        if form.is_valid():
            try:
                _confirm(request, actor)
            except REFUSED as error:
                proof.add_refusal(error)
            else:
                try:
                    codes = confirm_app(code=form.cleaned_data["code"], actor=actor)
                except REFUSED as error:
                    form.add_refusal(error)
                else:
                    return _show_codes(request, codes)
    new = begin_app(user=actor.user, renew=request.method != "POST")
    context = {"form": form, "proof": proof, "app": new, "qr": qr_code(new.uri)}
    return render(request, "console/settings/app.html", context, status=status)


@sensitive_post_parameters("password", "code")
@require_POST
def app_remove(request: HttpRequest) -> HttpResponse:
    """Stop asking for codes of the app."""
    return _act(request, lambda actor: remove_app(actor=actor), _("The app is not asked any more."))


@sensitive_post_parameters("password", "code")
@never_cache
@require_POST
def recovery_codes(request: HttpRequest) -> HttpResponse:
    """Make new recovery codes and show them this once."""
    actor = actor_of(request)
    try:
        _confirm(request, actor)
        codes = renew_recovery_codes(actor=actor)
    except REFUSED as error:
        return _refused(request, error)
    return _show_codes(request, codes)


@sensitive_post_parameters("password", "code")
@never_cache
@require_POST
def passkey_options(request: HttpRequest) -> HttpResponse:
    """What the browser is asked to make, after it was asked again who it is."""
    actor = actor_of(request)
    try:
        _confirm(request, actor)
        options = creation_options(
            party=relying_party(settings.CONFIG.base_url),
            user=actor.user,
            challenge=new_challenge(request, f"enrol:{actor.user.pk}"),
        )
    except CovenantError as error:
        return problem_of(error)
    return JsonResponse(options)


@never_cache
@require_POST
def passkey_add(request: HttpRequest) -> HttpResponse:
    """Keep the passkey that the browser made; the page then shows what is new."""
    actor = actor_of(request)
    try:
        sent = read_json(request)
        answer = sent.get("credential")
        _passkey, codes = enrol_passkey(
            name=str(sent.get("name", "")),
            answer=answer if isinstance(answer, dict) else {},
            party=relying_party(settings.CONFIG.base_url),
            challenge=take_challenge(request, f"enrol:{actor.user.pk}"),
            actor=actor,
        )
    except CovenantError as error:
        return problem_of(error)
    messages.success(request, _("The passkey is enrolled: you can sign in with it."))
    return JsonResponse({"recovery_codes": codes}, status=201)


@sensitive_post_parameters("password", "code")
@require_POST
def passkey_remove(request: HttpRequest, passkey_id: int) -> HttpResponse:
    """Remove a passkey: it opens nothing any more."""
    return _act(
        request,
        lambda actor: remove_passkey(passkey_id=passkey_id, actor=actor),
        _("The passkey is removed: it opens nothing here any more."),
    )


@sensitive_post_parameters("password", "code")
@require_POST
def identity_unlink(request: HttpRequest, identity_id: int) -> HttpResponse:
    """Stop an outside account from opening this one."""
    return _act(
        request,
        lambda actor: unlink_identity(identity_id=identity_id, actor=actor),
        _("The account is not linked any more."),
    )


@require_POST
def session_end(request: HttpRequest, handle: str) -> HttpResponse:
    """End one of one's sessions, at once."""
    end_session(handle=handle, actor=actor_of(request))
    messages.success(request, _("That session is ended."))
    return redirect("console:security")


@require_POST
def session_end_others(request: HttpRequest) -> HttpResponse:
    """End all of one's sessions but this one."""
    count = end_other_sessions(keep=request.session.session_key, actor=actor_of(request))
    messages.success(
        request,
        ngettext("%(count)d session is ended.", "%(count)d sessions are ended.", count)
        % {"count": count},
    )
    return redirect("console:security")


@require_POST
def reset(request: HttpRequest, username: str) -> HttpResponse:
    """Take somebody's second factors away, who lost them."""
    form = ReasonForm(request.POST)
    reason = form.cleaned_data["reason"] if form.is_valid() else ""
    try:
        reset_second_factors(username=username, reason=reason, actor=actor_of(request))
    except Invalid as error:
        messages.error(request, f"{error.message} {error.hint}")
    else:
        messages.success(
            request,
            _("The second factors are taken away; the person signs in without and is told."),
        )
    return redirect("console:person-detail", username=username)


def _confirm(request: HttpRequest, actor: Actor) -> None:
    confirm(actor=actor, **proof_of(request), session=request.session)


def _act(request: HttpRequest, act: Any, done: str) -> HttpResponse:
    """Ask again who it is, do it, and say so."""
    actor = actor_of(request)
    try:
        _confirm(request, actor)
        act(actor)
    except REFUSED as error:
        return _refused(request, error)
    messages.success(request, done)
    return redirect("console:security")


def _refused(request: HttpRequest, error: CovenantError) -> HttpResponse:
    messages.error(request, f"{error.message} {error.hint}")
    return redirect("console:security")


def _show_codes(request: HttpRequest, codes: list[str]) -> HttpResponse:
    return render(request, "console/settings/recovery_codes.html", {"codes": codes}, status=201)
