"""Reports of promises that leave the console: links that show one, and mail on the 1st."""

from __future__ import annotations

import uuid
from typing import ClassVar

from django.db import models

from console.models import Team, User
from deployments.models.traffic import Endpoint
from models_registry.models import Environment
from models_registry.models.catalog import OfModelQuerySet


class SlaShareQuerySet(OfModelQuerySet["SlaShare"]):
    model_path = "endpoint__model__"


class SlaShare(models.Model):
    """A link by which anybody reads one promise until it expires.

    Only the SHA-256 digest of its secret is kept: the link is told once. `uses` counts what was
    opened by it, `note` says for whom it was made.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    endpoint = models.ForeignKey(Endpoint, on_delete=models.PROTECT, related_name="sla_shares")
    digest = models.CharField(max_length=64, unique=True)
    note = models.CharField(max_length=200, blank=True)
    created_by = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField()
    revoked_by = models.ForeignKey(
        User, on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )
    revoked_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True)
    uses = models.PositiveIntegerField(default=0)

    objects = SlaShareQuerySet.as_manager()

    class Meta:
        ordering: ClassVar[list[str]] = ["-created_at"]
        indexes: ClassVar[list[models.Index]] = [
            models.Index(fields=["endpoint", "-created_at"], name="sla_share_of_endpoint")
        ]

    def __str__(self) -> str:
        return f"link to {self.endpoint_id} until {self.expires_at:%Y-%m-%d}"


class SlaSubscription(models.Model):
    """A report that a person gets on the 1st of each month, about the month before.

    With an endpoint it is that promise's; else the portfolio of all promises that the person may
    see, of one team or one environment where these are named.
    """

    person = models.ForeignKey(User, on_delete=models.CASCADE, related_name="sla_subscriptions")
    endpoint = models.ForeignKey(
        Endpoint, on_delete=models.CASCADE, null=True, blank=True, related_name="+"
    )
    team = models.ForeignKey(
        Team, on_delete=models.CASCADE, null=True, blank=True, related_name="+"
    )
    environment = models.ForeignKey(
        Environment, on_delete=models.CASCADE, null=True, blank=True, related_name="+"
    )
    language = models.CharField(max_length=10)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering: ClassVar[list[str]] = ["pk"]
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(
                fields=["person", "endpoint", "team", "environment"],
                nulls_distinct=False,
                name="one_sla_subscription_each",
            )
        ]

    def __str__(self) -> str:
        return f"{self.person_id}: report {self.pk}"


class SlaReport(models.Model):
    """One month's report to one person: asked for once, sent once. `month` is its first day."""

    subscription = models.ForeignKey(
        SlaSubscription, on_delete=models.CASCADE, related_name="reports"
    )
    month = models.DateField()
    asked_at = models.DateTimeField(auto_now_add=True)
    job = models.UUIDField(null=True, blank=True)
    sent_at = models.DateTimeField(null=True, blank=True)
    address = models.CharField(max_length=254, blank=True)
    sha256 = models.CharField(max_length=64, blank=True)
    size = models.PositiveIntegerField(default=0)

    class Meta:
        ordering: ClassVar[list[str]] = ["-month", "-pk"]
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(fields=["subscription", "month"], name="sla_report_once")
        ]

    def __str__(self) -> str:
        return f"{self.month:%Y-%m} of {self.subscription_id}"


class SlaStanding(models.Model):
    """How an endpoint's promise stood when it was last looked at, so that many can be sorted.

    `rank` puts the worst first (0 broken, 1 at risk, 2 no data, 3 kept); `months` holds what was
    reached in the months before, by `YYYY-MM`. Pages show figures counted anew: this row says
    only in which order, and what a small trend looks like.
    """

    endpoint = models.OneToOneField(
        Endpoint, on_delete=models.CASCADE, primary_key=True, related_name="sla_standing"
    )
    state = models.CharField(max_length=8)
    rank = models.PositiveSmallIntegerField()
    budget_left_share = models.FloatField(null=True, blank=True)
    months = models.JSONField(default=dict)
    counted_at = models.DateTimeField()
    months_counted_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering: ClassVar[list[str]] = ["rank"]
        indexes: ClassVar[list[models.Index]] = [
            models.Index(fields=["rank", "endpoint"], name="sla_standing_rank")
        ]

    def __str__(self) -> str:
        return f"{self.endpoint_id} {self.state}"
