"""Home and search."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from console.api.authentication import actor_of, user_of
from deployments.selectors.overview import overview
from deployments.selectors.search import search
from deployments.views.alerts import alert_row


@require_safe
def home(request: HttpRequest) -> HttpResponse:
    """What waits for the person, then the fleet; the changing part alone when htmx asks."""
    shown = overview(actor_of(request).user, timezone.now())
    fragment = bool(request.headers.get("HX-Request"))
    template = "deployments/overview/_home.html" if fragment else "deployments/overview/home.html"
    alerts = [alert_row(one) for one in shown.alerts]
    return render(request, template, {"overview": shown, "alerts": alerts})


@require_safe
def search_everything(request: HttpRequest) -> HttpResponse:
    """Hits under the search field, or a page of them where there is no script."""
    query = request.GET.get("q", "").strip()[:100]
    context = {"query": query, "groups": search(query, user=user_of(request)) if query else []}
    fragment = bool(request.headers.get("HX-Request"))
    template = "components/search_results.html" if fragment else "deployments/overview/search.html"
    return render(request, template, context)
