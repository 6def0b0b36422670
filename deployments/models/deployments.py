"""A release in an environment, and its placement on each node."""

from __future__ import annotations

import uuid
from typing import ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _

from console.models import Job, User
from deployments.models.fleet import Node
from models_registry.models import RegisteredModel, Release
from models_registry.models.catalog import OfModelQuerySet


class ServingGenerationQuerySet(OfModelQuerySet["ServingGeneration"]):
    model_path = "model__"


class ServingGeneration(models.Model):
    """A Triton model that holds all versions with one and the same configuration.

    Triton keeps one config.pbtxt for all versions of a model and reloads them all when it changes,
    so a different configuration gets a Triton model of its own: `name`, `name_g2`, `name_g3` …
    """

    model = models.ForeignKey(RegisteredModel, on_delete=models.PROTECT, related_name="+")
    number = models.PositiveIntegerField()
    triton_model = models.CharField(max_length=80, unique=True)
    config_sha256 = models.CharField(max_length=64)
    created_at = models.DateTimeField(auto_now_add=True)

    objects = ServingGenerationQuerySet.as_manager()

    class Meta:
        ordering: ClassVar[list[str]] = ["model_id", "number"]
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(fields=["model", "number"], name="generation_number_once"),
            models.UniqueConstraint(
                fields=["model", "config_sha256"], name="generation_config_once"
            ),
        ]

    def __str__(self) -> str:
        return self.triton_model


class DeploymentQuerySet(OfModelQuerySet["Deployment"]):
    model_path = "release__version__model__"


class Deployment(models.Model):
    """A release that should run in its environment (or, once `removed_at` is set, should not)."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    release = models.ForeignKey(Release, on_delete=models.PROTECT, related_name="+")
    generation = models.ForeignKey(ServingGeneration, on_delete=models.PROTECT, related_name="+")
    requested_by = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)
    removal_requested_at = models.DateTimeField(null=True, blank=True)
    removed_at = models.DateTimeField(null=True, blank=True)

    objects = DeploymentQuerySet.as_manager()

    class Meta:
        ordering: ClassVar[list[str]] = ["-created_at"]
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(
                fields=["release"],
                condition=models.Q(removed_at__isnull=True),
                name="one_running_deployment_per_release",
            )
        ]

    def __str__(self) -> str:
        return str(self.release)


class PlacementState(models.TextChoices):
    PENDING = "pending", _("Pending")
    PLACING = "placing", _("Placing")
    LOADING = "loading", _("Loading")
    READY = "ready", _("Ready")
    DRAINING = "draining", _("Draining")
    UNLOADED = "unloaded", _("Unloaded")
    FAILED = "failed", _("Failed")


class PlacementQuerySet(OfModelQuerySet["Placement"]):
    model_path = "deployment__release__version__model__"


class Placement(models.Model):
    """A deployment on one node; its files lie in `<triton_model>/<version number>/`."""

    deployment = models.ForeignKey(Deployment, on_delete=models.PROTECT, related_name="placements")
    node = models.ForeignKey(Node, on_delete=models.PROTECT, related_name="+")
    state = models.CharField(
        max_length=10, choices=PlacementState.choices, default=PlacementState.PENDING
    )
    job = models.ForeignKey(Job, on_delete=models.PROTECT, null=True, blank=True, related_name="+")
    detail = models.TextField(blank=True)
    digests = models.JSONField(default=dict)
    verified_at = models.DateTimeField(null=True, blank=True)
    # What the last verification of the files on the node found: [{code, detail}], empty when all
    # is as it was signed.
    verification_faults = models.JSONField(default=list)
    # An OpenSSF model-signing signature (a Sigstore bundle) of the version's folder.
    folder_signature = models.JSONField(null=True, blank=True)
    folder_signed_by = models.CharField(max_length=64, blank=True)
    ready_at = models.DateTimeField(null=True, blank=True)
    changed_at = models.DateTimeField(auto_now=True)

    objects = PlacementQuerySet.as_manager()

    class Meta:
        ordering: ClassVar[list[str]] = ["deployment_id", "node_id"]
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(fields=["deployment", "node"], name="one_placement_per_node")
        ]
        indexes: ClassVar[list[models.Index]] = [
            models.Index(fields=["node", "state"], name="placement_node_state")
        ]

    def __str__(self) -> str:
        return f"{self.deployment_id} on {self.node_id}: {self.state}"
