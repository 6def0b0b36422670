"""What to change in the batching of an endpoint's versions, in words."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from console.api.authentication import user_of
from deployments.documents.batching_words import told
from deployments.selectors.diagnosis.batching import SPANS, batching_advice
from deployments.selectors.traffic.endpoints import find_endpoint


@require_safe
def detail(request: HttpRequest, environment: str, model: str) -> HttpResponse:
    """Each version with its settings, what it did, and what to change."""
    endpoint = find_endpoint(environment, model, user=user_of(request))
    span = request.GET.get("span", "")
    span = span if span in SPANS else "1h"
    now = timezone.now()
    found = batching_advice(endpoint, start=now - SPANS[span], end=now)
    context = {
        "environment": environment,
        "model": model,
        "span": span,
        "spans": list(SPANS),
        "versions": [(one, [told(advice) for advice in one.advice]) for one in found],
    }
    return render(request, "deployments/batching/detail.html", context)
