"""The page for 3 a.m.: an endpoint's promise, traffic and charts, and the acts upon it."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_safe

from console.actors import allowed
from console.api.authentication import actor_of, user_of
from console.templatetags.console_phrases import phrase
from deployments.models import EndpointMode
from deployments.selectors.alerts.pages import MOST_OF_ENDPOINT, firing_of
from deployments.selectors.rollouts.pages import active_rollout, rollout_row
from deployments.selectors.traffic.endpoint_pages import endpoint_page
from deployments.selectors.traffic.endpoint_types import EndpointPage, SplitView
from deployments.selectors.traffic.endpoints import endpoint_list
from deployments.views.alerts import alert_row
from deployments.views.rollbacks import act_context
from models_registry.models import Environment

WINDOWS = ("15m", "1h", "6h", "24h", "7d", "28d")
# Chart name in the API → title, unit, kind.
CHARTS = (
    ("requests", gettext_lazy("Requests"), "/s", "area"),
    ("errors", gettext_lazy("Errors"), "%", "line"),
    ("latency_p50", gettext_lazy("Latency P50"), "ms", "line"),
    ("latency_p95", gettext_lazy("Latency P95"), "ms", "line"),
    ("latency_p99", gettext_lazy("Latency P99"), "ms", "line"),
    ("queue_compute", gettext_lazy("Queue and compute"), "ms", "line"),
    ("batch_size", gettext_lazy("Batch size"), "", "line"),
)
CAUSES = {
    "initial": (gettext_lazy("First version takes traffic"), "arrow-up"),
    "manual": (gettext_lazy("Traffic moved"), "branch"),
    "rollback": (gettext_lazy("Rolled back"), "rollback"),
    "mode": (gettext_lazy("Mode changed"), "bell"),
    "unload": (gettext_lazy("Version taken off"), "arrow-down"),
    "rollout": (gettext_lazy("Step of a rollout"), "rollouts"),
    "automatic": (gettext_lazy("Moved by itself"), "rollback"),
    "experiment": (gettext_lazy("Moved by an experiment"), "chart"),
}


@require_safe
def index(request: HttpRequest) -> HttpResponse:
    """All endpoints by health; the table alone when htmx asks."""
    environment, query = request.GET.get("environment", ""), request.GET.get("q", "").strip()
    context = {
        "rows": endpoint_list(environment=environment, query=query, user=user_of(request)),
        "environments": Environment.objects.order_by("name")[:50],
        "environment": environment,
        "query": query,
        "here": request.get_full_path(),
    }
    fragment = bool(request.headers.get("HX-Request"))
    template = "deployments/endpoints/_list.html" if fragment else "deployments/endpoints/list.html"
    return render(request, template, context)


@require_safe
def detail(request: HttpRequest, environment: str, model: str) -> HttpResponse:
    """One endpoint in full."""
    page = endpoint_page(environment, model, now=timezone.now(), user=user_of(request))
    window = request.GET.get("window", "")
    window = window if window in WINDOWS else WINDOWS[0]
    context = {
        **_context(request, page),
        "window": window,
        "windows": WINDOWS,
        "charts": [_chart(page, chart, window) for chart in CHARTS],
        "current_environment": {
            "name": environment,
            "is_production": environment == "production",
        },
    }
    return render(request, "deployments/endpoints/detail.html", context)


@require_safe
def now_panel(request: HttpRequest, environment: str, model: str) -> HttpResponse:
    """The live part: promise strip and numbers of each version."""
    page = endpoint_page(environment, model, now=timezone.now(), user=user_of(request))
    return render(request, "deployments/endpoints/_now.html", _context(request, page))


def _context(request: HttpRequest, page: EndpointPage) -> dict[str, Any]:
    actor = actor_of(request)
    team = page.endpoint.model.team_id
    may_move = allowed(actor, "split.change", team)
    here = {"environment": page.environment, "model": page.model}
    firing = firing_of([page.endpoint]).get(page.endpoint.pk, [])
    return {
        "page": page,
        "alerts": [alert_row(one) for one in firing[:MOST_OF_ENDPOINT]],
        "more_alerts": max(len(firing) - MOST_OF_ENDPOINT, 0),
        "topic": f"endpoint:{page.environment}/{page.model}",
        **act_context(request, page),
        "split": _slider(page, here, may_move=may_move),
        "rollout": rollout_row(active) if (active := active_rollout(page.endpoint)) else None,
        "may_start_rollout": allowed(actor, "rollout.start", team)
        and sum(line.ready for line in page.versions) > 1,
        "events": [_event(split) for split in page.history],
        "calls": _calls(page),
    }


def _slider(page: EndpointPage, here: dict[str, str], *, may_move: bool) -> dict[str, Any] | None:
    if page.split is None:
        return None
    split = page.split
    return {
        "url": reverse("api:endpoint-split", kwargs=here),
        "revision": split.revision,
        "topic": f"endpoint:{page.environment}/{page.model}",
        "can_change": may_move,
        "why_not": "" if may_move else _("Moving traffic takes the role SRE or platform admin."),
        "requests_per_second": page.live.requests_per_second if page.live else None,
        "keep": {
            "sticky_header": split.sticky_header,
            "header_rules": split.header_rules,
            "testers": split.testers,
            **({"mirror": split.mirror} if split.mirror else {}),
        },
        "versions": [
            {
                "number": line.number,
                "percent": line.percent,
                "ready": line.ready,
                "why_not": line.why_not,
                "nodes": ", ".join(line.nodes),
            }
            for line in page.versions
        ],
    }


def _chart(page: EndpointPage, chart: tuple[str, Any, str, str], window: str) -> dict[str, Any]:
    name, title, unit, kind = chart
    here = {"environment": page.environment, "model": page.model, "name": name}
    return {
        "id": name.replace("_", "-"),
        "url": f"{reverse('api:endpoint-chart', kwargs=here)}?window={window}",
        "title": title,
        "unit": unit,
        "kind": kind,
        "live": 2 if window == "15m" else 30,
    }


def _event(split: SplitView) -> dict[str, Any]:
    title, icon = CAUSES.get(split.cause, (split.cause, "info"))
    weights = ", ".join(f"v{v} {w:g} %" for v, w in split.weights.items())
    what = weights if split.mode == EndpointMode.NORMAL else EndpointMode(split.mode).label
    return {
        "at": split.created_at,
        "title": _("%(title)s: %(what)s") % {"title": title, "what": what} if what else title,
        "detail": phrase(split.reason),
        "actor": split.author,
        "icon": icon,
        "tone": "warn" if split.cause in ("rollback", "automatic") else "",
    }


def _calls(page: EndpointPage) -> list[dict[str, str]]:
    if page.call is None:
        return []
    curl = (
        f"curl -s {page.call.url} \\\n  -H 'Content-Type: application/json' "
        f"-H 'X-User-Id: 42' \\\n  -d '{page.call.request}'"
    )
    python = (
        "import json\nimport urllib.request\n\n"
        f"request = urllib.request.Request(\n    {page.call.url!r},\n"
        f"    data=json.dumps({page.call.request}).encode(),\n"
        "    headers={'Content-Type': 'application/json', 'X-User-Id': '42'},\n)\n"
        "with urllib.request.urlopen(request, timeout=2) as answer:\n"
        "    print(answer.headers['X-Model-Version'], json.load(answer)['outputs'])"
    )
    return [{"language": "curl", "text": curl}, {"language": "Python", "text": python}]
