"""Why a version does not load on a node: what the five steps found."""

from __future__ import annotations

import uuid
from typing import ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _

from console.models import Job, User
from deployments.models.deployments import Deployment
from deployments.models.fleet import Node
from models_registry.models import ModelVersion
from models_registry.models.catalog import OfModelQuerySet


class DiagnosisState(models.TextChoices):
    RUNNING = "running", _("Running")
    FOUND = "found", _("Cause found")
    SUSPECTED = "suspected", _("Something to look at")
    CLEAN = "clean", _("Nothing found")
    FAILED = "failed", _("Not finished")


class DiagnosisQuerySet(OfModelQuerySet["Diagnosis"]):
    model_path = "version__model__"


class Diagnosis(models.Model):
    """One look at a version on a node, as a job of that node's own worker.

    `steps` is what was found, step by step: [{name, verdict, findings: [{code, verdict, data,
    evidence}]}] (see deployments.rules.diagnosis.findings, which has the words). `cause` is the
    code of the finding that explains it best, "" without one. `automatic` ones were asked for by a
    deploy that failed; `failed_job` is that deploy.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    version = models.ForeignKey(ModelVersion, on_delete=models.PROTECT, related_name="+")
    node = models.ForeignKey(Node, on_delete=models.PROTECT, related_name="+")
    deployment = models.ForeignKey(
        Deployment, on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )
    failed_job = models.ForeignKey(
        Job, on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )
    job = models.ForeignKey(Job, on_delete=models.PROTECT, null=True, blank=True, related_name="+")
    state = models.CharField(
        max_length=10, choices=DiagnosisState.choices, default=DiagnosisState.RUNNING
    )
    automatic = models.BooleanField(default=False)
    try_load = models.BooleanField(default=True)
    cause = models.CharField(max_length=60, blank=True)
    steps = models.JSONField(default=list)
    facts = models.JSONField(default=dict)
    requested_by = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    requested_at = models.DateTimeField(auto_now_add=True)
    ended_at = models.DateTimeField(null=True, blank=True)

    objects = DiagnosisQuerySet.as_manager()

    class Meta:
        ordering: ClassVar[list[str]] = ["-requested_at"]
        verbose_name_plural = "diagnoses"
        indexes: ClassVar[list[models.Index]] = [
            models.Index(fields=["version", "-requested_at"], name="diagnosis_version_recent"),
            models.Index(fields=["node", "-requested_at"], name="diagnosis_node_recent"),
        ]
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(
                fields=["version", "node"],
                condition=models.Q(state="running"),
                name="one_running_diagnosis_per_version_and_node",
            )
        ]

    def __str__(self) -> str:
        return f"{self.version} on {self.node}"
