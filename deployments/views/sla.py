"""Whether the promise is kept, for the business owner."""

from __future__ import annotations

from datetime import date, timedelta

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.utils.translation import gettext
from django.views.decorators.http import require_safe

from console.api.authentication import user_of
from deployments.selectors.incidents.pages import incidents_between
from deployments.selectors.objectives.sla import sla
from deployments.selectors.objectives.sla_portfolio import sla_list
from deployments.selectors.traffic.endpoints import find_endpoint
from models_registry.rules import contract_document, contract_terms


@require_safe
def index(request: HttpRequest) -> HttpResponse:
    """One row per promise."""
    return render(
        request,
        "deployments/sla/list.html",
        {"rows": sla_list(timezone.now(), user=user_of(request))},
    )


@require_safe
def detail(request: HttpRequest, environment: str, model: str) -> HttpResponse:
    """One promise over a month."""
    now = timezone.now()
    endpoint = find_endpoint(environment, model, user=user_of(request))
    page = sla(endpoint, request.GET.get("month", ""), now)
    first = date.fromisoformat(f"{page.month}-01")
    following = (first + timedelta(days=32)).replace(day=1)
    terms = []
    if page.contract:
        document = contract_document.from_json(page.contract.document)
        terms = [contract_terms.render(term, gettext) for term in contract_terms.terms(document)]
    context = {
        "page": page,
        "first": first,
        "blanks": range(first.weekday()),
        "previous": f"{first - timedelta(days=1):%Y-%m}",
        "next": f"{following:%Y-%m}" if following <= now.date() else "",
        "terms": terms,
        "incidents": incidents_between(endpoint, page.start, page.end),
    }
    return render(request, "deployments/sla/detail.html", context)
