"""Two versions of an endpoint side by side."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_safe

from console.api.authentication import user_of
from console.errors import Invalid, NotFound
from console.templatetags.console_formats import latency, percentage, whole_number
from deployments.rules.experiments.version_comparisons import (
    QUANTILES,
    Estimate,
    Figures,
    needed_for,
)
from deployments.rules.statistics.answers import by_class
from deployments.selectors.experiments.comparison_words import sentences, small
from deployments.selectors.experiments.version_comparisons import (
    Pair,
    VersionComparison,
    compare_versions,
    version_named,
)

WINDOWS = ("15m", "1h", "6h", "24h", "7d")
# Counters of the gateways → words and whose fault it is, in this order.
MEANINGS = (
    ("2xx", gettext_lazy("Answered"), ""),
    ("4xx", gettext_lazy("Refused: the request was wrong"), "caller"),
    ("5xx", gettext_lazy("Failed"), "provider"),
    ("rescued", gettext_lazy("Failed at first, answered by another attempt"), "provider"),
    ("timeout", gettext_lazy("No answer in time"), "provider"),
    ("no_node", gettext_lazy("No node was there to answer"), "provider"),
    ("caller_left", gettext_lazy("The caller left before there was an answer"), "caller"),
    ("unblamed", gettext_lazy("Counts against nobody by the contract"), ""),
)
FAULTS = {
    "nan": gettext_lazy("not a number"),
    "infinite": gettext_lazy("infinite"),
    "range": gettext_lazy("out of range"),
    "shape": gettext_lazy("wrong shape"),
    "datatype": gettext_lazy("wrong type"),
    "missing": gettext_lazy("missing"),
    "error": gettext_lazy("an error"),
    "late": gettext_lazy("too late"),
}
CHARTS = (
    ("requests", gettext_lazy("Requests"), "/s"),
    ("errors", gettext_lazy("Errors"), "%"),
    ("latency_p99", gettext_lazy("Latency P99"), "ms"),
    ("queue_compute", gettext_lazy("Queue and compute"), "ms"),
)


@require_safe
def compare(request: HttpRequest, environment: str, model: str) -> HttpResponse:
    """Two versions by latency, errors, work and answers; the figures alone when htmx asks."""
    window = request.GET.get("window", "")
    window = window if window in WINDOWS else WINDOWS[0]
    wrong: Invalid | NotFound | None = None
    try:
        found = compare_versions(
            environment,
            model,
            a=version_named(request.GET.get("a", ""), "a"),
            b=version_named(request.GET.get("b", ""), "b"),
            window=window,
            now=timezone.now(),
            user=user_of(request),
        )
    except Invalid as error:
        wrong = error
        found = compare_versions(
            environment,
            model,
            a=None,
            b=None,
            window=window,
            now=timezone.now(),
            user=user_of(request),
        )
    context: dict[str, Any] = {
        "nav_section": "endpoints",
        "environment": environment,
        "model": model,
        "window": window,
        "wrong": wrong,
        "current_environment": {
            "name": environment,
            "is_production": environment == "production",
        },
    }
    if isinstance(found, Pair):
        context |= {"pair": found}
    else:
        context |= _context(found, window)
    fragment = bool(request.headers.get("HX-Request")) and not isinstance(found, Pair)
    template = "_comparison.html" if fragment else "detail.html"
    return render(
        request,
        f"deployments/version_comparisons/{template}",
        context,
        status=422 if wrong and not fragment else 200,
    )


def _context(found: VersionComparison, window: str) -> dict[str, Any]:
    here = {
        "environment": found.endpoint.environment.name,
        "model": found.endpoint.model.name,
    }
    a, b = found.first.version, found.second.version
    asked = {"a": a, "b": b, "window": window}
    page = reverse("deployments:endpoint-compare", kwargs=here)
    return {
        "found": found,
        "a": a,
        "b": b,
        "here": f"{page}?{urlencode(asked)}",
        "swap_url": f"{page}?{urlencode({**asked, 'a': b, 'b': a})}",
        "windows": [(one, f"{page}?{urlencode({**asked, 'window': one})}") for one in WINDOWS],
        "sentences": sentences(found),
        "silent": [one.version for one in (found.first, found.second) if not one.requests],
        "rows": _rows(found.first, found.second),
        "needed": needed_for(QUANTILES[-1][1]),
        "meanings": _meanings(found.first, found.second),
        "outputs": _outputs(found),
        "data_url": f"{reverse('api:endpoint-compare', kwargs=here)}?{urlencode(asked)}",
        "charts": [
            {
                "id": f"over-time-{name.replace('_', '-')}",
                "url": f"{reverse('api:endpoint-chart', kwargs={**here, 'name': name})}?"
                + urlencode({"window": window, "versions": f"{a},{b}"}),
                "title": title,
                "unit": unit,
                "live": 5 if window == "15m" else 60,
            }
            for name, title, unit in CHARTS
        ],
    }


def _rows(first: Figures, second: Figures) -> list[dict[str, Any]]:
    """The figures as a table: name, both values with their ranges, and the difference."""
    rows: list[dict[str, Any]] = [
        {"label": _("Requests"), "count": True, "a": first.requests, "b": second.requests}
    ]
    for name, _q in QUANTILES:
        a, b = first.quantiles[name], second.quantiles[name]
        rows.append(
            {
                "label": name.upper(),
                "a": latency(a.value),
                "b": latency(b.value),
                "a_range": _range(a),
                "b_range": _range(b),
                "difference": _signed(a.value, b.value, latency),
            }
        )
    for label, name in (
        (_("Failed by the provider’s fault"), "provider_share"),
        (_("Refused by the caller’s fault"), "caller_share"),
    ):
        a_share, b_share = (_hundredfold(getattr(one, name)) for one in (first, second))
        rows.append(
            {
                "label": label,
                "a": percentage(a_share, 3),
                "b": percentage(b_share, 3),
                "difference": _signed(a_share, b_share, lambda value: percentage(value, 3)),
            }
        )
    for label, name in ((_("Queue, mean"), "queue_ms"), (_("Compute, mean"), "compute_ms")):
        a_ms, b_ms = getattr(first, name), getattr(second, name)
        rows.append(
            {
                "label": label,
                "a": latency(a_ms),
                "b": latency(b_ms),
                "difference": _signed(a_ms, b_ms, latency),
            }
        )
    return rows


def _meanings(first: Figures, second: Figures) -> list[dict[str, Any]]:
    """How requests ended, by meaning; time-outs and missing nodes are among those that failed."""
    known = {name for name, _label, _side in MEANINGS}
    ended, other = by_class(first.statuses), by_class(second.statuses)
    others = sorted(({*ended} | {*other}) - known)
    rows = [*MEANINGS, *((name, name, "") for name in others)]
    return [
        {
            "label": label,
            "side": side,
            "part": name in ("timeout", "no_node"),
            "a": ended.get(name, 0),
            "b": other.get(name, 0),
            "a_share": _share(ended.get(name, 0), first.requests),
            "b_share": _share(other.get(name, 0), second.requests),
        }
        for name, label, side in rows
    ]


def _outputs(found: VersionComparison) -> list[dict[str, Any]]:
    """Each output's figures, with what broke the contract in words."""
    if found.answers is None:
        return []
    return [
        {
            "name": name,
            "figures": one,
            "id": str(index),
            "values_path": f"answers.outputs.{index}.values",
            "differences_path": f"answers.outputs.{index}.differences",
            "differing_share": one.differing_rows / one.rows if one.rows else None,
            "most": small(one.max_difference),
            "a_faults": _faults(one.baseline_faults),
            "b_faults": _faults(one.candidate_faults),
            "numeric": bool(one.baseline_values or one.candidate_values),
        }
        for index, (name, one) in enumerate(sorted(found.answers.outputs.items()))
    ]


def _faults(counts: Mapping[str, int]) -> str:
    return ", ".join(
        f"{whole_number(count)} × {FAULTS.get(kind, kind)}" for kind, count in counts.items()
    )


def _share(count: int, requests: int) -> float | None:
    return count / requests if requests else None


def _range(estimate: Estimate) -> str:
    return "–".join(latency(end) for end in estimate.range) if estimate.range else ""


def _signed(a: float | None, b: float | None, words: Any) -> str:
    """`+12 ms`; empty where one is not known."""
    if a is None or b is None:
        return ""
    sign = "+" if b > a else "−" if b < a else "±"
    return f"{sign}{words(abs(b - a))}"


def _hundredfold(share: float | None) -> float | None:
    return None if share is None else share * 100
