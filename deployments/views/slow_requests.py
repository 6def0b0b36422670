"""Slow requests of an endpoint: where their time went, by the gateway's access log."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_safe

from console.api.authentication import user_of
from console.templatetags.console_formats import machine_time
from deployments.diagnosis_forms import SlowFilterForm
from deployments.documents.slow_words import ADVICE, NAMES, parts_of, sentence
from deployments.selectors.diagnosis.slow_requests import SPANS, SlowFilter, SlowPage, slow_requests
from deployments.selectors.traffic.endpoints import find_endpoint

SHOWN = 50


@require_safe
def detail(request: HttpRequest, environment: str, model: str) -> HttpResponse:
    """The percentiles of a span explained by stage, and the worst requests."""
    endpoint = find_endpoint(environment, model, user=user_of(request))
    span = request.GET.get("span", "")
    span = span if span in SPANS else "1h"
    form = SlowFilterForm(request.GET)
    form.is_valid()
    given = {name: form.cleaned_data.get(name) for name in form.fields}
    now = timezone.now()
    wanted = SlowFilter(
        start=now - SPANS[span],
        end=now,
        version=given["version"],
        status=given["status"],
        request_id=given["x_request_id"] or "",
        caller=given["caller"] or "",
    )
    page = slow_requests(endpoint, wanted, most=SHOWN)
    kept = {name: value for name, value in given.items() if value not in (None, "")}
    context = {
        "environment": environment,
        "model": model,
        "page": page,
        "span": span,
        "spans": [(name, urlencode({**kept, "span": name})) for name in SPANS],
        "wanted": given,
        "filtered": bool(kept),
        "csv_url": _csv_url(page, kept),
        **_told(page),
    }
    return render(request, "deployments/slow_requests/detail.html", context)


def _told(page: SlowPage) -> dict[str, Any]:
    report = page.report
    main = report.percentiles[-1].main if report.percentiles else ""
    used = {part.name for one in report.percentiles for part in parts_of(one.stages)}
    return {
        "percentiles": [(one, sentence(one), parts_of(one.stages)) for one in report.percentiles],
        "worst": [(one, parts_of(one.stages), NAMES[one.main]) for one in report.worst],
        "advice": ADVICE.get(main, ""),
        "keys": [(name, label) for name, label in NAMES.items() if name in used],
        "truncated": any(one.truncated for one in page.logs),
        "missing": [one.gateway for one in page.logs if one.missing],
    }


def _csv_url(page: SlowPage, kept: dict[str, Any]) -> str:
    endpoint, wanted = page.endpoint, page.wanted
    here = {"environment": endpoint.environment.name, "model": endpoint.model.name}
    span = {"from": machine_time(wanted.start), "to": machine_time(wanted.end)}
    return f"{reverse('api:endpoint-slow-csv', kwargs=here)}?{urlencode({**span, **kept})}"
