"""Booking what was counted: minute roll-ups, and the cursors that say how far, together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from django.db import transaction

from console.errors import Conflict
from deployments.models import CounterCursor, Endpoint, MinuteRollup, MirrorMinute
from deployments.models.statistics import Rollup
from deployments.rules.statistics.histograms import Histogram
from deployments.rules.statistics.readings import Reader, Reading
from deployments.rules.statistics.rollups import Traffic, Work, add_counts, merge_any
from deployments.services.statistics.rolled import touch
from deployments.services.statistics.totals import add_to_totals

EndpointKey = tuple[str, str]
"""Environment and model."""

_PROCESS = ""
"""Name of the cursor that stands for a source as a whole: its epoch, when it was last booked."""


@dataclass(slots=True)
class Booking:
    """What one source grew by since its cursors were written, by endpoint, version and minute."""

    traffic: dict[tuple[EndpointKey, int, datetime], Traffic] = field(default_factory=dict)
    work: dict[tuple[EndpointKey, int, datetime], Work] = field(default_factory=dict)
    mirrored: dict[tuple[EndpointKey, int, datetime], Traffic] = field(default_factory=dict)

    def add_traffic(self, key: EndpointKey, version: int, minute: datetime, more: Traffic) -> None:
        slot = (key, version, minute)
        self.traffic[slot] = self.traffic.get(slot, Traffic()) + more

    def add_mirrored(self, key: EndpointKey, version: int, minute: datetime, more: Traffic) -> None:
        slot = (key, version, minute)
        self.mirrored[slot] = self.mirrored.get(slot, Traffic()) + more

    def add_work(self, key: EndpointKey, version: int, minute: datetime, more: Work) -> None:
        slot = (key, version, minute)
        self.work[slot] = self.work.get(slot, Work()) + more


def load_reader(source: str) -> tuple[Reader, datetime | None]:
    """A source as it was last booked, and when; a source that is new has never been read.

    A cursor that an earlier process left, of a series that has been silent since, says nothing
    about this one: there the series began at zero.
    """
    cursors = {row.name: row for row in CounterCursor.objects.filter(source=source)}
    process = cursors.pop(_PROCESS, None)
    if process is None:
        return Reader(), None
    last = {
        name: Reading.from_json(row.values)
        for name, row in cursors.items()
        if row.epoch == process.epoch
    }
    return Reader(known=True, epoch=float(process.epoch), last=last), process.read_at


@transaction.atomic
def book(
    source: str,
    booking: Booking,
    *,
    reader: Reader,
    changed: Iterable[str],
    before: datetime | None,
    at: datetime,
) -> None:
    """Add a booking to the roll-ups and move the source's cursors to the reader's last readings.

    `before` is when the source was booked last, as far as the caller knows. Raises Conflict
    `cursor_moved` when somebody else (or a commit whose answer was lost) has booked since: then
    nothing is written, and the caller starts again from `load_reader`.
    """
    process = CounterCursor.objects.select_for_update().filter(source=source, name=_PROCESS).first()
    if (process.read_at if process else None) != before:
        raise Conflict(f"{source} was booked by another collector.", code="cursor_moved")
    touch({minute for part in (booking.traffic, booking.work) for _, _, minute in part})
    _write_cursors(source, reader, changed, at)
    _write_rollups(booking)
    _write_mirrored(booking)


def _write_cursors(source: str, reader: Reader, changed: Iterable[str], at: datetime) -> None:
    epoch = repr(reader.epoch)
    rows = [CounterCursor(source=source, name=_PROCESS, epoch=epoch, values={}, read_at=at)]
    rows += [
        CounterCursor(
            source=source, name=name, epoch=epoch, values=reader.last[name].to_json(), read_at=at
        )
        for name in sorted(set(changed))
        if name in reader.last
    ]
    CounterCursor.objects.bulk_create(
        rows,
        update_conflicts=True,
        unique_fields=["source", "name"],
        update_fields=["epoch", "values", "read_at"],
    )


def _write_rollups(booking: Booking) -> None:
    slots = sorted({*booking.traffic, *booking.work}, key=str)
    ids = endpoint_ids({key for key, _, _ in slots})
    wanted = [(ids[key], version, minute) for key, version, minute in slots if key in ids]
    if not wanted:
        return
    MinuteRollup.objects.bulk_create(
        [MinuteRollup(endpoint_id=e, version=v, minute=m) for e, v, m in wanted],
        ignore_conflicts=True,
    )
    rows = (
        MinuteRollup.objects.select_for_update()
        .filter(endpoint_id__in={e for e, _, _ in wanted}, minute__in={m for _, _, m in wanted})
        .order_by("pk")
    )
    by_slot = {(row.endpoint_id, row.version, row.minute): row for row in rows}
    for key, version, minute in slots:
        if key not in ids:
            continue
        row = by_slot[(ids[key], version, minute)]
        if (traffic := booking.traffic.get((key, version, minute))) is not None:
            add_traffic(row, traffic)
        if (work := booking.work.get((key, version, minute))) is not None:
            add_work(row, work)
    # The months are named, so that only their partitions are looked into.
    minutes = {minute for _, _, minute in wanted}
    MinuteRollup.objects.filter(minute__in=minutes).bulk_update(
        [by_slot[slot] for slot in wanted],
        [
            *_TRAFFIC_FIELDS,
            "inference_count",
            "execution_count",
            "queue_ns",
            "compute_ns",
            "triton_failures",
        ],
    )
    add_to_totals(
        {
            (ids[key], version, minute): traffic
            for (key, version, minute), traffic in booking.traffic.items()
            if key in ids
        }
    )


def _write_mirrored(booking: Booking) -> None:
    ids = endpoint_ids({key for key, _, _ in booking.mirrored})
    wanted = {
        (ids[key], version, minute): traffic
        for (key, version, minute), traffic in booking.mirrored.items()
        if key in ids
    }
    if not wanted:
        return
    MirrorMinute.objects.bulk_create(
        [MirrorMinute(endpoint_id=e, version=v, minute=m) for e, v, m in wanted],
        ignore_conflicts=True,
    )
    stored = (
        MirrorMinute.objects.select_for_update()
        .filter(endpoint_id__in={e for e, _, _ in wanted}, minute__in={m for _, _, m in wanted})
        .order_by("pk")
    )
    mirrored = []
    for minute in stored:
        slot = (minute.endpoint_id, minute.version, minute.minute)
        if slot in wanted:
            add_traffic(minute, wanted[slot])
            mirrored.append(minute)
    MirrorMinute.objects.bulk_update(mirrored, _TRAFFIC_FIELDS)


_TRAFFIC_FIELDS = [
    "requests",
    "caller_faults",
    "provider_faults",
    "statuses",
    "bounds_ms",
    "buckets",
]


def add_traffic(row: Rollup | MirrorMinute, traffic: Traffic) -> None:
    """Add to a row that is not saved here; histograms with other bounds are brought together."""
    row.requests += traffic.requests
    row.caller_faults += traffic.caller_faults
    row.provider_faults += traffic.provider_faults
    row.statuses = add_counts(row.statuses, traffic.statuses)
    before = Histogram(tuple(row.bounds_ms), tuple(row.buckets)) if row.buckets else None
    latency = merge_any(before, traffic.latency)
    if latency is not None and latency.total:
        row.bounds_ms, row.buckets = list(latency.bounds), list(latency.counts)


def add_work(row: Rollup, work: Work) -> None:
    """Add to a row that is not saved here."""
    row.inference_count += work.inferences
    row.execution_count += work.executions
    row.queue_ns += work.queue_ns
    row.compute_ns += work.compute_ns
    row.triton_failures += work.failures


def endpoint_ids(keys: set[EndpointKey]) -> Mapping[EndpointKey, int]:
    rows = Endpoint.objects.filter(
        environment__name__in={environment for environment, _ in keys},
        model__name__in={model for _, model in keys},
    ).values_list("environment__name", "model__name", "pk")
    return {(environment, model): pk for environment, model, pk in rows}
