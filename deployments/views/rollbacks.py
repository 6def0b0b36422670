"""The acts of the worst minute: one key back to the last good version, and the modes by hand.

They are offered on the pages of an endpoint, an incident and a rollout alike, and lead back there.
"""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from django.views.decorators.http import require_POST

from console.actors import allowed
from console.api.authentication import actor_of
from console.errors import CovenantError, NotAcknowledged
from deployments.models import Endpoint, EndpointMode, TrafficSplit
from deployments.rules.gateways.capabilities import Capability
from deployments.selectors.fleet.readiness import ready_versions
from deployments.selectors.gateways.words import lacking_words
from deployments.selectors.incidents.rollback_choice import rollback_offer
from deployments.selectors.traffic.acknowledgements import gateway_words
from deployments.selectors.traffic.endpoint_types import EndpointPage
from deployments.services.incidents.rollbacks import roll_back
from deployments.services.traffic.splits import set_mode, wait_acknowledged

MODE_WORDS = {
    EndpointMode.NORMAL: (
        gettext_lazy("Back to normal"),
        gettext_lazy("Callers get the versions again, by the split as it stands."),
    ),
    EndpointMode.FALLBACK: (
        gettext_lazy("Answer with the fallback"),
        gettext_lazy("Every caller gets the contract’s fallback response from the gateway."),
    ),
    EndpointMode.OPEN: (
        gettext_lazy("Open the circuit"),
        gettext_lazy("Every caller gets a clear 503 with Retry-After; nothing reaches a model."),
    ),
}
WAIT_S = 3.0
"""How long a click waits for the gateways; what takes longer is told as under way."""


MODE_NEEDS = {
    EndpointMode.FALLBACK: Capability.FALLBACK_FIXED,
    EndpointMode.OPEN: Capability.OPEN_CIRCUIT,
}
"""What gateways have to be able to do for an endpoint to be in a mode."""


@require_POST
def rollback(request: HttpRequest, environment: str, model: str) -> HttpResponse:
    """Move all traffic to the last good version (or the one named), now."""
    to = request.POST.get("to", "")
    try:
        split = roll_back(
            environment=environment,
            model=model,
            reason=request.POST.get("reason", "").strip(),
            to=int(to) if to.isdecimal() and len(to) < 10 else None,
            actor=actor_of(request),
        )
    except CovenantError as error:
        messages.error(request, f"{error.message} {error.hint}".strip())
    else:
        _tell(request, split, to)
    return _back(request, environment, model)


@require_POST
def mode(request: HttpRequest, environment: str, model: str) -> HttpResponse:
    """Switch to normal, fallback or open."""
    try:
        split = set_mode(
            environment=environment,
            model=model,
            mode=request.POST.get("mode", ""),
            reason=request.POST.get("reason", "").strip(),
            actor=actor_of(request),
        )
    except CovenantError as error:
        messages.error(request, f"{error.message} {error.hint}".strip())
    else:
        _tell(request, split, "")
    return _back(request, environment, model)


def act_context(request: HttpRequest, page: EndpointPage) -> dict[str, Any]:
    """What the rollback button, the modes and their dialogs are drawn from."""
    actor, team = actor_of(request), page.endpoint.model.team_id
    here = request.path
    lacks = lacking_words(page.environment, MODE_NEEDS.values())
    missing = {str(mode): lacks.get(need.value, "") for mode, need in MODE_NEEDS.items()}
    return {
        "may_roll_back": allowed(actor, "endpoint.rollback", team),
        "may_change_mode": allowed(actor, "endpoint.mode", team),
        "mode": page.split.mode if page.split else EndpointMode.NORMAL,
        "modes": [
            {
                "mode": choice.mode,
                "label": EndpointMode(choice.mode).label,
                "allowed": choice.allowed and not missing.get(choice.mode),
                "why_not": choice.why_not or missing.get(choice.mode, ""),
                "title": MODE_WORDS[EndpointMode(choice.mode)][0],
                "what": MODE_WORDS[EndpointMode(choice.mode)][1],
                "dialog": f"mode-{choice.mode}",
                "fields": [("mode", choice.mode), ("next", here)],
                "tone": "" if choice.mode == EndpointMode.NORMAL else "bad",
            }
            for choice in page.modes
        ],
        # The target that the person saw, so that a change meanwhile cannot redirect the click.
        "rollback_fields": [("to", page.rollback_target or ""), ("next", here)],
    }


def rollback_alone(request: HttpRequest, endpoint: Endpoint) -> dict[str, Any]:
    """The rollback button for a page that is not the endpoint's own; four queries at most."""
    if not allowed(actor_of(request), "endpoint.rollback", endpoint.model.team_id):
        return {"may_roll_back": False}
    choice = rollback_offer(endpoint, ready_versions(endpoint))
    return {
        "may_roll_back": True,
        "rollback_page": {
            "environment": endpoint.environment.name,
            "model": endpoint.model.name,
            "rollback_target": choice.target,
            "rollback_gone": choice.gone,
        },
        "rollback_fields": [("to", choice.target or ""), ("next", request.path)],
    }


def _tell(request: HttpRequest, split: TrafficSplit, to: str) -> None:
    """The result in milliseconds to effect: from the click's split to the last gateway's word."""
    somebody_listens = any(word.connected for word in gateway_words(split))
    try:
        words = wait_acknowledged(split, WAIT_S if somebody_listens else 0.0)
    except NotAcknowledged as error:
        messages.warning(request, f"{error.message} {error.hint}")
        return
    except CovenantError as error:
        messages.error(request, f"{error.message} {error.hint}".strip())
        return
    took = [word.took_ms for word in words if word.took_ms is not None and word.connected]
    facts = {
        "ms": f"{max(took, default=0.0):.0f}",
        "n": len(took),
        "what": _in_effect(split, to),
    }
    messages.success(
        request,
        ngettext(
            "%(what)s In effect on %(n)d gateway after %(ms)s ms.",
            "%(what)s In effect on all %(n)d gateways after %(ms)s ms.",
            len(took),
        )
        % facts,
    )


def _in_effect(split: TrafficSplit, to: str) -> str:
    if split.mode == EndpointMode.NORMAL:
        leading = ", ".join(f"v{version}" for version, points in split.weights.items() if points)
        return _("Callers get %(versions)s.") % {"versions": leading}
    meanwhile = (
        _("The contract’s fallback answers.")
        if split.mode == EndpointMode.FALLBACK
        else _("The circuit is open: callers get a clear 503.")
    )
    if not to:
        return meanwhile
    later = _("v%(version)s is being deployed again and gets the traffic by itself.")
    return f"{meanwhile} {later % {'version': to}}"


def _back(request: HttpRequest, environment: str, model: str) -> HttpResponse:
    """To the page that the act was asked from, as long as it is one of this site."""
    here = request.POST.get("next", "")
    if here.startswith("/") and url_has_allowed_host_and_scheme(here, allowed_hosts=None):
        return redirect(here)
    return redirect("deployments:endpoint-detail", environment, model)
