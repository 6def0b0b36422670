"""Who may call an endpoint, how often, and how callers say who they are."""

from __future__ import annotations

import uuid
from typing import ClassVar

from django.db import models

from console.models import User
from deployments.models.traffic import Endpoint
from models_registry.models import Environment
from models_registry.models.catalog import OfModelQuerySet


class AccessPolicyQuerySet(OfModelQuerySet["AccessPolicy"]):
    model_path = "endpoint__model__"


class AccessPolicy(models.Model):
    """The checks that a request passes at the gateway before any model gets it.

    `document` is validated by `rules.access.policies`; `revision` guards against two writers.
    """

    endpoint = models.OneToOneField(
        Endpoint, on_delete=models.CASCADE, related_name="access_policy"
    )
    document = models.JSONField(default=dict)
    revision = models.PositiveIntegerField(default=1)
    changed_by = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    changed_at = models.DateTimeField(auto_now=True)

    objects = AccessPolicyQuerySet.as_manager()

    class Meta:
        ordering: ClassVar[list[str]] = ["endpoint_id"]
        verbose_name_plural = "access policies"

    def __str__(self) -> str:
        return str(self.endpoint_id)


class Caller(models.Model):
    """A program that calls endpoints of one environment; access policies name it."""

    environment = models.ForeignKey(Environment, on_delete=models.PROTECT, related_name="+")
    name = models.SlugField(max_length=60)
    description = models.CharField(max_length=300, blank=True)
    contact = models.CharField(max_length=120, blank=True)
    created_by = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)
    blocked_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering: ClassVar[list[str]] = ["environment_id", "name"]
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(fields=["environment", "name"], name="caller_once")
        ]

    def __str__(self) -> str:
        return self.name


class CallerKey(models.Model):
    """An API key of a caller; what is stored lets nobody call (see `rules.access.caller_keys`)."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    caller = models.ForeignKey(Caller, on_delete=models.CASCADE, related_name="keys")
    prefix = models.CharField(max_length=24, unique=True)
    digest = models.CharField(max_length=64)
    created_by = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering: ClassVar[list[str]] = ["-created_at"]

    def __str__(self) -> str:
        return self.prefix


class TokenIssuer(models.Model):
    """Who signs the JWTs that callers of an environment bring; `jwks` holds its public keys."""

    environment = models.ForeignKey(Environment, on_delete=models.PROTECT, related_name="+")
    name = models.SlugField(max_length=60)
    issuer = models.CharField(max_length=300)
    audiences = models.JSONField(default=list)
    caller_claim = models.CharField(max_length=60, default="sub")
    jwks_url = models.CharField(max_length=500, blank=True)
    jwks = models.JSONField(default=dict)
    fetched_at = models.DateTimeField(null=True, blank=True)
    created_by = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering: ClassVar[list[str]] = ["environment_id", "name"]
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(fields=["environment", "name"], name="token_issuer_once")
        ]

    def __str__(self) -> str:
        return self.name
