"""Whether the promises are kept, for the business owner: all of them, one, and what leaves."""

from __future__ import annotations

from datetime import date, datetime
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from console.actors import allowed
from console.api.authentication import actor_of, user_of
from console.rules.canonical import digest
from console.selectors.paging import page_of
from deployments.documents.sla_reports import portfolio_pdf, promise_pdf
from deployments.documents.sla_words import promise_context
from deployments.models import SlaSubscription
from deployments.rules.objectives.sla_months import month_after, month_before, month_of
from deployments.selectors.objectives.sla import sla
from deployments.selectors.objectives.sla_portfolio import (
    PortfolioFilter,
    promised,
    rows_of,
    state_counts,
    teams_of,
)
from deployments.selectors.traffic.endpoints import find_endpoint
from deployments.sla_forms import PortfolioForm
from models_registry.api.content import exact_bytes
from models_registry.models import Environment


@require_safe
def index(request: HttpRequest) -> HttpResponse:
    """One row per promise, the worst first, by pages."""
    now, user = timezone.now(), user_of(request)
    wanted = _wanted(request)
    page = page_of(promised(wanted, user=user), cursor=request.GET.get("cursor", ""))
    counts = state_counts(wanted, user=user)
    month = month_before(month_of(now))
    kept = {"q": wanted.q, "team": wanted.team, "environment": wanted.environment}
    kept = {name: value for name, value in kept.items() if value}
    context = {
        "rows": rows_of(page.rows, now),
        "wanted": wanted,
        "teams": teams_of(user),
        "environments": Environment.objects.order_by("name")[:50],
        "states": [
            {"state": state, "count": count, "query": urlencode({**kept, "state": state})}
            for state, count in counts.items()
        ],
        "total": counts[wanted.state] if wanted.state else sum(counts.values()),
        "any_state_query": urlencode(kept),
        "document_month": month,
        "document_query": urlencode({**kept, "month": f"{month:%Y-%m}"}),
        **page.links(request.GET),
    }
    return render(request, "deployments/sla/list.html", context)


@require_safe
def detail(request: HttpRequest, environment: str, model: str) -> HttpResponse:
    """One promise over a month."""
    now, actor = timezone.now(), actor_of(request)
    endpoint = find_endpoint(environment, model, user=user_of(request))
    page = sla(endpoint, request.GET.get("month", ""), now)
    context = {
        **promise_context(page, now),
        **months_around(page.first, now),
        "may_share": allowed(actor, "sla.share", endpoint.model.team_id),
        "subscribed": SlaSubscription.objects.filter(person=actor.user, endpoint=endpoint).exists(),
    }
    return render(request, "deployments/sla/detail.html", context)


@require_safe
def pdf(request: HttpRequest, environment: str, model: str) -> HttpResponse:
    """The month as PDF, in the reader's language or in `?lang=`."""
    endpoint = find_endpoint(environment, model, user=user_of(request))
    data, name = promise_pdf(
        endpoint,
        request.GET.get("month", ""),
        language=request.GET.get("lang", ""),
        now=timezone.now(),
    )
    return as_pdf(data, name)


@require_safe
def portfolio(request: HttpRequest) -> HttpResponse:
    """All promises over a month as PDF, in the reader's language or in `?lang=`."""
    data, name = portfolio_pdf(
        request.GET.get("month", ""),
        _wanted(request),
        user=user_of(request),
        language=request.GET.get("lang", ""),
        now=timezone.now(),
    )
    return as_pdf(data, name)


def as_pdf(data: bytes, name: str) -> HttpResponse:
    """A PDF as a download."""
    return exact_bytes(data, content_type="application/pdf", sha256=digest(data), filename=name)


def months_around(first: date, now: datetime) -> dict[str, str]:
    """The months before and after one; none after the present one."""
    following = month_after(first)
    return {
        "previous": f"{month_before(first):%Y-%m}",
        "next": f"{following:%Y-%m}" if following <= now.date() else "",
    }


def _wanted(request: HttpRequest) -> PortfolioFilter:
    form = PortfolioForm(request.GET)
    form.is_valid()
    return PortfolioFilter(
        **{name: form.cleaned_data.get(name, "") for name in ("environment", "team", "state", "q")}
    )
