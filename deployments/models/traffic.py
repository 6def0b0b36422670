"""What callers call, and how its traffic is split."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _

from console.models import Job, User
from deployments.models.fleet import Gateway
from models_registry.models import Environment, RegisteredModel
from models_registry.models.catalog import OfModelQuerySet


class EndpointMode(models.TextChoices):
    NORMAL = "normal", _("Normal")
    FALLBACK = "fallback", _("Fallback")
    OPEN = "open", _("Circuit open")


class EndpointQuerySet(OfModelQuerySet["Endpoint"]):
    model_path = "model__"


class Endpoint(models.Model):
    """A model in an environment, as its callers see it.

    `last_revision` numbers the splits under this row's lock. `current` is the newest split that is
    wanted; whether gateways have applied it is written on the split.
    """

    model = models.ForeignKey(RegisteredModel, on_delete=models.PROTECT, related_name="+")
    environment = models.ForeignKey(Environment, on_delete=models.PROTECT, related_name="+")
    last_revision = models.PositiveIntegerField(default=0)
    current = models.OneToOneField(
        "deployments.TrafficSplit",
        on_delete=models.PROTECT,
        null=True,
        blank=True,
        related_name="+",
    )
    created_at = models.DateTimeField(auto_now_add=True)

    objects = EndpointQuerySet.as_manager()

    class Meta:
        ordering: ClassVar[list[str]] = ["environment__name", "model__name"]
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(
                fields=["model", "environment"], name="one_endpoint_per_model_env"
            )
        ]

    def __str__(self) -> str:
        return f"{self.environment.name}/{self.model.name}"


class SplitState(models.TextChoices):
    PENDING = "pending", _("Pending")
    APPLIED = "applied", _("Applied")
    REFUSED = "refused", _("Refused")
    SUPERSEDED = "superseded", _("Superseded")


class SplitCause(models.TextChoices):
    INITIAL = "initial", _("First version")
    MANUAL = "manual", _("By hand")
    ROLLBACK = "rollback", _("Rollback")
    MODE = "mode", _("Mode change")
    UNLOAD = "unload", _("Unload")
    ROLLOUT = "rollout", _("Rollout")
    AUTOMATIC = "automatic", _("By itself")
    EXPERIMENT = "experiment", _("Experiment")


class TrafficSplitQuerySet(OfModelQuerySet["TrafficSplit"]):
    model_path = "endpoint__model__"


class TrafficSplit(models.Model):
    """One numbered revision of an endpoint's routing; immutable but for its state.

    `weights` maps version numbers (as text) to basis points that sum to 10,000; `slices` are the
    same shares as pieces `[version, basis points]` of the line on which callers' hashes lie, in
    order: a piece that stays where it was keeps its callers. `testers` are callers, by the value
    of the sticky header, who always get one version. The mode is part of the revision, so that
    every change of what callers get is acknowledged and audited the same way. `probe` are the basis
    points of requests that try the versions while the mode keeps all others away from them.
    """

    endpoint = models.ForeignKey(Endpoint, on_delete=models.PROTECT, related_name="splits")
    revision = models.PositiveIntegerField()
    mode = models.CharField(
        max_length=10, choices=EndpointMode.choices, default=EndpointMode.NORMAL
    )
    weights = models.JSONField()
    slices = models.JSONField(default=list)
    sticky_header = models.CharField(max_length=80, default="x-user-id")
    header_rules = models.JSONField(default=list)
    testers = models.JSONField(default=list)
    # Basis points of the sticky callers who got another version than before.
    moved = models.PositiveIntegerField(default=0)
    mirror = models.JSONField(null=True, blank=True)
    probe = models.PositiveIntegerField(default=0)
    cause = models.CharField(max_length=10, choices=SplitCause.choices, default=SplitCause.MANUAL)
    author = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    reason = models.TextField(blank=True)
    job = models.ForeignKey(Job, on_delete=models.PROTECT, null=True, blank=True, related_name="+")
    state = models.CharField(max_length=12, choices=SplitState.choices, default=SplitState.PENDING)
    created_at = models.DateTimeField()
    applied_at = models.DateTimeField(null=True, blank=True)

    objects = TrafficSplitQuerySet.as_manager()

    class Meta:
        ordering: ClassVar[list[str]] = ["-revision"]
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(fields=["endpoint", "revision"], name="split_revision_once")
        ]

    def __str__(self) -> str:
        return f"{self.endpoint} r{self.revision}"


class SplitAck(models.Model):
    """One gateway's word on one split: applied or refused, with its reason."""

    split = models.ForeignKey(TrafficSplit, on_delete=models.CASCADE, related_name="acks")
    gateway = models.ForeignKey(Gateway, on_delete=models.CASCADE, related_name="+")
    applied = models.BooleanField()
    detail = models.TextField(blank=True)
    at = models.DateTimeField()

    class Meta:
        ordering: ClassVar[list[str]] = ["at"]
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(fields=["split", "gateway"], name="one_ack_per_gateway")
        ]

    def __str__(self) -> str:
        return f"{self.gateway_id} on {self.split_id}"
