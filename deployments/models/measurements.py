"""Measured series that are no requests: of machines, of GPUs, of models, of the business."""

from __future__ import annotations

from typing import ClassVar

from django.contrib.postgres.indexes import BrinIndex
from django.db import models

from deployments.models.fleet import Node
from deployments.models.traffic import Endpoint
from models_registry.models.catalog import OfModelQuerySet


class MeasuredSeriesQuerySet(OfModelQuerySet["MeasuredSeries"]):
    model_path = "endpoint__model__"


class MeasuredSeries(models.Model):
    """One quantity of one thing: a node, a device of it, an endpoint, or a version there.

    `name` is snake_case and ends with its unit where it has one (`gpu_temperature_celsius`);
    `label` tells series of one name apart (a feature, say). `version` 0 is the endpoint as a whole.
    """

    node = models.ForeignKey(
        Node, on_delete=models.CASCADE, null=True, blank=True, related_name="+"
    )
    device = models.CharField(max_length=80, blank=True)
    endpoint = models.ForeignKey(
        Endpoint, on_delete=models.CASCADE, null=True, blank=True, related_name="+"
    )
    version = models.PositiveIntegerField(default=0)
    name = models.CharField(max_length=80)
    label = models.CharField(max_length=120, blank=True)
    unit = models.CharField(max_length=20, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    objects = MeasuredSeriesQuerySet.as_manager()

    class Meta:
        ordering: ClassVar[list[str]] = ["name", "label", "pk"]
        verbose_name_plural = "measured series"
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(
                fields=["node", "device", "endpoint", "version", "name", "label"],
                nulls_distinct=False,
                name="measured_series_once",
            ),
            models.CheckConstraint(
                condition=models.Q(node__isnull=False) | models.Q(endpoint__isnull=False),
                name="measured_series_of_something",
            ),
        ]
        indexes: ClassVar[list[models.Index]] = [
            models.Index(fields=["name"], name="measured_series_name")
        ]

    def __str__(self) -> str:
        return f"{self.name}{{{self.label}}}" if self.label else self.name


class SeriesMinute(models.Model):
    """What was measured within one minute: how often, the sum, the extremes, and the newest.

    A minute without a row was not measured; that is not zero. Partitioned by month.
    """

    series = models.ForeignKey(
        MeasuredSeries, on_delete=models.CASCADE, related_name="+", db_index=False
    )
    minute = models.DateTimeField()
    count = models.PositiveBigIntegerField()
    total = models.FloatField()
    minimum = models.FloatField()
    maximum = models.FloatField()
    newest = models.FloatField()
    newest_at = models.DateTimeField()

    class Meta:
        ordering: ClassVar[list[str]] = ["minute"]
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(fields=["series", "minute"], name="series_minute_once")
        ]
        indexes: ClassVar[list[models.Index]] = [
            BrinIndex(fields=["minute"], name="series_minute_brin", pages_per_range=32)
        ]

    def __str__(self) -> str:
        return f"{self.series_id} {self.minute:%Y-%m-%d %H:%M}"


class SeriesHour(models.Model):
    """The minutes of one hour added up; the fields mean what they mean in a `SeriesMinute`."""

    series = models.ForeignKey(
        MeasuredSeries, on_delete=models.CASCADE, related_name="+", db_index=False
    )
    hour = models.DateTimeField()
    count = models.PositiveBigIntegerField()
    total = models.FloatField()
    minimum = models.FloatField()
    maximum = models.FloatField()
    newest = models.FloatField()
    newest_at = models.DateTimeField()

    class Meta:
        ordering: ClassVar[list[str]] = ["hour"]
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(fields=["series", "hour"], name="series_hour_once")
        ]
        indexes: ClassVar[list[models.Index]] = [
            models.Index(fields=["hour"], name="series_hour_hour")
        ]

    def __str__(self) -> str:
        return f"{self.series_id} {self.hour:%Y-%m-%d %H}"
