"""Where models run: nodes, and gateways with their listeners."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _

from models_registry.models import Environment


class NodeState(models.TextChoices):
    READY = "ready", _("Ready")
    CORDONED = "cordoned", _("Cordoned")
    LOST = "lost", _("Lost")


class Node(models.Model):
    """One Triton instance and its machine.

    Addresses are `host:port`. `repository` is the model repository's folder as the node's worker
    sees it. A cordoned node takes no new placements; a lost one has not answered in time.

    `metrics_address` is Triton's own `/metrics`, `dcgm_address` that of a DCGM exporter, and
    `host_metrics_address` that of a node exporter; empty where there is none.
    """

    name = models.SlugField(max_length=40, unique=True)
    environments = models.ManyToManyField(Environment, related_name="+")
    http_address = models.CharField(max_length=120)
    grpc_address = models.CharField(max_length=120)
    metrics_address = models.CharField(max_length=120, blank=True)
    dcgm_address = models.CharField(max_length=120, blank=True)
    host_metrics_address = models.CharField(max_length=120, blank=True)
    repository = models.CharField(max_length=300)
    gpus = models.JSONField(default=list)
    labels = models.JSONField(default=dict)
    state = models.CharField(max_length=10, choices=NodeState.choices, default=NodeState.READY)
    cordon_reason = models.CharField(max_length=300, blank=True)
    triton_version = models.CharField(max_length=40, blank=True)
    last_seen_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering: ClassVar[list[str]] = ["name"]

    def __str__(self) -> str:
        return self.name

    @property
    def queue(self) -> str:
        """The Celery queue that this node's own worker listens on."""
        return f"node.{self.name}"


class GatewayProduct(models.TextChoices):
    ENVOY = "envoy", "Envoy"
    KONG = "kong", "Kong"
    KUBERNETES = "kubernetes", "Kubernetes Gateway API"


class Gateway(models.Model):
    """One gateway instance; for Envoy `name` is the node id that it introduces itself with.

    `options` are what its product needs besides an address (see the adapters): names alone, and
    where a secret lies, never the secret itself.
    """

    name = models.SlugField(max_length=40, unique=True)
    adapter = models.CharField(
        max_length=20, choices=GatewayProduct.choices, default=GatewayProduct.ENVOY
    )
    admin_url = models.CharField(max_length=200)
    options = models.JSONField(default=dict)
    connected = models.BooleanField(default=False)
    connected_at = models.DateTimeField(null=True, blank=True)
    snapshot = models.CharField(max_length=64, blank=True)
    acknowledged_at = models.DateTimeField(null=True, blank=True)
    last_refusal = models.TextField(blank=True)
    last_refusal_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering: ClassVar[list[str]] = ["name"]

    def __str__(self) -> str:
        return self.name


class GatewayListener(models.Model):
    """The port on which a gateway takes calls for one environment."""

    gateway = models.ForeignKey(Gateway, on_delete=models.CASCADE, related_name="listeners")
    environment = models.ForeignKey(Environment, on_delete=models.PROTECT, related_name="+")
    address = models.CharField(max_length=80, default="127.0.0.1")
    port = models.PositiveIntegerField()
    public_url = models.CharField(max_length=200)
    # Files on the machine of the gateway control, read anew when they change; empty: no TLS.
    certificate_file = models.CharField(max_length=300, blank=True)
    key_file = models.CharField(max_length=300, blank=True)
    certificate_not_after = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering: ClassVar[list[str]] = ["gateway_id", "environment_id"]
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(
                fields=["gateway", "environment"], name="one_listener_per_environment"
            )
        ]

    def __str__(self) -> str:
        return self.public_url
