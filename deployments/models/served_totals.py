"""What was served since counting began, as counters that only grow: for Prometheus."""

from __future__ import annotations

from typing import ClassVar

from django.db import models

from deployments.models.traffic import Endpoint
from models_registry.models.catalog import OfModelQuerySet


class ServedTotalQuerySet(OfModelQuerySet["ServedTotal"]):
    model_path = "endpoint__model__"


class ServedTotal(models.Model):
    """All that was ever booked for one version at one endpoint (version 0: the gateway itself).

    It grows in the transaction that books the minutes and is never taken back, whatever retention
    removes. `timed` counts the requests whose duration is known, `within` those at or below a
    bound, by the bound in milliseconds as text. A bound that came later counts since it came: its
    rate is right, and its level says nothing.
    """

    endpoint = models.ForeignKey(Endpoint, on_delete=models.PROTECT, related_name="+")
    version = models.PositiveIntegerField()
    requests = models.BigIntegerField(default=0)
    caller_faults = models.BigIntegerField(default=0)
    provider_faults = models.BigIntegerField(default=0)
    timed = models.BigIntegerField(default=0)
    within = models.JSONField(default=dict)

    objects = ServedTotalQuerySet.as_manager()

    class Meta:
        ordering: ClassVar[list[str]] = ["endpoint", "version"]
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(fields=["endpoint", "version"], name="served_total_once")
        ]

    def __str__(self) -> str:
        return f"{self.endpoint_id} v{self.version}"
