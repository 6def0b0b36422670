"""Rollouts: the list, and the page of one with its stages, analysis and events."""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_safe

from console.actors import allowed
from console.api.authentication import actor_of, user_of
from console.selectors.paging import page_of
from console.templatetags.console_formats import machine_time, percentage
from console.templatetags.console_phrases import phrase
from deployments.models import RolloutState
from deployments.rules.rollouts.progress import Cause
from deployments.rules.rollouts.stages import Stage, StageState
from deployments.rules.rollouts.types import DAYS
from deployments.selectors.rollouts.pages import (
    MetricView,
    RolloutPage,
    rollout_list,
    rollout_page,
    rollout_row,
)
from deployments.selectors.traffic.endpoints import percent_of
from deployments.views import rollout_words as words
from deployments.views.rollbacks import rollback_alone
from deployments.views.rollout_acts import acts_of
from models_registry.models import Environment

CHARTS = (
    ("requests", gettext_lazy("Requests"), "/s"),
    ("errors", gettext_lazy("Errors"), "%"),
    ("latency_p99", gettext_lazy("Latency P99"), "ms"),
)
SPANS = ("15m", "all")
DAY_NAMES = {
    "monday": gettext_lazy("Monday"),
    "tuesday": gettext_lazy("Tuesday"),
    "wednesday": gettext_lazy("Wednesday"),
    "thursday": gettext_lazy("Thursday"),
    "friday": gettext_lazy("Friday"),
    "saturday": gettext_lazy("Saturday"),
    "sunday": gettext_lazy("Sunday"),
}
FILTERS = (
    ("", gettext_lazy("Any state")),
    ("active", gettext_lazy("Under way")),
    ("ended", gettext_lazy("Ended")),
    *RolloutState.choices,
)
LIVE_SPAN = timedelta(minutes=15)
# A look that is so late says that nothing moves rollouts along.
OVERDUE = timedelta(seconds=30)
# Stages before and after the present one that are shown at once.
NEAR = 3


@require_safe
def index(request: HttpRequest) -> HttpResponse:
    """All rollouts, newest first; the table alone when htmx asks."""
    wanted = {
        "state": request.GET.get("state", ""),
        "environment": request.GET.get("environment", ""),
        "query": request.GET.get("q", "").strip()[:100],
    }
    page = page_of(
        rollout_list(user=user_of(request), **wanted), cursor=request.GET.get("cursor", "")
    )
    context = {
        "rows": [rollout_row(one) for one in page.rows],
        "wanted": wanted,
        "is_filtered": any(wanted.values()),
        "filters": FILTERS,
        "environments": Environment.objects.order_by("name")[:50],
        "here": request.get_full_path(),
        "overdue_before": timezone.now() - OVERDUE,
        **page.links(request.GET),
    }
    fragment = bool(request.headers.get("HX-Request"))
    template = "deployments/rollouts/_list.html" if fragment else "deployments/rollouts/list.html"
    return render(request, template, context)


@require_safe
def detail(request: HttpRequest, rollout_id: uuid.UUID) -> HttpResponse:
    """One rollout; the changing part alone when htmx asks."""
    now = timezone.now()
    page = rollout_page(rollout_id, user=user_of(request), now=now)
    span = request.GET.get("span", "")
    span = span if span in SPANS else ("15m" if page.rollout.ended_at is None else "all")
    context = {
        **_context(request, page),
        "span": span,
        "charts": _charts(page, span),
        "nav_section": "rollouts",
        "current_environment": {
            "name": page.environment,
            "is_production": page.environment == "production",
        },
    }
    fragment = bool(request.headers.get("HX-Request"))
    if not fragment and page.rollout.ended_at is None:
        context |= rollback_alone(request, page.rollout.endpoint)
    template = "_rollout.html" if fragment else "detail.html"
    return render(request, f"deployments/rollouts/{template}", context)


def _context(request: HttpRequest, page: RolloutPage) -> dict[str, Any]:
    rollout = page.rollout
    may = allowed(actor_of(request), "rollout.control", rollout.endpoint.model.team_id)
    is_active = rollout.ended_at is None
    return {
        "page": page,
        "rollout": rollout,
        "a": rollout.baseline,
        "b": rollout.version,
        "topic": f"rollout:{rollout.endpoint}",
        "is_active": is_active,
        "situation": words.situation(page),
        "state_line": words.state_line(rollout.state),
        "weights": percent_of(rollout.endpoint.current),
        "stages": [stage_row(one) for one in page.stages],
        "groups": _groups(page),
        "is_long": _is_long(page),
        "metrics": [_metric(one, number) for number, one in enumerate(page.metrics)],
        "culprit": _culprit(page),
        "fast": words.fast_words(page.plan.fast),
        "times": [
            {
                "days": ", ".join(str(DAY_NAMES[DAYS[day]]) for day in sorted(window.days)),
                "from": _clock(window.start),
                "to": _clock(window.start + window.length),
                "zone": window.time_zone,
            }
            for window in page.plan.windows
        ],
        "events": [_event(one, page) for one in page.events],
        "acts": acts_of(page) if may and is_active else [],
        "may_control": may,
        "lasted": (
            (rollout.ended_at - rollout.created_at).total_seconds() if rollout.ended_at else None
        ),
        "compare_url": reverse("deployments:endpoint-compare", args=[page.environment, page.model])
        + f"?a={rollout.baseline}&b={rollout.version}",
    }


def stage_row(stage: Stage) -> dict[str, Any]:
    """A stage for the stepper: what is waited for in words, and its column in the drawing."""
    waits = []
    if stage.wait_s:
        waits.append(words.time_text(stage.wait_s))
    if stage.metrics:
        names = ", ".join(words.metric_name(one) for one in stage.metrics)
        waits.append(_("analysis of %(names)s") % {"names": names})
    if stage.needs_approval:
        waits.append(_("until approved"))
    return {
        "stage": stage,
        "share": percentage(stage.percent),
        "waits": " · ".join(waits),
        "height": f"{max(stage.percent, 1.5):.2f}",
        "top": f"{100 - max(stage.percent, 1.5):.2f}",
        "is_current": stage.state is StageState.CURRENT,
    }


def _groups(page: RolloutPage) -> dict[str, list[dict[str, Any]]]:
    """Stages far behind and far ahead are folded: a plan may have a hundred."""
    shown = [stage_row(one) for one in page.stages]
    stage = page.stage
    at = stage.number - 1 if stage else 0
    if page.rollout.state == RolloutState.PROMOTED:
        at = len(shown) - 1
    first, last = max(0, at - 1), min(len(shown), at + 1 + NEAR)
    if len(shown) <= NEAR + 3:
        first, last = 0, len(shown)
    return {"before": shown[:first], "near": shown[first:last], "after": shown[last:]}


def _is_long(page: RolloutPage) -> bool:
    """Whether times of day alone would not say which day is meant."""
    times = [one.planned_at or one.began_at or one.expected_at for one in page.stages]
    known = [time for time in times if time is not None]
    return bool(known) and known[-1] - page.rollout.created_at > timedelta(hours=20)


def _metric(view: MetricView, number: int) -> dict[str, Any]:
    metric, latest = view.metric, view.latest
    return {
        "view": view,
        "id": f"{'all' if view.step is None else view.step}-{number}",
        "name": words.metric_name(metric),
        "how": words.metric_how(metric),
        "value": words.value_text(metric, latest.value if latest else None),
        "baseline": words.value_text(metric, latest.baseline_value if latest else None),
        "limit": words.limit_text(metric, latest.baseline_value if latest else None),
        "latest": latest,
        "phase": latest.phase if latest else "running",
        "ended": view.state.phase if view.state and view.state.phase != "running" else "",
        "counts": view.state,
        "next_at": view.state.next_at if view.state else None,
        "rows": [
            {
                "found": one,
                "value": words.value_text(metric, one.value),
                "baseline": words.value_text(metric, one.baseline_value),
                "limit": words.limit_text(metric, one.baseline_value),
            }
            for one in reversed(view.measurements)
        ],
    }


def _culprit(page: RolloutPage) -> dict[str, Any] | None:
    """The measurement that ended or paused the rollout, in words."""
    phases = {
        Cause.ANALYSIS_FAILED: "failed",
        Cause.ANALYSIS_ERROR: "error",
        Cause.INCONCLUSIVE: "inconclusive",
    }
    wanted = phases.get(page.rollout.cause)  # type: ignore[call-overload]
    if wanted is None:
        return None
    guilty = [
        (one, view.metric)
        for view in page.metrics
        for one in view.measurements
        if one.phase == wanted and not one.dry_run
    ]
    if not guilty:
        return None
    found, metric = max(guilty, key=lambda pair: pair[0].at)
    return {"found": found, "sentence": words.verdict_sentence(metric, found)}


def _event(event: Any, page: RolloutPage) -> dict[str, Any]:
    title, icon, tone = words.event_words(event, page.plan)
    revision = (
        _("split revision %(revision)s") % {"revision": event.split.revision} if event.split else ""
    )
    detail = " · ".join(part for part in (phrase(event.message), revision) if part)
    return {
        "at": event.at,
        "title": title,
        "detail": detail,
        "actor": event.actor,
        "icon": icon,
        "tone": tone,
    }


def _charts(page: RolloutPage, span: str) -> list[dict[str, Any]]:
    """Both versions over the last minutes, or over the whole rollout and a little around it."""
    rollout, now = page.rollout, timezone.now()
    asked = {"versions": f"{rollout.baseline},{rollout.version}"}
    live = rollout.ended_at is None
    if span == "15m":
        asked["window"] = "15m"
    else:
        around = max(timedelta(minutes=2), ((rollout.ended_at or now) - rollout.created_at) * 0.1)
        asked["from"] = machine_time(rollout.created_at - around)
        if rollout.ended_at is not None:
            asked["to"] = machine_time(min(rollout.ended_at + around, now))
    here = {"environment": page.environment, "model": page.model}
    return [
        {
            "id": f"rollout-{name.replace('_', '-')}",
            "url": reverse("api:endpoint-chart", kwargs={**here, "name": name})
            + "?"
            + urlencode(asked),
            "title": title,
            "unit": unit,
            "live": (2 if span == "15m" else 15) if live else 0,
        }
        for name, title, unit in CHARTS
    ]


def _clock(at: timedelta) -> str:
    minutes = int(at.total_seconds() // 60) % 1440
    return f"{minutes // 60:02d}:{minutes % 60:02d}"
