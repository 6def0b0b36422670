"""Two versions compared: by what their answers led to, and by the answers themselves."""

from __future__ import annotations

import uuid
from typing import ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _

from console.models import User
from deployments.models.traffic import Endpoint
from models_registry.models.catalog import OfModelQuerySet


class ExperimentState(models.TextChoices):
    RUNNING = "running", _("Running")
    STOPPED = "stopped", _("Stopped")
    TAKEN_OFF = "taken_off", _("Taken off")


class ExperimentQuerySet(OfModelQuerySet["Experiment"]):
    model_path = "endpoint__model__"


class Experiment(models.Model):
    """An A/B comparison of two versions of an endpoint by the outcomes that callers report.

    `settings` holds what was decided before it began (outcome's name, margin, confidence, time in
    which an outcome counts, whether a worse candidate is taken off); it never changes.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    endpoint = models.ForeignKey(Endpoint, on_delete=models.PROTECT, related_name="experiments")
    name = models.CharField(max_length=80)
    baseline = models.PositiveIntegerField()
    candidate = models.PositiveIntegerField()
    settings = models.JSONField(default=dict)
    state = models.CharField(
        max_length=12, choices=ExperimentState.choices, default=ExperimentState.RUNNING
    )
    message = models.TextField(blank=True)
    started_by = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, blank=True)

    objects = ExperimentQuerySet.as_manager()

    class Meta:
        ordering: ClassVar[list[str]] = ["-started_at"]
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(
                fields=["endpoint"],
                condition=models.Q(state="running"),
                name="one_running_experiment_per_endpoint",
            )
        ]

    def __str__(self) -> str:
        return self.name


class ExperimentCount(models.Model):
    """Answers and outcomes of one version within one minute of an experiment."""

    experiment = models.ForeignKey(Experiment, on_delete=models.CASCADE, related_name="counts")
    version = models.PositiveIntegerField()
    minute = models.DateTimeField()
    answered = models.BigIntegerField(default=0)
    converted = models.BigIntegerField(default=0)

    class Meta:
        ordering: ClassVar[list[str]] = ["minute", "version"]
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(
                fields=["experiment", "version", "minute"], name="experiment_count_once"
            )
        ]

    def __str__(self) -> str:
        return f"{self.experiment_id} v{self.version} {self.minute:%H:%M}"


class Outcome(models.Model):
    """What an answer led to, as its caller reported it; counted once for each request and name."""

    experiment = models.ForeignKey(Experiment, on_delete=models.CASCADE, related_name="outcomes")
    request_id = models.CharField(max_length=100)
    name = models.CharField(max_length=60)
    version = models.PositiveIntegerField()
    value = models.FloatField(default=1.0)
    at = models.DateTimeField()

    class Meta:
        ordering: ClassVar[list[str]] = ["-at"]
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(
                fields=["experiment", "request_id", "name"], name="outcome_once"
            )
        ]

    def __str__(self) -> str:
        return f"{self.request_id} {self.name}"


class ComparisonMinuteQuerySet(OfModelQuerySet["ComparisonMinute"]):
    model_path = "endpoint__model__"


class ComparisonMinute(models.Model):
    """One minute of sampled requests that were answered by two versions, and how they differed.

    `outputs` maps each output's name to its own figures: rows, rows that differ, maximum
    difference, histogram of the differences, and what broke the contract (NaN, out of range).
    """

    endpoint = models.ForeignKey(Endpoint, on_delete=models.PROTECT, related_name="+")
    baseline = models.PositiveIntegerField()
    candidate = models.PositiveIntegerField()
    minute = models.DateTimeField()
    sampled = models.BigIntegerField(default=0)
    compared = models.BigIntegerField(default=0)
    differing = models.BigIntegerField(default=0)
    baseline_faults = models.BigIntegerField(default=0)
    candidate_faults = models.BigIntegerField(default=0)
    max_difference = models.FloatField(null=True, blank=True)
    outputs = models.JSONField(default=dict)

    objects = ComparisonMinuteQuerySet.as_manager()

    class Meta:
        ordering: ClassVar[list[str]] = ["minute"]
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(
                fields=["endpoint", "baseline", "candidate", "minute"], name="comparison_once"
            )
        ]

    def __str__(self) -> str:
        return f"{self.endpoint_id} v{self.candidate} {self.minute:%H:%M}"
