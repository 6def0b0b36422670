"""A version's way to all traffic, step by step, and every measurement that decided on it."""

from __future__ import annotations

import uuid
from typing import ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _

from console.models import User
from deployments.models.traffic import Endpoint, TrafficSplit
from models_registry.models.catalog import OfModelQuerySet


class RolloutState(models.TextChoices):
    RUNNING = "running", _("Running")
    PAUSED = "paused", _("Paused")
    PROMOTED = "promoted", _("Promoted")
    ABORTED = "aborted", _("Aborted")
    ROLLED_BACK = "rolled_back", _("Rolled back")


ACTIVE_ROLLOUTS = (RolloutState.RUNNING, RolloutState.PAUSED)


class AnalysisPhase(models.TextChoices):
    """The phases of Argo Rollouts: a measurement that could not be taken is no failed one."""

    RUNNING = "running", _("Running")
    SUCCESSFUL = "successful", _("Successful")
    FAILED = "failed", _("Failed")
    ERROR = "error", _("Error")
    INCONCLUSIVE = "inconclusive", _("Inconclusive")


class RolloutQuerySet(OfModelQuerySet["Rollout"]):
    model_path = "endpoint__model__"


class Rollout(models.Model):
    """A candidate's way from nothing to all of an endpoint's traffic.

    `plan` holds the steps and metrics as they were asked for and never changes; `progress` is the
    pure rule's own state (step, when it began, counts of each metric). `revision` is the split
    that the rollout wrote last: another one means that a person has taken the traffic over.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    endpoint = models.ForeignKey(Endpoint, on_delete=models.PROTECT, related_name="rollouts")
    version = models.PositiveIntegerField()
    baseline = models.PositiveIntegerField()
    plan = models.JSONField()
    progress = models.JSONField(default=dict)
    state = models.CharField(
        max_length=12, choices=RolloutState.choices, default=RolloutState.RUNNING
    )
    # Why it stands still, or how it ended: a code of the rules, and words for people.
    cause = models.CharField(max_length=40, blank=True)
    message = models.TextField(blank=True)
    reason = models.TextField(blank=True)
    revision = models.PositiveIntegerField(default=0)
    started_by = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    created_at = models.DateTimeField()
    changed_at = models.DateTimeField(auto_now=True)
    next_look_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, blank=True)

    objects = RolloutQuerySet.as_manager()

    class Meta:
        ordering: ClassVar[list[str]] = ["-created_at"]
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(
                fields=["endpoint"],
                condition=models.Q(state__in=["running", "paused"]),
                name="one_active_rollout_per_endpoint",
            )
        ]
        indexes: ClassVar[list[models.Index]] = [
            models.Index(fields=["state", "next_look_at"], name="rollout_state_next_look")
        ]

    def __str__(self) -> str:
        return f"{self.endpoint} v{self.version}"


class RolloutEvent(models.Model):
    """What happened to a rollout, in order: started, weight set, paused, resumed, ended."""

    rollout = models.ForeignKey(Rollout, on_delete=models.CASCADE, related_name="events")
    at = models.DateTimeField()
    kind = models.CharField(max_length=40)
    step = models.PositiveIntegerField(null=True, blank=True)
    split = models.ForeignKey(
        TrafficSplit, on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )
    actor = models.ForeignKey(
        User, on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )
    message = models.TextField(blank=True)

    class Meta:
        ordering: ClassVar[list[str]] = ["at", "pk"]
        indexes: ClassVar[list[models.Index]] = [
            models.Index(fields=["rollout", "at"], name="rollout_event_at")
        ]

    def __str__(self) -> str:
        return f"{self.rollout_id} {self.kind}"


class AnalysisRun(models.Model):
    """One run of a step's (or of the whole rollout's) metrics; `step` is None for the latter."""

    rollout = models.ForeignKey(Rollout, on_delete=models.CASCADE, related_name="analyses")
    step = models.PositiveIntegerField(null=True, blank=True)
    phase = models.CharField(
        max_length=12, choices=AnalysisPhase.choices, default=AnalysisPhase.RUNNING
    )
    message = models.TextField(blank=True)
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering: ClassVar[list[str]] = ["started_at", "pk"]

    def __str__(self) -> str:
        return f"{self.rollout_id} step {self.step}: {self.phase}"


class Measurement(models.Model):
    """One value of one metric, with the limit that it was held against and what came of it."""

    analysis = models.ForeignKey(AnalysisRun, on_delete=models.CASCADE, related_name="measurements")
    metric = models.CharField(max_length=80)
    at = models.DateTimeField()
    value = models.FloatField(null=True, blank=True)
    baseline_value = models.FloatField(null=True, blank=True)
    requests = models.BigIntegerField(null=True, blank=True)
    limit = models.CharField(max_length=200, blank=True)
    phase = models.CharField(max_length=12, choices=AnalysisPhase.choices)
    dry_run = models.BooleanField(default=False)
    message = models.TextField(blank=True)

    class Meta:
        ordering: ClassVar[list[str]] = ["at", "pk"]
        indexes: ClassVar[list[models.Index]] = [
            models.Index(fields=["analysis", "metric", "at"], name="measurement_metric_at")
        ]

    def __str__(self) -> str:
        return f"{self.metric} {self.value} {self.phase}"
