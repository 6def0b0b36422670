"""GPUs whose memory only grows: how fast, since when, and when it is full."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from console.api.authentication import user_of
from deployments.models import Node
from deployments.selectors.fleet.memory_growth import LOOKED_BACK, Leak, leaks

CHART = "gpu-memory"
MOST_CHARTS = 12


@require_safe
def index(request: HttpRequest) -> HttpResponse:
    """All leaks, the one that is full first in front, each with its chart."""
    found = leaks(timezone.now(), user=user_of(request))
    context = {
        "leaks": [
            (one, _chart(one) if number < MOST_CHARTS else None) for number, one in enumerate(found)
        ],
        "hours": int(LOOKED_BACK.total_seconds() // 3600),
        "has_gpus": Node.objects.exclude(gpus=[]).exists()
        or Node.objects.exclude(dcgm_address="").exists(),
    }
    return render(request, "deployments/memory_growth/list.html", context)


def _chart(leak: Leak) -> dict[str, Any]:
    here = {"node": leak.node, "name": CHART}
    return {
        "id": f"memory-{leak.series}",
        "url": f"{reverse('api:node-chart', kwargs=here)}?window=6h",
        "title": _("GPU memory of %(node)s") % {"node": leak.node},
    }
