"""Load tests of a version in an environment: what was asked, and what came out."""

from __future__ import annotations

import uuid
from typing import ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _

from console.models import Job, User
from models_registry.models.artifacts import Artifact
from models_registry.models.catalog import OfModelQuerySet
from models_registry.models.releases import Environment
from models_registry.models.versions import ModelVersion


class LoadPattern(models.TextChoices):
    PULSE = "pulse", _("Pulse")
    STEP = "step", _("Step")
    MIXED = "mixed", _("Mixed")


class LoadTestQuerySet(OfModelQuerySet["LoadTest"]):
    model_path = "version__model__"


class LoadTest(models.Model):
    """One load test; `passed` is None until it has ended with a verdict.

    `rate` is the highest rate asked for, in requests per second; `seconds` how long it runs.
    `report` is the result as data, `report_html` the same for people.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    version = models.ForeignKey(ModelVersion, on_delete=models.PROTECT, related_name="load_tests")
    environment = models.ForeignKey(Environment, on_delete=models.PROTECT, related_name="+")
    pattern = models.CharField(max_length=8, choices=LoadPattern.choices)
    rate = models.PositiveIntegerField()
    seconds = models.PositiveIntegerField()
    limit_p95_ms = models.FloatField()
    limit_success = models.FloatField()
    passed = models.BooleanField(null=True, blank=True)
    report = models.JSONField(null=True, blank=True)
    report_html = models.ForeignKey(
        Artifact, on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )
    job = models.ForeignKey(Job, on_delete=models.PROTECT, null=True, blank=True, related_name="+")
    requested_by = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    requested_at = models.DateTimeField(auto_now_add=True)
    ended_at = models.DateTimeField(null=True, blank=True)

    objects = LoadTestQuerySet.as_manager()

    class Meta:
        ordering: ClassVar[list[str]] = ["-requested_at"]
        indexes: ClassVar[list[models.Index]] = [
            models.Index(fields=["version", "-requested_at"], name="load_test_recent")
        ]

    def __str__(self) -> str:
        return f"{self.pattern} load test of {self.version_id} in {self.environment.name}"
