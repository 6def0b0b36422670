"""What each error code means and what to do: a list to search, and a page for each."""

from __future__ import annotations

import re
from typing import Final

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import get_language
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_safe

from console.errors import NotFound
from console.rules.error_help import areas, entries, matching

AREAS = {
    "alerts": _("Alerts"),
    "audit": _("Audit trail"),
    "calling": _("Calling a model"),
    "contracts-and-releases": _("Contracts and releases"),
    "deploying": _("Deploying"),
    "export": _("Export and optimisation"),
    "incidents-alerts-promises": _("Incidents, alerts and promises"),
    "keys-and-signatures": _("Keys and signatures"),
    "models-and-uploads": _("Models and uploads"),
    "people-and-permissions": _("People and permissions"),
    "platform": _("The platform"),
    "signing-in": _("Signing in"),
    "telemetry": _("Telemetry"),
    "traffic": _("Traffic and gateways"),
}
NEAR: Final = 12
"""Other codes of the area beside one; the rest is a click away."""

ENDPOINT_ALERTS: Final = frozenset(
    {
        "alert_burn_rate",
        "alert_execution_p95",
        "alert_feature_drift",
        "alert_no_data",
        "alert_output_entropy",
        "alert_queue_p95",
        "alert_requests_stopped",
        "alert_success_rate",
    }
)
"""Alerts about what callers get: their cause is found at the endpoint."""

_ENDPOINT: Final = re.compile(r"([\w-]{1,63})/([A-Za-z0-9_.-]{1,100})", re.ASCII)


@require_safe
def index(request: HttpRequest) -> HttpResponse:
    """All codes by area; those in which the words of `q` occur."""
    words = request.GET.get("q", "")[:80]
    area = request.GET.get("area", "")
    area = area if area in AREAS else ""
    found = matching(words, area)
    context = {
        "groups": [
            (AREAS[name], [entry for entry in found if entry.area == name])
            for name in areas()
            if any(entry.area == name for entry in found)
        ],
        "q": words,
        "area": area,
        "areas": list(AREAS.items()),
        "total": len(found),
        "other_language": _is_other(),
    }
    return render(request, "console/help/errors.html", context)


@require_safe
def detail(request: HttpRequest, code: str) -> HttpResponse:
    """One code: what it means, why it happens, what to do.

    `endpoint` (ENVIRONMENT/MODEL) is the one that an alert leads here from: its pages are linked.
    """
    entry = entries().get(code)
    if entry is None:
        raise NotFound(
            f"No error is called {code[:60]}.", hint="Look for it in the list of error codes."
        )
    others = [one for one in matching("", entry.area) if one.code != code]
    named = _ENDPOINT.fullmatch(request.GET.get("endpoint", ""))
    context = {
        "entry": entry,
        "area": AREAS[entry.area],
        "is_alert": entry.area == "alerts",
        "of_endpoint": code in ENDPOINT_ALERTS,
        "environment": named[1] if named else "",
        "model": named[2] if named else "",
        "near": others[:NEAR],
        "near_total": len(others),
        "other_language": _is_other(),
    }
    return render(request, "console/help/error.html", context)


def _is_other() -> bool:
    """The texts are in English alone: said to who reads another language."""
    return not (get_language() or "en").startswith("en")
