"""Single sign-on by OpenID Connect: out to the provider, back as somebody, and linking accounts."""

from __future__ import annotations

import secrets
import time
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_not_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from console.adapters import oidc
from console.api.authentication import actor_of
from console.env_sign_in import OidcConfig
from console.errors import Conflict, CovenantError, Invalid, NotAllowed, TooMany
from console.models import User
from console.rules.outsiders import Outsider
from console.rules.sign_in_means import OIDC
from console.services.external_accounts import Invited, enter, link_identity
from console.services.reauthentication import confirm
from console.services.sign_ins import count_address, record_failure
from console.views.accounts import sign_in_page
from console.views.confirming import confirm_form, proof_of
from console.views.invitations import SECRET
from console.views.sign_in_steps import finish, origin_of, wanted_address

STATES, TO_LINK = "oidc_states", "oidc_to_link"
MOST_STATES = 5
STATE_SECONDS = 600

# What a provider may say instead of a code (RFC 6749, section 4.1.2.1), for people.
WORDS = {
    "access_denied": "You, or the provider, refused the sign-in.",
    "login_required": "The provider wants you to sign in there first.",
    "interaction_required": "The provider wants to ask you something first.",
    "temporarily_unavailable": "The provider is overloaded or being maintained.",
    "server_error": "The provider had a fault of its own.",
}


@login_not_required
@never_cache
@require_safe
def begin(request: HttpRequest) -> HttpResponse:
    """Off to the provider, to come back signed in."""
    if request.user.is_authenticated:
        return redirect(wanted_address(request))
    return _leave(request, after=wanted_address(request))


@never_cache
@require_safe
def link(request: HttpRequest) -> HttpResponse:
    """Off to the provider, to come back with an account to link to one's own."""
    return _leave(request, after=reverse("console:security"), linking=True)


@login_not_required
@never_cache
@require_safe
def come_back(request: HttpRequest) -> HttpResponse:
    """Back from the provider: with somebody who is signed in here, or with the reason why not."""
    config = _config()
    try:
        count_address(origin_of(request))
        begun = _take_state(request)
        outsider = _outsider(request, config, begun)
        if begun["linking"]:
            return _to_be_linked(request, outsider, begun)
        origin = origin_of(request)
        secret = str(request.session.get(SECRET, ""))
        invited = Invited(secret, origin.address, origin.source, origin.request_id)
        user = enter(
            outsider=outsider,
            sign_up=config.sign_up,
            rules=config.group_rules,
            invited=invited if secret else None,
        )
    except CovenantError as error:
        if not isinstance(error, TooMany):
            record_failure(username="unknown", by=OIDC, why=error.code, origin=origin_of(request))
        if request.user.is_authenticated:
            messages.error(request, f"{error.message} {error.hint}")
            return redirect("console:security")
        return sign_in_page(request, problem=error, status=error.status)
    request.session.pop(SECRET, None)
    return finish(request, user, by=OIDC, after=begun["after"])


@never_cache
@require_http_methods(["GET", "POST"])
def link_confirm(request: HttpRequest) -> HttpResponse:
    """Say which account is to be linked, ask again who it is, and link it."""
    kept = request.session.get(TO_LINK)
    if not isinstance(kept, dict) or time.time() - kept["at"] > STATE_SECONDS:
        return redirect("console:security")
    outsider = Outsider(source=OIDC, **kept["account"])
    actor = actor_of(request)
    form = confirm_form(request)
    status = 200
    if request.method == "POST":
        try:
            confirm(actor=actor, **proof_of(request), session=request.session)
            link_identity(outsider=outsider, actor=actor)
        except (Invalid, Conflict, TooMany) as error:
            form.add_refusal(error)
            status = 422
        else:
            del request.session[TO_LINK]
            messages.success(request, _("The account is linked: you can sign in with it."))
            return redirect("console:security")
    context: dict[str, Any] = {"form": form, "outsider": outsider, "provider": _config()}
    return render(request, "console/settings/link_account.html", context, status=status)


def _leave(request: HttpRequest, *, after: str, linking: bool = False) -> HttpResponse:
    config = _config()
    try:
        begun = oidc.begin(config, return_url=_return_url(), fresh=linking)
    except CovenantError as error:
        if linking:
            messages.error(request, f"{error.message} {error.hint}")
            return redirect("console:security")
        return sign_in_page(request, problem=error, status=error.status)
    states = request.session.get(STATES)
    kept = dict(list(states.items())[-(MOST_STATES - 1) :]) if isinstance(states, dict) else {}
    kept[begun.state] = {
        "nonce": begun.nonce,
        "verifier": begun.verifier,
        "after": after,
        "linking": linking,
        "at": time.time(),
    }
    request.session[STATES] = kept
    return redirect(begun.url)


def _take_state(request: HttpRequest) -> dict[str, Any]:
    """What was kept when this sign-in was begun in this browser; it is spent by this."""
    states = request.session.get(STATES)
    # As bytes: letters beyond ASCII are no state of ours, and are not compared as text.
    given = request.GET.get("state", "").encode("utf-8", "replace")
    known = states if isinstance(states, dict) else {}
    state = next((one for one in known if secrets.compare_digest(one.encode(), given)), "")
    begun = known.get(state)
    if begun is None or not 0 <= time.time() - begun["at"] <= STATE_SECONDS:
        raise NotAllowed(
            "This sign-in was not begun in this browser, was finished already, or took too long.",
            code="wrong_state",
            hint="Begin again on the sign-in page.",
        )
    request.session[STATES] = {key: value for key, value in known.items() if key != state}
    return dict(begun)


def _outsider(request: HttpRequest, config: OidcConfig, begun: dict[str, Any]) -> Outsider:
    if error := request.GET.get("error", ""):
        said = request.GET.get("error_description", "")[:200]
        raise NotAllowed(
            WORDS.get(error, f"The provider refused the sign-in: {error[:60]}."),
            code="provider_refused",
            hint=f"It said: {said}" if said else "Try again, or sign in another way.",
        )
    # RFC 9207: an answer that names its issuer must name ours.
    if request.GET.get("iss", config.issuer) != config.issuer:
        raise NotAllowed("The answer came from another provider.", code="bad_provider_answer")
    return oidc.finish(
        config,
        code=request.GET.get("code", ""),
        nonce=begun["nonce"],
        verifier=begun["verifier"],
        return_url=_return_url(),
    )


def _to_be_linked(request: HttpRequest, outsider: Outsider, begun: dict[str, Any]) -> HttpResponse:
    if not isinstance(request.user, User):
        return redirect("console:sign-in")
    request.session[TO_LINK] = {
        "at": time.time(),
        "account": {
            "issuer": outsider.issuer,
            "subject": outsider.subject,
            "username": outsider.username[:80],
            "display_name": outsider.display_name[:120],
            "email": outsider.email[:254],
        },
    }
    return redirect("console:identity-link-confirm")


def _return_url() -> str:
    return str(settings.CONFIG.base_url) + reverse("console:sso-return")


def _config() -> OidcConfig:
    config: OidcConfig | None = settings.CONFIG.sign_in.oidc
    if config is None:
        raise Http404("Single sign-on is not set up here.")
    return config
