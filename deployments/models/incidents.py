"""What went wrong at an endpoint and what was done about it, and the policy that acts by itself."""

from __future__ import annotations

import uuid
from typing import ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from console.models import User
from deployments.models.rollouts import Rollout
from deployments.models.traffic import Endpoint, TrafficSplit
from models_registry.models.catalog import OfModelQuerySet


class IncidentState(models.TextChoices):
    OPEN = "open", pgettext_lazy("incident", "Open")
    ACKNOWLEDGED = "acknowledged", _("Acknowledged")
    RESOLVED = "resolved", _("Resolved")


class IncidentSeverity(models.TextChoices):
    P1 = "P1", _("P1")
    P2 = "P2", _("P2")


class IncidentQuerySet(OfModelQuerySet["Incident"]):
    model_path = "endpoint__model__"


class Incident(models.Model):
    """One disturbance of one endpoint, from its first sign to its end.

    `cause` is a code (error_rate, latency, outputs, no_node, rollout_failed, by_hand …); `level`
    the highest rollback level that it came to (0: none yet). `ended_at` is when callers were well
    again, `resolved_at` when a person (or the automatic return) closed it.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    endpoint = models.ForeignKey(Endpoint, on_delete=models.PROTECT, related_name="incidents")
    cause = models.CharField(max_length=40)
    title = models.CharField(max_length=200)
    severity = models.CharField(
        max_length=2, choices=IncidentSeverity.choices, default=IncidentSeverity.P2
    )
    state = models.CharField(
        max_length=14, choices=IncidentState.choices, default=IncidentState.OPEN
    )
    level = models.PositiveSmallIntegerField(default=0)
    version = models.PositiveIntegerField(null=True, blank=True)
    rollout = models.ForeignKey(
        Rollout, on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, blank=True)
    acknowledged_by = models.ForeignKey(
        User, on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )
    acknowledged_at = models.DateTimeField(null=True, blank=True)
    resolved_by = models.ForeignKey(
        User, on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )
    resolved_at = models.DateTimeField(null=True, blank=True)
    summary = models.TextField(blank=True)

    objects = IncidentQuerySet.as_manager()

    class Meta:
        ordering: ClassVar[list[str]] = ["-started_at"]
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(
                fields=["endpoint"],
                condition=~models.Q(state="resolved"),
                name="one_unresolved_incident_per_endpoint",
            )
        ]

    def __str__(self) -> str:
        return f"{self.endpoint}: {self.title}"


class IncidentEvent(models.Model):
    """A line of an incident's timeline."""

    incident = models.ForeignKey(Incident, on_delete=models.CASCADE, related_name="events")
    at = models.DateTimeField()
    kind = models.CharField(max_length=40)
    level = models.PositiveSmallIntegerField(null=True, blank=True)
    split = models.ForeignKey(
        TrafficSplit, on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )
    actor = models.ForeignKey(
        User, on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )
    message = models.TextField(blank=True)
    data = models.JSONField(default=dict)

    class Meta:
        ordering: ClassVar[list[str]] = ["at", "pk"]
        indexes: ClassVar[list[models.Index]] = [
            models.Index(fields=["incident", "at"], name="incident_event_at")
        ]

    def __str__(self) -> str:
        return f"{self.incident_id} {self.kind}"


class RollbackPolicyQuerySet(OfModelQuerySet["RollbackPolicy"]):
    model_path = "endpoint__model__"


class RollbackPolicy(models.Model):
    """When an endpoint goes down the levels, and comes back, by itself.

    `document` is what people decide, `progress` the pure rule's own state (level, since when, the
    probes of a half-open return). `revision` guards against two writers.
    """

    endpoint = models.OneToOneField(
        Endpoint, on_delete=models.CASCADE, related_name="rollback_policy"
    )
    automatic = models.BooleanField(default=False)
    document = models.JSONField(default=dict)
    progress = models.JSONField(default=dict)
    revision = models.PositiveIntegerField(default=1)
    changed_by = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    changed_at = models.DateTimeField(auto_now=True)

    objects = RollbackPolicyQuerySet.as_manager()

    class Meta:
        ordering: ClassVar[list[str]] = ["endpoint_id"]
        verbose_name_plural = "rollback policies"

    def __str__(self) -> str:
        return str(self.endpoint_id)
