"""How many models, or a model's versions, run right now: small parts for lists of other packages.

The answers are out-of-band swaps for htmx: a list asks once for all of its rows.
"""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from console.api.authentication import user_of
from deployments.selectors.traffic.endpoints import filtered, rows_of, versions_running
from models_registry.selectors.catalog import find_model

MOST_MODELS = 100


@require_safe
def models(request: HttpRequest) -> HttpResponse:
    """The endpoints of each model named (`?name=a&name=b`), by `#live-NAME`."""
    names = request.GET.getlist("name")[:MOST_MODELS]
    endpoints = list(
        filtered(user=user_of(request)).filter(model__name__in=names).order_by("environment__name")
    )
    rows: dict[str, list[object]] = {name: [] for name in names}
    for row in rows_of(endpoints, timezone.now()):
        rows[row.model].append(row)
    return render(request, "deployments/panels/model_states.html", {"models": rows.items()})


@require_safe
def versions(request: HttpRequest, name: str) -> HttpResponse:
    """Where each version of a model runs, by `#running-NUMBER`."""
    model = find_model(name, user=user_of(request))
    context = {"versions": versions_running(model).items(), "name": name}
    return render(request, "deployments/panels/version_states.html", context)
