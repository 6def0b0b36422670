"""What a browser's session keeps on the way to being signed in, and how that ends.

Between the steps nobody is signed in: the session belongs to nobody, so that no page opens with
it, lasts ten minutes, and has a new key after each step.
"""

from __future__ import annotations

import base64
import secrets
import time
from dataclasses import dataclass

from django.conf import settings
from django.contrib.auth import login
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, resolve_url
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import check_for_language

from console.errors import Conflict
from console.models import User
from console.rules.fresh_sign_ins import SIGNED_IN_AT
from console.rules.sign_in_means import browser_words
from console.services.sign_ins import Origin, record_success
from console.sessions import ADDRESS, BROWSER, MEANS

PENDING = "pending_sign_in"
CHALLENGE = "passkey_challenge"
PENDING_SECONDS = 600
CHALLENGE_SECONDS = 300
BACKEND = "django.contrib.auth.backends.ModelBackend"


@dataclass(frozen=True, slots=True)
class Pending:
    """Somebody who proved a first factor (`by`), and where they wanted to go."""

    user: User
    by: str
    after: str


def origin_of(request: HttpRequest) -> Origin:
    """Where a page's request came from."""
    return Origin(request.META.get("REMOTE_ADDR", ""), "page", getattr(request, "request_id", ""))


def begin_pending(request: HttpRequest, user: User, *, by: str, after: str) -> None:
    """Remember who proved a first factor, in a new session that is nobody's."""
    request.session.flush()
    request.session[PENDING] = {
        "user": user.pk,
        "by": by,
        "after": after,
        "at": time.time(),
        # A password that is changed meanwhile ends this.
        "proof": user.get_session_auth_hash(),
    }


def pending_of(request: HttpRequest) -> Pending | None:
    """Who is on the way in here; None when nobody is, or it took too long."""
    kept = request.session.get(PENDING)
    if not isinstance(kept, dict) or not 0 <= time.time() - kept["at"] <= PENDING_SECONDS:
        return None
    user = User.objects.filter(pk=kept["user"], is_active=True).first()
    if user is None or not secrets.compare_digest(user.get_session_auth_hash(), kept["proof"]):
        return None
    return Pending(user, kept["by"], kept["after"])


def finish(request: HttpRequest, user: User, *, by: str, after: str) -> HttpResponse:
    """Sign in for good: a new session, the sign-in on record, and on to where one wanted to go."""
    admit(request, user, by=by)
    response = redirect(safe_address(request, after))
    if user.language and check_for_language(user.language):
        set_language_cookie(response, user.language)
    return response


def admit(request: HttpRequest, user: User, *, by: str) -> None:
    """Make the session that person's, under a new key, with what was proven noted in it."""
    for name in (PENDING, CHALLENGE):
        request.session.pop(name, None)
    request.session[MEANS] = by
    request.session[ADDRESS] = request.META.get("REMOTE_ADDR", "")
    request.session[BROWSER] = browser_words(request.headers.get("User-Agent", ""))
    request.session[SIGNED_IN_AT] = time.time()
    login(request, user, backend=BACKEND)
    record_success(user=user, by=by, origin=origin_of(request))


def new_challenge(request: HttpRequest, purpose: str) -> bytes:
    """A challenge for a passkey, good once, for one purpose and five minutes."""
    challenge = secrets.token_bytes(32)
    request.session[CHALLENGE] = {
        "value": base64.b64encode(challenge).decode(),
        "for": purpose,
        "at": time.time(),
    }
    return challenge


def take_challenge(request: HttpRequest, purpose: str) -> bytes:
    """The challenge that was given out, which is spent by this. Raises Conflict without one."""
    kept = request.session.pop(CHALLENGE, None)
    if (
        not isinstance(kept, dict)
        or kept["for"] != purpose
        or not 0 <= time.time() - kept["at"] <= CHALLENGE_SECONDS
    ):
        raise Conflict(
            "The question to your passkey was answered already, or too long ago.",
            code="challenge_gone",
            hint="Reload the page and try again.",
        )
    return base64.b64decode(kept["value"])


def wanted_address(request: HttpRequest) -> str:
    """Where the person wanted to go before they were asked to sign in; inside this site."""
    return safe_address(request, request.POST.get("next", request.GET.get("next", "")))


def safe_address(request: HttpRequest, wanted: str) -> str:
    """`wanted` when it is an address of this site, else the home page."""
    safe = url_has_allowed_host_and_scheme(
        wanted, allowed_hosts={request.get_host()}, require_https=request.is_secure()
    )
    return wanted if safe else resolve_url(settings.LOGIN_REDIRECT_URL)


def set_language_cookie(response: HttpResponse, language: str) -> None:
    """Django's own language cookie."""
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
