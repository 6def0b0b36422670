"""An endpoint's model telemetry: what is measured, how it stands, and its charts."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Q
from django.utils.dateparse import parse_datetime
from django.utils.translation import gettext

from console.errors import NotFound
from console.models import User
from deployments.adapters import telemetry_store
from deployments.models import Endpoint, MeasuredSeries, TelemetrySetting
from deployments.rules.statistics import charts
from deployments.rules.statistics.measurements import Summary
from deployments.rules.telemetry.measuring import DRIFT, ENTROPY, MEASURED, PSI
from deployments.selectors.statistics.measurements import minutes, newest
from deployments.selectors.statistics.series import split_markers
from deployments.selectors.telemetry.shares import share_of_endpoint
from deployments.selectors.traffic.endpoints import find_endpoint
from deployments.selectors.traffic.routing import contracts_that_hold
from models_registry.models import ModelVersion, ReferenceSample
from models_registry.rules.contract_types import Drift
from models_registry.selectors.reference_samples import reference_samples

RECENT = timedelta(hours=24)
MOST_LINES = 12
DASHES = ("dot", "dash")
MOST_SHOWN = 500


@dataclass(frozen=True, slots=True)
class Reading:
    """A series' newest minute; `mean` is that of the minute, `newest` its last value."""

    name: str
    label: str
    version: int
    unit: str
    newest: float
    mean: float
    total: float
    count: int
    at: datetime


@dataclass(frozen=True, slots=True)
class VersionTelemetry:
    """One version that callers get or got: what it was trained on and how it stands.

    `features` are as `rules.telemetry.measured.drift_document` has them, with their titles.
    """

    number: int
    percent: float
    sample: ReferenceSample | None
    drift: Reading | None
    psi: Reading | None
    entropy: Reading | None
    features: list[dict[str, Any]]
    unknown: list[str]
    without: bool


@dataclass(frozen=True, slots=True)
class TelemetryPage:
    """`share` is the percentage of requests that is looked at; 0: nothing is measured.

    `rows` were seen in the newest window at `at`; None when none is known.
    """

    endpoint: Endpoint
    limits: Drift | None
    contract_revision: int | None
    setting: TelemetrySetting | None
    share: float
    rows: int | None
    at: datetime | None
    versions: list[VersionTelemetry]
    sent: list[Reading]


def telemetry_page(environment: str, model: str, *, now: datetime, user: User) -> TelemetryPage:
    """An endpoint's model telemetry; seven queries. Raises NotFound."""
    endpoint = find_endpoint(environment, model, user=user)
    setting = TelemetrySetting.objects.filter(endpoint=endpoint).first()
    contract = contracts_that_hold([endpoint.model_id]).get(endpoint.model_id)
    readings = _readings(_shown_series(endpoint), now)
    document = telemetry_store.newest(str(endpoint))
    weights = endpoint.current.weights if endpoint.current else {}
    numbers = sorted(
        {int(number) for number, points in weights.items() if points}
        | {int(number) for number in document.get("versions", {})}
    )
    versions = list(
        ModelVersion.objects.filter(model_id=endpoint.model_id, number__in=numbers)
        .only("pk", "number")
        .order_by("number")
    )
    samples = reference_samples([one.pk for one in versions])
    # The setting belongs to the endpoint; it was read above, so that no other query is needed.
    endpoint._state.fields_cache["telemetry_setting"] = setting
    return TelemetryPage(
        endpoint=endpoint,
        limits=contract.drift if contract else None,
        contract_revision=contract.revision if contract else None,
        setting=setting,
        share=share_of_endpoint(endpoint, contract) / 100,
        rows=document.get("rows"),
        at=parse_datetime(document["at"]) if document else None,
        versions=[
            _version(one, weights, samples.get(one.pk), readings, document) for one in versions
        ],
        sent=[one for slot, one in sorted(readings.items()) if slot[0] not in MEASURED],
    )


def telemetry_chart(
    endpoint: Endpoint,
    name: str,
    *,
    window: str,
    now: datetime,
    label: str | None = "",
    version: int | None = None,
) -> dict[str, Any]:
    """One series' minutes as a chart, a line for each version (and label, where it is None).

    A line's value is the mean of what was measured in a step; of a count (`_total`) it is what it
    grew by. Raises NotFound for a series that nobody measures, Invalid.
    """
    start = now - charts.parse_span(window)
    grid = charts.grid(start, now, finest=60)
    rows = MeasuredSeries.objects.filter(endpoint=endpoint, node__isnull=True, name=name)
    if label is not None:
        rows = rows.filter(label=label)
    if version is not None:
        rows = rows.filter(version=version)
    # The newest versions first: of a long history the last ones are what is looked at.
    found = sorted(
        rows.order_by("-version", "label")[:MOST_LINES], key=lambda one: (one.version, one.label)
    )
    if not found and name not in MEASURED:
        raise NotFound(
            f"Nobody measures {name[:80]} of {endpoint}.",
            hint="See the endpoint's telemetry for the series that there are.",
        )
    held = minutes([one.pk for one in found], start=grid.start, end=grid.end)
    lines: list[dict[str, Any]] = []
    for one in found:
        line = _line(one, grid, held.get(one.pk, {}))
        earlier = sum(before.get("version") == line.get("version") for before in lines)
        # Labels of one version have its colour, and are told apart by their dashes.
        if earlier:
            line["dash"] = DASHES[(earlier - 1) % len(DASHES)]
        lines.append(line)
    limit = _limit(endpoint, name)
    return charts.chart(lines, limit=limit, markers=split_markers(endpoint, grid.start, now))


def _shown_series(endpoint: Endpoint) -> list[MeasuredSeries]:
    """What others send, and the greatest drift and entropy of each version; one query."""
    rows = MeasuredSeries.objects.filter(endpoint=endpoint, node__isnull=True).exclude(
        ~Q(label=""), name__in=MEASURED
    )
    return list(rows.order_by("-version", "name", "label")[:MOST_SHOWN])


def _line(
    series: MeasuredSeries, grid: charts.Grid, held: Mapping[datetime, Summary]
) -> dict[str, Any]:
    slots = charts.bucket(grid, held.items())
    counts = series.name.endswith("_total")

    def measure(values: list[Summary]) -> float:
        total = sum(one.total for one in values)
        return total if counts else total / sum(one.count for one in values)

    parts = [f"v{series.version}" if series.version else "", series.label]
    name = " ".join(part for part in parts if part) or gettext("all versions")
    return charts.series(name, grid, slots, measure, version=series.version or None)


def _limit(endpoint: Endpoint, name: str) -> tuple[float, str] | None:
    contract = contracts_that_hold([endpoint.model_id]).get(endpoint.model_id)
    drift = contract.drift if contract else None
    value = None
    if drift is not None:
        value = {DRIFT: drift.feature_drift_score, ENTROPY: drift.entropy_above}.get(name)
    return None if value is None else (float(value), gettext("contract"))


Slot = tuple[str, str, int]


def _readings(series: Collection[MeasuredSeries], now: datetime) -> dict[Slot, Reading]:
    found = newest([one.pk for one in series], since=now - RECENT)
    return {
        (one.name, one.label, one.version): Reading(
            one.name,
            one.label,
            one.version,
            one.unit,
            summary.newest,
            summary.mean,
            summary.total,
            summary.count,
            summary.newest_at,
        )
        for one in series
        if (summary := found.get(one.pk)) is not None
    }


def _version(
    version: ModelVersion,
    weights: Mapping[str, int],
    sample: ReferenceSample | None,
    readings: Mapping[Slot, Reading],
    document: Mapping[str, Any],
) -> VersionTelemetry:
    number = version.number
    here = document.get("versions", {}).get(str(number), {})
    titles = {one["name"]: one["title"] for one in sample.features} if sample else {}
    return VersionTelemetry(
        number=number,
        percent=weights.get(str(number), 0) / 100,
        sample=sample,
        drift=readings.get((DRIFT, "", number)),
        psi=readings.get((PSI, "", number)),
        entropy=readings.get((ENTROPY, "", number)),
        features=[
            {**one, "title": titles.get(one["name"], one["name"])}
            for one in here.get("features", [])
        ],
        unknown=list(here.get("unknown", [])),
        without=number in document.get("without", []) or (sample is None and not here),
    )
