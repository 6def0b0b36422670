"""How an endpoint's model telemetry is measured, and where counters of senders stood last."""

from __future__ import annotations

from typing import ClassVar

from django.db import models

from console.models import User
from deployments.models.measurements import MeasuredSeries
from deployments.models.traffic import Endpoint
from models_registry.models.catalog import OfModelQuerySet


class TelemetrySettingQuerySet(OfModelQuerySet["TelemetrySetting"]):
    model_path = "endpoint__model__"


class TelemetrySetting(models.Model):
    """What people chose for an endpoint; without a row the contract's drift clause decides.

    `measured`: drift and entropy are measured although no contract promises it. `basis_points` is
    the share of its requests that is looked at. `revision` guards against two writers.
    """

    endpoint = models.OneToOneField(
        Endpoint, on_delete=models.CASCADE, related_name="telemetry_setting"
    )
    measured = models.BooleanField(default=False)
    basis_points = models.PositiveIntegerField(default=500)
    revision = models.PositiveIntegerField(default=1)
    changed_by = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    changed_at = models.DateTimeField(auto_now=True)

    objects = TelemetrySettingQuerySet.as_manager()

    class Meta:
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.CheckConstraint(
                condition=models.Q(basis_points__gte=1, basis_points__lte=10_000),
                name="telemetry_share_is_a_share",
            )
        ]

    def __str__(self) -> str:
        return str(self.endpoint_id)


class TelemetryCounter(models.Model):
    """Where a counter that somebody sends stood last: what it grew by is what is kept.

    `source` is the digest of who counts (the sender's resource attributes); times are the sender's,
    in nanoseconds since 1970.
    """

    series = models.ForeignKey(MeasuredSeries, on_delete=models.CASCADE, related_name="+")
    source = models.CharField(max_length=64)
    start_ns = models.BigIntegerField(default=0)
    time_ns = models.BigIntegerField(default=0)
    value = models.FloatField(default=0.0)
    count = models.BigIntegerField(default=0)
    seen_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(fields=["series", "source"], name="telemetry_counter_once")
        ]
        indexes: ClassVar[list[models.Index]] = [
            models.Index(fields=["seen_at"], name="telemetry_counter_seen")
        ]

    def __str__(self) -> str:
        return f"{self.series_id} {self.source[:8]}"
