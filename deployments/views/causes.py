"""The root-cause board: business, gateway, Triton and machine on one axis of time."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.views.decorators.http import require_safe

from console.api.authentication import user_of
from console.templatetags.console_formats import machine_time
from deployments.documents import cause_words
from deployments.documents.occurrence_words import said
from deployments.rules.causes.quantities import KINDS, Layer
from deployments.selectors.causes.board import WINDOWS, Board, board


@require_safe
def detail(request: HttpRequest, environment: str, model: str) -> HttpResponse:
    """What moved first, and what happened just before; around a moment when `at` is given."""
    window = request.GET.get("window", "")
    window = window if window in WINDOWS else "15m"
    at = request.GET.get("at", "")
    try:
        moment = parse_datetime(at) if at else None
    except ValueError:
        moment = None
    now = timezone.now()
    if moment is not None and (timezone.is_naive(moment) or moment > now):
        moment = None
    found = board(environment, model, user=user_of(request), now=now, window=window, around=moment)
    context: dict[str, Any] = {
        "nav_section": "endpoints",
        "environment": environment,
        "model": model,
        "window": window,
        "windows": list(WINDOWS),
        "moment": moment,
        "board": found,
        "sentences": cause_words.sentences(found),
        "meanings": cause_words.meanings(found),
        "movers": cause_words.movers(found),
        "steady": cause_words.steady(found),
        "happened": [said(one) for one in reversed(found.happened)][:30],
        "lanes": _lanes(found),
    }
    return render(request, "deployments/causes/detail.html", context)


def _lanes(found: Board) -> list[dict[str, Any]]:
    """The charts of each layer that has any signal, from the business down."""
    address = reverse(
        "api:endpoint-causes-chart",
        kwargs={
            "environment": found.endpoint.environment.name,
            "model": found.endpoint.model.name,
            "kind": "KIND",
        },
    )
    asked = urlencode({"from": machine_time(found.start), "to": machine_time(found.end)})
    present = {one.kind.code for one in found.signals}
    lanes = []
    for layer in Layer:
        charts = [
            {
                "id": kind.code.replace("_", "-"),
                "url": f"{address.replace('KIND', kind.code)}?{asked}",
                "title": cause_words.NAMES[kind.code],
                "unit": kind.unit.removeprefix("1"),
            }
            for kind in KINDS.values()
            if kind.layer is layer and kind.code in present
        ]
        if charts:
            lanes.append({"title": cause_words.LAYERS[layer], "charts": charts})
    return lanes
