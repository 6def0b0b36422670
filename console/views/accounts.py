"""Signing in and out, and the language."""

from __future__ import annotations

from django.conf import settings
from django.contrib.auth import login, logout
from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render, resolve_url
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import check_for_language
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST
from django.views.i18n import set_language

from console.api.authentication import actor_of
from console.api.problems import retry_after
from console.errors import CovenantError, TooMany
from console.forms import SignInForm
from console.services.people import remember_language
from console.services.sign_ins import check_sign_in


@sensitive_post_parameters("password")
@login_not_required
@never_cache
@require_http_methods(["GET", "POST"])
def sign_in(request: HttpRequest) -> HttpResponse:
    """Sign in by name and password; a new session each time, so that none can be fixed before."""
    after = _after_sign_in(request)
    if request.user.is_authenticated:
        return redirect(after)
    form = SignInForm(request.POST or None)
    status, wait = 200, 0
    if form.is_bound and form.is_valid():
        try:
            user = check_sign_in(
                username=form.cleaned_data["username"],
                password=form.cleaned_data["password"],
                address=request.META.get("REMOTE_ADDR", ""),
                source="page",
                request_id=getattr(request, "request_id", ""),
            )
        except CovenantError as error:
            form.add_refusal(error)
            status = error.status if isinstance(error, TooMany) else 422
            wait = retry_after(error)
        else:
            login(request, user)
            response = redirect(after)
            if user.language and check_for_language(user.language):
                _set_language_cookie(response, user.language)
            return response
    elif form.is_bound:
        status = 422
    context = {"form": form, "next": request.POST.get("next", request.GET.get("next", ""))}
    answer = render(request, "console/accounts/sign_in.html", context, status=status)
    if wait:
        answer["Retry-After"] = str(wait)
    return answer


@require_POST
def sign_out(request: HttpRequest) -> HttpResponse:
    """End the session."""
    logout(request)
    return redirect(settings.LOGOUT_REDIRECT_URL)


@login_not_required
@require_POST
def choose_language(request: HttpRequest) -> HttpResponseBase:
    """Django's own switch, remembered for a person who is signed in."""
    language = request.POST.get("language", "")
    if request.user.is_authenticated and check_for_language(language):
        remember_language(language=language, actor=actor_of(request))
    return set_language(request)


def _after_sign_in(request: HttpRequest) -> str:
    wanted = request.POST.get("next", request.GET.get("next", ""))
    safe = url_has_allowed_host_and_scheme(
        wanted, allowed_hosts={request.get_host()}, require_https=request.is_secure()
    )
    return wanted if safe else resolve_url(settings.LOGIN_REDIRECT_URL)


def _set_language_cookie(response: HttpResponse, language: str) -> None:
    response.set_cookie(
        settings.LANGUAGE_COOKIE_NAME,
        language,
        max_age=settings.LANGUAGE_COOKIE_AGE,
        path=settings.LANGUAGE_COOKIE_PATH,
        domain=settings.LANGUAGE_COOKIE_DOMAIN,
        secure=settings.LANGUAGE_COOKIE_SECURE,
        httponly=settings.LANGUAGE_COOKIE_HTTPONLY,
        samesite="Lax",
    )
