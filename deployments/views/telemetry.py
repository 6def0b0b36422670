"""Drift of inputs, entropy of outputs and what others send, of one endpoint's model."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods, require_POST

from console.actors import allowed
from console.api.authentication import actor_of, user_of
from console.errors import CovenantError, Stale
from console.templatetags.console_formats import age_words
from deployments.rules.telemetry import measuring
from deployments.rules.telemetry.measuring import DRIFT, ENTROPY, PSI
from deployments.selectors.telemetry.pages import (
    Reading,
    TelemetryPage,
    VersionTelemetry,
    telemetry_page,
)
from deployments.selectors.traffic.endpoints import find_endpoint
from deployments.services.telemetry.settings import set_telemetry
from deployments.telemetry_forms import ReferenceSampleForm, TelemetryForm
from deployments.views.rollout_words import time_text
from deployments.views.telemetry_words import feature_row
from models_registry.rules.contract_types import Drift
from models_registry.rules.reference_samples import MOST_BYTES
from models_registry.selectors.versions import find_version
from models_registry.services.reference_samples import record_reference_sample

WINDOWS = ("1h", "6h", "24h", "7d", "28d")
SHOWN_FEATURES = 12
CHARTS = (
    (DRIFT, gettext_lazy("Greatest drift of a feature"), ""),
    (ENTROPY, gettext_lazy("Entropy of the outputs"), ""),
    (PSI, gettext_lazy("Greatest PSI of a feature"), ""),
)


@require_http_methods(["GET", "HEAD", "POST"])
def detail(request: HttpRequest, environment: str, model: str) -> HttpResponse:
    """What is measured and how it stands; POST chooses anew. The figures alone for htmx."""
    page = telemetry_page(environment, model, now=timezone.now(), user=user_of(request))
    if request.method != "POST":
        form = TelemetryForm(initial=_initial(page))
        fragment = bool(request.headers.get("HX-Request"))
        return _page(request, page, form, template="_standing.html" if fragment else "detail.html")
    form = TelemetryForm(request.POST)
    if form.is_valid():
        revision = request.POST.get("revision", "")
        try:
            set_telemetry(
                environment=environment,
                model=model,
                measured=form.cleaned_data["measured"],
                percent=form.cleaned_data["percent"],
                reason=form.cleaned_data["reason"],
                expected_revision=int(revision) if revision.isdecimal() else None,
                actor=actor_of(request),
            )
        except Stale as error:
            messages.error(request, f"{error.message} {error.hint}")
        except CovenantError as error:
            form.add_refusal(error)
            return _page(request, page, form, status=error.status)
        else:
            messages.success(request, _("The choice is in force."))
        return redirect("deployments:endpoint-telemetry", environment, model)
    return _page(request, page, form, status=422)


@require_POST
def record_reference(request: HttpRequest, environment: str, model: str) -> HttpResponse:
    """Record what a version was trained on."""
    user = user_of(request)
    endpoint = find_endpoint(environment, model, user=user)
    form = ReferenceSampleForm(request.POST, request.FILES)
    if form.is_valid():
        number = form.cleaned_data["version"]
        try:
            version = find_version(endpoint.model.name, number, user=user)
            row = record_reference_sample(
                version=version,
                data=form.cleaned_data["file"].read(MOST_BYTES + 1),
                note=form.cleaned_data["note"],
                actor=actor_of(request),
            )
        except CovenantError as error:
            faults = " ".join(f"{one.pointer}: {one.detail}" for one in error.errors[:3])
            messages.error(request, f"{error.message} {faults} {error.hint}".strip())
        else:
            words = _("%(rows)s rows are recorded with v%(version)s.")
            messages.success(request, words % {"rows": row.rows, "version": number})
    else:
        messages.error(request, _("Choose a file with rows of the training data."))
    return redirect("deployments:endpoint-telemetry", environment, model)


def _initial(page: TelemetryPage) -> dict[str, Any]:
    setting = page.setting
    points = setting.basis_points if setting else measuring.USUAL_SHARE
    return {"measured": bool(setting and setting.measured), "percent": points / 100}


def _page(
    request: HttpRequest,
    page: TelemetryPage,
    form: TelemetryForm,
    *,
    template: str = "detail.html",
    status: int = 200,
) -> HttpResponse:
    endpoint, actor = page.endpoint, actor_of(request)
    environment, model = endpoint.environment.name, endpoint.model.name
    window = request.GET.get("window", "")
    window = window if window in WINDOWS else WINDOWS[0]
    team = endpoint.model.team_id
    reference_form = ReferenceSampleForm(auto_id="reference_%s")
    reference_form.offer([one.number for one in page.versions])
    context = {
        "nav_section": "endpoints",
        "shown": page,
        "environment": environment,
        "model": model,
        "topic": f"endpoint:{endpoint}",
        "here": request.get_full_path(),
        "versions": [_version(page, one) for one in page.versions],
        "sent": _sent(page.sent),
        "limits": _limits(page),
        "charts": [_chart(page, name, title, unit, window) for name, title, unit in CHARTS],
        "sent_charts": _sent_charts(page, window),
        "window": window,
        "windows": WINDOWS,
        "form": form,
        "reference_form": reference_form,
        "revision": page.setting.revision if page.setting else 0,
        "may_change": allowed(actor, "telemetry.change", team),
        "may_record": allowed(actor, "version.create", team),
        "fewest_rows": measuring.FEWEST_ROWS,
        "call": _call(request, environment, model),
        "current_environment": {
            "name": environment,
            "is_production": environment == "production",
        },
    }
    return render(request, f"deployments/telemetry/{template}", context, status=status)


def _limits(page: TelemetryPage) -> dict[str, str]:
    """The contract's limits as people read them; "" where it promises none."""
    found = page.limits or Drift()
    drift, above = found.feature_drift_score, found.entropy_above
    return {
        "drift": "" if drift is None else f"{drift:g}",
        "entropy": "" if above is None else f"{above:g}",
        "time": time_text(found.entropy_for_seconds or 0),
    }


def _version(page: TelemetryPage, one: VersionTelemetry) -> dict[str, Any]:
    limit = page.limits.feature_drift_score if page.limits else None
    above = page.limits.entropy_above if page.limits else None
    rows = [feature_row(feature, limit) for feature in one.features]
    return {
        "number": one.number,
        "percent": one.percent,
        "sample": one.sample,
        "without": one.without,
        "unknown": one.unknown,
        "drift": _figure(one.drift, limit),
        "psi": _figure(one.psi, None),
        "entropy": _figure(one.entropy, above),
        "first": rows[:SHOWN_FEATURES],
        "more": rows[SHOWN_FEATURES:],
    }


def _figure(reading: Reading | None, limit: float | None) -> dict[str, Any]:
    """A reading with its limit and tone; measured each quarter of a minute."""
    notes = [_("limit %(limit)s") % {"limit": f"{limit:g}"}] if limit is not None else []
    if reading is None:
        return {"value": None, "note": " · ".join(notes), "tone": ""}
    tone = "" if limit is None else "bad" if reading.newest > limit else "ok"
    note = " · ".join([*notes, age_words(reading.at, timezone.now())])
    return {"value": f"{reading.newest:.3f}", "note": note, "tone": tone}


def _call(request: HttpRequest, environment: str, model: str) -> str:
    """What a program that has OpenTelemetry needs to be told."""
    named = f"covenant.environment={environment},covenant.model={model},covenant.version=1"
    address = request.build_absolute_uri(reverse("deployments:otlp-metrics"))
    return (
        f"export OTEL_EXPORTER_OTLP_METRICS_ENDPOINT={address}\n"
        "export OTEL_EXPORTER_OTLP_METRICS_PROTOCOL=http/protobuf\n"
        'export OTEL_EXPORTER_OTLP_METRICS_HEADERS="Authorization=Token%20…"\n'
        f"export OTEL_RESOURCE_ATTRIBUTES={named}"
    )


def _sent(readings: list[Reading]) -> list[dict[str, Any]]:
    return [
        {
            "name": one.name,
            "label": one.label,
            "version": one.version,
            "unit": one.unit,
            # A count is what it grew by within the minute, all else its last value.
            "value": one.total if one.name.endswith("_total") else one.newest,
            "counts": one.name.endswith("_total"),
            "at": one.at,
        }
        for one in readings
    ]


def _chart(page: TelemetryPage, name: str, title: Any, unit: Any, window: str) -> dict[str, Any]:
    endpoint = page.endpoint
    here = {"environment": endpoint.environment.name, "model": endpoint.model.name, "name": name}
    url = reverse("api:endpoint-telemetry-chart", kwargs=here)
    return {
        "id": name.replace("_", "-"),
        "url": f"{url}?{urlencode({'window': window})}",
        "title": title,
        "unit": unit,
        "live": 15 if window == "1h" else 60,
    }


def _sent_charts(page: TelemetryPage, window: str) -> list[dict[str, Any]]:
    """A chart for each of the first names that others send, all labels on it."""
    units = {one.name: one.unit for one in page.sent}
    charts = []
    for name in sorted(units)[:6]:
        one = _chart(page, name, name, units[name], window)
        charts.append({**one, "url": f"{one['url']}&{urlencode({'label': '*'})}"})
    return charts
