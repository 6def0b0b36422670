"""What was counted: minute roll-ups, and how far each counter has been read."""

from __future__ import annotations

from typing import ClassVar

from django.db import models

from deployments.models.traffic import Endpoint
from models_registry.models.catalog import OfModelQuerySet


class MinuteRollupQuerySet(OfModelQuerySet["MinuteRollup"]):
    model_path = "endpoint__model__"


class MinuteRollup(models.Model):
    """One minute of one version at one endpoint (version 0: the gateway answered by itself).

    `statuses` maps status codes (or classes such as "2xx") to counts. `buckets` are per-bucket (not
    cumulative) counts of durations for the upper bounds `bounds_ms`, the last one being +Inf.
    The Triton columns hold totals of the minute over all nodes, durations in nanoseconds.
    """

    endpoint = models.ForeignKey(Endpoint, on_delete=models.PROTECT, related_name="+")
    version = models.PositiveIntegerField()
    minute = models.DateTimeField()
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

    objects = MinuteRollupQuerySet.as_manager()

    class Meta:
        ordering: ClassVar[list[str]] = ["minute"]
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(fields=["endpoint", "version", "minute"], name="rollup_once")
        ]
        indexes: ClassVar[list[models.Index]] = [
            models.Index(fields=["endpoint", "minute"], name="rollup_endpoint_minute")
        ]

    def __str__(self) -> str:
        return f"{self.endpoint_id} v{self.version} {self.minute:%Y-%m-%d %H:%M}"


class MirrorMinuteQuerySet(OfModelQuerySet["MirrorMinute"]):
    model_path = "endpoint__model"


class MirrorMinute(models.Model):
    """One minute of the copies of requests that a mirror's version answered for nobody.

    The columns mean what they mean in a `MinuteRollup`; they are kept apart because no caller got
    any of these answers, so they are no live traffic and no promise rests on them.
    """

    endpoint = models.ForeignKey(Endpoint, on_delete=models.PROTECT, related_name="+")
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
