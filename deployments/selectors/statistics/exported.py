"""The samples of `/metrics` for one reader: endpoints that they may see, and all nodes."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db.models import Count

from console.models import User
from deployments.models import (
    Alert,
    AlertState,
    CounterCursor,
    Endpoint,
    Incident,
    IncidentState,
    MeasuredSeries,
    Node,
    NodeState,
    SeriesMinute,
    ServedTotal,
    SlaStanding,
)
from deployments.rules.fleet.catalogue import SERIES
from deployments.rules.statistics.exported import (
    LATENCY,
    TELEMETRY,
    Family,
    exported,
    families,
)
from deployments.selectors.objectives.exclusions import under_maintenance
from deployments.selectors.objectives.promises import objectives_of
from deployments.selectors.traffic.routing import contracts_that_hold

FRESH = timedelta(minutes=3)
"""A series without a newer minute is not measured any more, and is not told."""

Keys = dict[int, tuple[str, str]]


def metric_families(user: User, now: datetime) -> list[Family]:
    """All families with samples; eleven queries, however many endpoints and nodes there are."""
    found = families()
    endpoints = list(
        Endpoint.objects.visible_to(user).select_related("environment", "model", "current")
    )
    keys = {one.pk: (one.environment.name, one.model.name) for one in endpoints}
    _add_totals(found, keys)
    _add_promises(found, endpoints, keys)
    for endpoint_id in under_maintenance(keys, now):
        found["covenant_endpoint_maintenance"].add(keys[endpoint_id], 1.0)
    _add_troubles(found, keys)
    _add_series(found, keys, now)
    for node in Node.objects.order_by("name"):
        found["covenant_node_up"].add((node.name,), float(node.state != NodeState.LOST))
        if node.last_seen_at is not None:
            seen = node.last_seen_at.timestamp()
            found["covenant_node_last_seen_timestamp_seconds"].add((node.name,), seen)
    for source, at in CounterCursor.objects.filter(name="").values_list("source", "read_at"):
        booked = found["covenant_collector_booked_timestamp_seconds"]
        booked.add((source,), at.timestamp())
    return [family for family in found.values() if family.samples]


def _add_totals(found: dict[str, Family], keys: Keys) -> None:
    requests, latency = found["covenant_endpoint_requests"], found[LATENCY]
    rows = ServedTotal.objects.filter(endpoint_id__in=keys).order_by("endpoint_id", "version")
    for row in rows:
        labels = (*keys[row.endpoint_id], str(row.version))
        good = row.requests - row.caller_faults - row.provider_faults
        for meaning, count in (
            ("good", good),
            ("caller", row.caller_faults),
            ("provider", row.provider_faults),
        ):
            requests.add((*labels, meaning), float(max(count, 0)), "_total")
        for bound, count in sorted(row.within.items(), key=lambda one: float(one[0])):
            le = f"{float(bound) / 1000:.12g}"
            latency.add(labels, float(count), "_bucket", le=le)
        latency.add(labels, float(row.timed), "_bucket", le="+Inf")
        latency.add(labels, float(row.timed), "_count")


def _add_promises(found: dict[str, Family], endpoints: list[Endpoint], keys: Keys) -> None:
    contracts = contracts_that_hold({endpoint.model_id for endpoint in endpoints})
    for endpoint in endpoints:
        labels = keys[endpoint.pk]
        if endpoint.current is not None:
            for version, weight in sorted(endpoint.current.weights.items()):
                share = found["covenant_version_traffic_ratio"]
                share.add((*labels, version), weight / 10_000)
        contract = contracts.get(endpoint.model_id)
        for objective in objectives_of(contract) if contract else ():
            of = (*labels, objective.name)
            found["covenant_objective_target_ratio"].add(of, objective.target / 100)
            if objective.threshold_ms is not None:
                threshold = found["covenant_objective_threshold_seconds"]
                threshold.add(of, objective.threshold_ms / 1000)
    standings = SlaStanding.objects.filter(
        endpoint_id__in=keys, budget_left_share__isnull=False
    ).values_list("endpoint_id", "budget_left_share")
    for endpoint_id, share_left in standings:
        left = found["covenant_endpoint_budget_remaining_ratio"]
        left.add(keys[endpoint_id], float(share_left or 0.0))


def _add_troubles(found: dict[str, Family], keys: Keys) -> None:
    firing = Alert.objects.filter(
        endpoint_id__in=keys, state=AlertState.FIRING, silenced_by__isnull=True, suppressed=""
    )
    counted = firing.order_by().values_list("endpoint_id", "severity").annotate(n=Count("pk"))
    for endpoint_id, severity, count in counted:
        if endpoint_id is not None:
            alerts = found["covenant_alerts_firing"]
            alerts.add((*keys[endpoint_id], severity), float(count))
    opened = (
        Incident.objects.filter(endpoint_id__in=keys)
        .exclude(state=IncidentState.RESOLVED)
        .order_by()
        .values_list("endpoint_id")
        .annotate(n=Count("pk"))
    )
    for endpoint_id, count in opened:
        found["covenant_incidents_open"].add(keys[endpoint_id], float(count))


def _add_series(found: dict[str, Family], keys: Keys, now: datetime) -> None:
    """The newest value of each series that has one; telemetry only as a whole."""
    series = {
        row.pk: row
        for row in MeasuredSeries.objects.filter(
            name__in=[*SERIES, *TELEMETRY], label=""
        ).select_related("node")
        if row.endpoint_id is None or row.endpoint_id in keys
    }
    newest = (
        SeriesMinute.objects.filter(series_id__in=series, minute__gte=now - FRESH)
        .order_by("series_id", "-minute")
        .distinct("series_id")
        .values_list("series_id", "newest")
    )
    for pk, value in newest:
        row = series[pk]
        known = exported(row.name)
        if known is None:
            continue
        node = (row.node.name,) if row.node is not None else ()
        of = (*keys[row.endpoint_id], str(row.version)) if row.endpoint_id else ()
        gpu = (row.device.removeprefix("GPU-"),) if row.device else ()
        labels = (*node, *of, *gpu)
        if len(labels) == len(found[known.name].labels):
            found[known.name].add(labels, value * known.factor, **dict(known.labels))
