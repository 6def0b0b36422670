"""Taking what others measured: each data point to the series of its endpoint, or refused aloud."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Count
from django.utils import timezone

from console.actors import Actor, allowed, require
from deployments.models import Endpoint, MeasuredSeries, TelemetryCounter
from deployments.rules.statistics.measurements import (
    Quantity,
    Subject,
    Summary,
    minute_of,
    summed,
)
from deployments.rules.telemetry import sent as rules
from deployments.rules.telemetry.measuring import MEASURED
from deployments.rules.telemetry.sent import Address, Refused, SentPoint, Stand
from deployments.selectors.telemetry.own import measured_here, measured_on_nodes
from deployments.services.statistics.measurements import record_minutes, series_keys
from models_registry.models import ModelVersion

MOST_MESSAGES = 5
FORGOTTEN = timedelta(days=7)

Slot = tuple[int, str]
"""A series' key, and who counts."""


@dataclass(slots=True)
class Taken:
    """How many data points were taken, how many not, and why not."""

    accepted: int = 0
    refused: Counter[str] = field(default_factory=Counter)

    @property
    def rejected(self) -> int:
        return self.refused.total()

    @property
    def message(self) -> str:
        """Why some were not taken, the most frequent reasons first; "" when all were."""
        parts = [f"{count} × {why}" for why, count in self.refused.most_common(MOST_MESSAGES)]
        if len(self.refused) > MOST_MESSAGES:
            parts.append("and others")
        return "; ".join(parts)


def take_points(*, points: Sequence[SentPoint], actor: Actor, now: datetime | None = None) -> Taken:
    """Add data points to the series of their endpoints; what cannot be taken is counted, with why.

    Taken once: a counter or a distribution that is sent again adds nothing. Raises NotAllowed for
    who may send for no team at all.
    """
    require(actor, "telemetry.send")
    now = now or timezone.now()
    taken = Taken()
    known = _known({_address(point) for point in points}, actor)
    wanted: list[tuple[SentPoint, Quantity, datetime]] = []
    for point in points:
        try:
            wanted.append((point, *_placed(point, known, now)))
        except Refused as error:
            taken.refused[str(error)] += 1
    with transaction.atomic():
        wanted = _within_limit(wanted, taken)
        record_minutes(_minutes(wanted))
    taken.accepted = len(wanted)
    return taken


def forget_counters(*, now: datetime | None = None) -> int:
    """Delete where counters stood that nobody sent for a week; gives how many."""
    limit = (now or timezone.now()) - FORGOTTEN
    return TelemetryCounter.objects.filter(seen_at__lt=limit).delete()[0]


@dataclass(slots=True)
class _Known:
    """Endpoints that the actor may send for, by name, and what else is asked of each point."""

    endpoints: dict[tuple[str, str], Endpoint]
    not_theirs: set[tuple[str, str]]
    versions: set[tuple[int, int]]
    measured: set[tuple[int, int, str]]
    on_nodes: set[tuple[int, str]]


def _address(point: SentPoint) -> Address | None:
    try:
        return rules.address_of(point)
    except Refused:
        return None


def _known(addresses: set[Address | None], actor: Actor) -> _Known:
    named = {one for one in addresses if one is not None}
    rows = (
        Endpoint.objects.visible_to(actor.user)
        .filter(
            model__name__in={one.model for one in named},
            environment__name__in={one.environment for one in named},
        )
        .select_related("model", "environment")
    )
    endpoints = {(row.environment.name, row.model.name): row for row in rows}
    not_theirs = {
        name
        for name, row in endpoints.items()
        if not allowed(actor, "telemetry.send", row.model.team_id)
    }
    models = {row.model_id for row in endpoints.values()}
    versions = set(
        ModelVersion.objects.filter(
            model_id__in=models, number__in={one.version for one in named}
        ).values_list("model_id", "number")
    )
    ids = [row.pk for row in endpoints.values()]
    return _Known(endpoints, not_theirs, versions, measured_here(ids), measured_on_nodes(ids))


def _placed(point: SentPoint, known: _Known, now: datetime) -> tuple[Quantity, datetime]:
    address = rules.address_of(point)
    slot = (address.environment, address.model)
    where = f"{address.environment}/{address.model}"[:120]
    endpoint = known.endpoints.get(slot)
    if endpoint is None:
        raise Refused(f"there is no endpoint {where}")
    if slot in known.not_theirs:
        raise Refused(f"you may not send for {where}")
    if address.version and (endpoint.model_id, address.version) not in known.versions:
        raise Refused(f"{address.model} has no version {address.version}")
    rules.checked(point)
    name = rules.series_name(point)
    own = (endpoint.pk, address.version, name) in known.measured
    if own or (endpoint.pk, name) in known.on_nodes:
        raise Refused(f"{name} of {where} v{address.version} is measured by Covenant itself")
    subject = Subject(endpoint=endpoint.pk, version=address.version)
    quantity = Quantity(subject, name, rules.label_of(point), point.unit)
    return quantity, rules.moment_of(point, now)


def _within_limit(
    wanted: list[tuple[SentPoint, Quantity, datetime]], taken: Taken
) -> list[tuple[SentPoint, Quantity, datetime]]:
    """Without the points of series beyond what an endpoint may have. Locks the endpoints."""
    ids = {quantity.subject.endpoint or 0 for _, quantity, _ in wanted}
    # One sender after the other: two at once must not make twice as many series.
    list(Endpoint.objects.select_for_update(of=("self",)).filter(pk__in=ids).order_by("pk"))
    rows = MeasuredSeries.objects.filter(endpoint_id__in=ids, node__isnull=True)
    held: dict[int, set[tuple[int, str, str]]] = defaultdict(set)
    counts = dict(
        rows.exclude(name__in=MEASURED).order_by().values_list("endpoint_id").annotate(Count("pk"))
    )
    names = {quantity.name for _, quantity, _ in wanted}
    for endpoint, version, name, label in rows.filter(name__in=names).values_list(
        "endpoint_id", "version", "name", "label"
    ):
        held[endpoint].add((version, name, label))
    kept = []
    for one in wanted:
        quantity = one[1]
        endpoint = quantity.subject.endpoint or 0
        slot = (quantity.subject.version, quantity.name, quantity.label)
        if slot not in held[endpoint]:
            if counts.get(endpoint, 0) >= rules.MOST_SERIES:
                taken.refused[
                    f"the endpoint has {rules.MOST_SERIES} series already: send fewer labels"
                ] += 1
                continue
            counts[endpoint] = counts.get(endpoint, 0) + 1
            held[endpoint].add(slot)
        kept.append(one)
    return kept


def _minutes(
    wanted: Sequence[tuple[SentPoint, Quantity, datetime]],
) -> dict[tuple[Quantity, datetime], Summary]:
    gathered: dict[tuple[Quantity, datetime], Summary] = {}

    def add(quantity: Quantity, at: datetime, one: Summary | None) -> None:
        if one is not None:
            slot = (quantity, minute_of(at))
            gathered[slot] = gathered[slot] + one if slot in gathered else one

    counting = sorted((one for one in wanted if one[0].counts), key=lambda one: one[0].time_ns)
    for point, quantity, at in wanted:
        if not point.counts:
            add(quantity, at, summed(point.value, at))
    if counting:
        keys = series_keys({quantity for _, quantity, _ in counting})
        stands = _stands({(keys[quantity], point.source) for point, quantity, _ in counting})
        for point, quantity, at in counting:
            row = stands[(keys[quantity], point.source)]
            last = Stand(row.start_ns, row.time_ns, row.value, row.count) if row.time_ns else None
            one, now_at = rules.grown(point, last)
            row.start_ns, row.time_ns = now_at.start_ns, now_at.time_ns
            row.value, row.count = now_at.value, now_at.count
            add(quantity, at, one)
        _keep(stands)
    return gathered


def _stands(slots: set[Slot]) -> Mapping[Slot, TelemetryCounter]:
    """Where each counter stands, locked in one order; new ones are made."""
    TelemetryCounter.objects.bulk_create(
        [TelemetryCounter(series_id=key, source=source) for key, source in sorted(slots)],
        ignore_conflicts=True,
    )
    rows = (
        TelemetryCounter.objects.select_for_update(of=("self",))
        .filter(series_id__in={key for key, _ in slots}, source__in={one for _, one in slots})
        .order_by("pk")
    )
    return {(row.series_id, row.source): row for row in rows}


def _keep(stands: Mapping[Slot, TelemetryCounter]) -> None:
    now = timezone.now()
    for row in stands.values():
        row.seen_at = now
    TelemetryCounter.objects.bulk_update(
        stands.values(), ["start_ns", "time_ns", "value", "count", "seen_at"]
    )
