"""Signing in, in one step or two, signing out, and the language."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib.auth import logout
from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse, HttpResponseBase, JsonResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import check_for_language
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST
from django.views.i18n import set_language

from console.actors import Actor
from console.adapters import oidc
from console.api.authentication import actor_of
from console.api.problems import problem_of, retry_after
from console.errors import CovenantError, Invalid, NotAllowed
from console.forms import CodeForm, SignInForm
from console.rules.canonical import loads_strict
from console.rules.relying_party import relying_party, why_no_passkeys
from console.rules.sign_in_means import OIDC, TOTP
from console.services.passkeys import request_options
from console.services.people import remember_language
from console.services.second_factors import begin_app, confirm_app, factors_of
from console.services.sign_ins import (
    Missing,
    check_code,
    check_passkey,
    check_password,
    record_sign_out,
    what_is_missing,
)
from console.sessions import MEANS
from console.views.qr_codes import qr_code
from console.views.sign_in_steps import (
    Pending,
    admit,
    begin_pending,
    finish,
    new_challenge,
    origin_of,
    pending_of,
    safe_address,
    take_challenge,
    wanted_address,
)

PROVIDER_SIGN_OUT = "provider_sign_out"
LARGEST_ANSWER = 64 * 1024


@sensitive_post_parameters("password")
@login_not_required
@never_cache
@require_http_methods(["GET", "POST"])
def sign_in(request: HttpRequest) -> HttpResponse:
    """The first step by name and password; a new session each time, so that none can be fixed
    before."""
    after = wanted_address(request)
    if request.user.is_authenticated:
        return redirect(after)
    form = SignInForm(request.POST or None)
    if not form.is_bound:
        return sign_in_page(request, form=form)
    if not form.is_valid():
        return sign_in_page(request, form=form, status=422)
    try:
        user, by = check_password(**form.cleaned_data, origin=origin_of(request))
    except CovenantError as error:
        form.add_refusal(error)
        return sign_in_page(request, form=form, status=_status(error), wait=retry_after(error))
    missing = what_is_missing(user, by)
    if missing is Missing.NOTHING:
        return finish(request, user, by=by, after=after)
    begin_pending(request, user, by=by, after=after)
    second = missing is Missing.SECOND_FACTOR
    return redirect("console:sign-in-code" if second else "console:sign-in-set-up")


@sensitive_post_parameters("code")
@login_not_required
@never_cache
@require_http_methods(["GET", "POST"])
def sign_in_code(request: HttpRequest) -> HttpResponse:
    """The second step: a code of the app, a recovery code, or a passkey (by script)."""
    pending = pending_of(request)
    if pending is None:
        return redirect("console:sign-in")
    form = CodeForm(request.POST or None)
    status, wait = 200, 0
    if form.is_bound:
        status = 422
        if form.is_valid():
            try:
                by = check_code(
                    user=pending.user,
                    code=form.cleaned_data["code"],
                    by=pending.by,
                    origin=origin_of(request),
                )
            except CovenantError as error:
                form.add_refusal(error)
                status, wait = _status(error), retry_after(error)
            else:
                return finish(request, pending.user, by=by, after=pending.after)
    context = {"form": form, "person": pending.user, "factors": factors_of(pending.user)}
    return _answer(request, "console/accounts/second_step.html", context, status, wait)


@sensitive_post_parameters("code")
@login_not_required
@never_cache
@require_http_methods(["GET", "POST"])
def sign_in_set_up(request: HttpRequest) -> HttpResponse:
    """The second step of who has no second factor yet and needs one: setting up an app."""
    pending = pending_of(request)
    if pending is None or what_is_missing(pending.user, pending.by) is not Missing.SET_UP:
        return redirect("console:sign-in")
    form = CodeForm(request.POST or None)
    status = 422 if form.is_bound else 200
    if form.is_bound and form.is_valid():
        origin = origin_of(request)
        actor = Actor(pending.user, source="page", request_id=origin.request_id)
        try:
            codes = confirm_app(code=form.cleaned_data["code"], actor=actor)
        except CovenantError as error:
            form.add_refusal(error)
        else:
            admit(request, pending.user, by=f"{pending.by}+{TOTP}")
            shown = {"codes": codes, "next": safe_address(request, pending.after)}
            return _answer(request, "console/accounts/recovery_codes.html", shown, 200)
    app = begin_app(user=pending.user, renew=not form.is_bound)
    context = {"form": form, "person": pending.user, "app": app, "qr": qr_code(app.uri)}
    return _answer(request, "console/accounts/set_up.html", context, status)


@login_not_required
@never_cache
@require_POST
def passkey_options(request: HttpRequest) -> HttpResponse:
    """What the browser asks its passkeys: any of them, or one of who is on the way in.

    The same for everybody who did not prove anything yet: it tells nothing about anybody.
    """
    pending = pending_of(request)
    try:
        options = request_options(
            party=relying_party(settings.CONFIG.base_url),
            challenge=new_challenge(request, _purpose(pending)),
            user=pending.user if pending else None,
        )
    except CovenantError as error:
        return problem_of(error)
    return JsonResponse(options)


@login_not_required
@never_cache
@require_POST
def passkey_sign_in(request: HttpRequest) -> HttpResponse:
    """Sign in by what a passkey answered, alone or as the second step."""
    pending = pending_of(request)
    try:
        user, by = check_passkey(
            answer=read_json(request),
            party=relying_party(settings.CONFIG.base_url),
            challenge=take_challenge(request, _purpose(pending)),
            origin=origin_of(request),
            user=pending.user if pending else None,
            by=pending.by if pending else "",
        )
    except CovenantError as error:
        return problem_of(error)
    after = pending.after if pending else wanted_address(request)
    response = finish(request, user, by=by, after=after)
    answer = JsonResponse({"next": response["Location"]})
    answer.cookies.update(response.cookies)
    return answer


@require_POST
def sign_out(request: HttpRequest) -> HttpResponse:
    """End the session; who came by single sign-on is offered to sign out there as well."""
    record_sign_out(actor=actor_of(request))
    provider = settings.CONFIG.sign_in.oidc
    came_by_provider = str(request.session.get(MEANS, "")).startswith(OIDC)
    logout(request)
    if provider and came_by_provider:
        back = settings.CONFIG.base_url + reverse("console:sign-in")
        request.session[PROVIDER_SIGN_OUT] = oidc.end_session_url(provider, return_url=back)
    return redirect(settings.LOGOUT_REDIRECT_URL)


@login_not_required
@require_POST
def choose_language(request: HttpRequest) -> HttpResponseBase:
    """Django's own switch, remembered for a person who is signed in."""
    language = request.POST.get("language", "")
    if request.user.is_authenticated and check_for_language(language):
        remember_language(language=language, actor=actor_of(request))
    return set_language(request)


def sign_in_page(
    request: HttpRequest,
    *,
    form: SignInForm | None = None,
    problem: CovenantError | None = None,
    status: int = 200,
    wait: int = 0,
) -> HttpResponse:
    """The sign-in page with all ways in, and what went wrong on one of them."""
    sign_out_address = ""
    if request.session.get(PROVIDER_SIGN_OUT):
        sign_out_address = request.session.pop(PROVIDER_SIGN_OUT)
    context = {
        "form": form or SignInForm(),
        "next": request.POST.get("next", request.GET.get("next", "")),
        "problem": problem,
        "passkeys": not why_no_passkeys(settings.CONFIG.base_url),
        "provider": settings.CONFIG.sign_in.oidc,
        "provider_sign_out": sign_out_address,
    }
    return _answer(request, "console/accounts/sign_in.html", context, status, wait)


def read_json(request: HttpRequest) -> dict[str, Any]:
    """The JSON object that a script sent. Raises Invalid (`passkey_malformed`)."""
    body = request.body if len(request.body) <= LARGEST_ANSWER else b""
    try:
        read = loads_strict(body)
    except Invalid as error:
        raise Invalid("What the browser sent is not JSON.", code="passkey_malformed") from error
    if not isinstance(read, dict):
        raise Invalid("What the browser sent is no object.", code="passkey_malformed")
    return read


def _purpose(pending: Pending | None) -> str:
    return f"second-step:{pending.user.pk}" if pending else "sign-in"


def _status(error: CovenantError) -> int:
    """Refusals are shown in place, as those of any form; only waiting has a status of its own."""
    return 422 if isinstance(error, (Invalid, NotAllowed)) else error.status


def _answer(
    request: HttpRequest, template: str, context: dict[str, Any], status: int, wait: int = 0
) -> HttpResponse:
    answer = render(request, template, context, status=status)
    if wait:
        answer["Retry-After"] = str(wait)
    return answer
