"""What was counted: minute roll-ups, and how far each counter has been read."""

from __future__ import annotations

from typing import ClassVar

from django.contrib.postgres.indexes import BrinIndex
from django.db import models
from django.utils.translation import gettext_lazy as _

from deployments.models.traffic import Endpoint
from models_registry.models.catalog import OfModelQuerySet


class MinuteRollupQuerySet(OfModelQuerySet["MinuteRollup"]):
    model_path = "endpoint__model__"


class Rollup(models.Model):
    """What one version did at one endpoint (version 0: the gateway answered by itself).

    `statuses` maps exact status codes to counts; beside them stand `refused_NNN` (the gateway let
    it through to no version), `caller_left`, and what lies across codes (`timeout`, `rescued` …).
    `buckets` are per-bucket (not cumulative) counts of durations for the upper bounds `bounds_ms`,
    the last one being +Inf. The Triton columns hold totals over all nodes, durations in
    nanoseconds.
    """

    endpoint = models.ForeignKey(
        Endpoint, on_delete=models.PROTECT, related_name="+", db_index=False
    )
    version = models.PositiveIntegerField()
    requests = models.BigIntegerField(default=0)
    caller_faults = models.BigIntegerField(default=0)
    provider_faults = models.BigIntegerField(default=0)
    statuses = models.JSONField(default=dict)
    bounds_ms = models.JSONField(default=list)
    buckets = models.JSONField(default=list)
    inference_count = models.BigIntegerField(default=0)
    execution_count = models.BigIntegerField(default=0)
    queue_ns = models.BigIntegerField(default=0)
    compute_ns = models.BigIntegerField(default=0)
    triton_failures = models.BigIntegerField(default=0)

    class Meta:
        abstract = True


class MinuteRollup(Rollup):
    """One minute. Partitioned by month; a minute in which nobody called has a row of version 0."""

    minute = models.DateTimeField()

    objects = MinuteRollupQuerySet.as_manager()

    class Meta:
        ordering: ClassVar[list[str]] = ["minute"]
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(fields=["endpoint", "version", "minute"], name="rollup_once")
        ]
        indexes: ClassVar[list[models.Index]] = [
            models.Index(fields=["endpoint", "minute"], name="rollup_endpoint_minute"),
            # Rows come in the order of time, so this index is a few pages; hours are made with it.
            BrinIndex(fields=["minute"], name="rollup_minute_brin", pages_per_range=32),
        ]

    def __str__(self) -> str:
        return f"{self.endpoint_id} v{self.version} {self.minute:%Y-%m-%d %H:%M}"


class HourRollupQuerySet(OfModelQuerySet["HourRollup"]):
    model_path = "endpoint__model__"


class HourRollup(Rollup):
    """Sixty minutes added up. `minutes` says in how many of them something was observed."""

    hour = models.DateTimeField()
    minutes = models.PositiveSmallIntegerField(default=0)

    objects = HourRollupQuerySet.as_manager()

    class Meta:
        ordering: ClassVar[list[str]] = ["hour"]
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(fields=["endpoint", "version", "hour"], name="hour_once")
        ]
        indexes: ClassVar[list[models.Index]] = [
            models.Index(fields=["endpoint", "hour"], name="hour_endpoint_hour"),
            models.Index(fields=["hour"], name="hour_hour"),
        ]

    def __str__(self) -> str:
        return f"{self.endpoint_id} v{self.version} {self.hour:%Y-%m-%d %H}"


class DayRollupQuerySet(OfModelQuerySet["DayRollup"]):
    model_path = "endpoint__model__"


class DayRollup(Rollup):
    """The 24 hours of a day (UTC) added up; `minutes` as in an `HourRollup`."""

    day = models.DateTimeField()
    minutes = models.PositiveSmallIntegerField(default=0)

    objects = DayRollupQuerySet.as_manager()

    class Meta:
        ordering: ClassVar[list[str]] = ["day"]
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(fields=["endpoint", "version", "day"], name="day_once")
        ]
        indexes: ClassVar[list[models.Index]] = [
            models.Index(fields=["endpoint", "day"], name="day_endpoint_day"),
        ]

    def __str__(self) -> str:
        return f"{self.endpoint_id} v{self.version} {self.day:%Y-%m-%d}"


class RolledKind(models.TextChoices):
    HOUR = "hour", _("Hour")
    DAY = "day", _("Day")
    SERIES_HOUR = "series_hour", _("Hour of measured series")


class RolledSpan(models.Model):
    """An hour or a day whose roll-ups are whole. What is booked into it later takes this away."""

    kind = models.CharField(max_length=12, choices=RolledKind.choices)
    start = models.DateTimeField()
    rolled_at = models.DateTimeField()

    class Meta:
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(fields=["kind", "start"], name="rolled_once")
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.start:%Y-%m-%d %H:%M}"


class MirrorMinuteQuerySet(OfModelQuerySet["MirrorMinute"]):
    model_path = "endpoint__model"


class MirrorMinute(models.Model):
    """One minute of the copies of requests that a mirror's version answered for nobody.

    The columns mean what they mean in a `MinuteRollup`; they are kept apart because no caller got
    any of these answers, so they are no live traffic and no promise rests on them.
    """

    endpoint = models.ForeignKey(
        Endpoint, on_delete=models.PROTECT, related_name="+", db_index=False
    )
    version = models.PositiveIntegerField()
    minute = models.DateTimeField()
    requests = models.BigIntegerField(default=0)
    caller_faults = models.BigIntegerField(default=0)
    provider_faults = models.BigIntegerField(default=0)
    statuses = models.JSONField(default=dict)
    bounds_ms = models.JSONField(default=list)
    buckets = models.JSONField(default=list)

    objects = MirrorMinuteQuerySet.as_manager()

    class Meta:
        ordering: ClassVar[list[str]] = ["minute"]
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(
                fields=["endpoint", "version", "minute"], name="mirror_minute_once"
            )
        ]

    def __str__(self) -> str:
        return f"{self.endpoint_id} v{self.version} {self.minute:%Y-%m-%d %H:%M}"


class CounterCursor(models.Model):
    """The last value read of one outside counter set, written with the roll-up that used it.

    Because both are written in one transaction a restarted collector neither loses nor repeats a
    count. `epoch` identifies the outside process, so that its restart reads as a reset.
    """

    source = models.CharField(max_length=80)
    name = models.CharField(max_length=200)
    epoch = models.CharField(max_length=80, blank=True)
    values = models.JSONField(default=dict)
    read_at = models.DateTimeField()

    class Meta:
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(fields=["source", "name"], name="cursor_once")
        ]

    def __str__(self) -> str:
        return f"{self.source} {self.name}"


class GapReason(models.TextChoices):
    RESTARTED = "restarted", _("Began anew")
    UNREACHABLE = "unreachable", _("Could not be read")
    NOT_COLLECTED = "not_collected", _("Nobody collected")


class CountGap(models.Model):
    """A stretch of time for which a gateway or node was not read.

    Counters go on while nobody reads them: what they grew by is booked afterwards, into the minute
    in which they are read again. Only when `lost` is what happened within it unknown for good: the
    process ended, and its last counts with it. `ended_at` is None while the gap lasts.
    """

    source = models.CharField(max_length=80)
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, blank=True)
    why = models.CharField(max_length=16, choices=GapReason.choices)
    lost = models.BooleanField(default=False)
    detail = models.CharField(max_length=300, blank=True)

    class Meta:
        ordering: ClassVar[list[str]] = ["-started_at", "-pk"]
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(
                fields=["source"],
                condition=models.Q(ended_at__isnull=True),
                name="one_open_gap_per_source",
            )
        ]
        indexes: ClassVar[list[models.Index]] = [
            models.Index(fields=["source", "started_at"], name="gap_source_started")
        ]

    def __str__(self) -> str:
        return f"{self.source} {self.why} {self.started_at:%Y-%m-%d %H:%M:%S}"
