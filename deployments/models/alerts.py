"""What raises an alert, the alerts that it raised, and what keeps one quiet for a while."""

from __future__ import annotations

import uuid
from typing import ClassVar, Self

from django.db import models
from django.utils.translation import gettext_lazy as _

from console.models import User
from deployments.models.fleet import Node
from deployments.models.incidents import Incident
from deployments.models.traffic import Endpoint
from models_registry.models import Environment, RegisteredModel
from models_registry.models.catalog import visible_models


class AlertSeverity(models.TextChoices):
    P1 = "P1", _("P1")
    P2 = "P2", _("P2")
    P3 = "P3", _("P3")


class AlertState(models.TextChoices):
    PENDING = "pending", _("Pending")
    FIRING = "firing", _("Firing")
    RESOLVED = "resolved", _("Resolved")


class AlertRuleQuerySet(models.QuerySet["AlertRule"]):
    """Rules, those of one model hidden with the model."""

    def visible_to(self, user: User) -> Self:
        """The rules that exist for this person (no query of its own)."""
        if user.sees_all_models:
            return self
        return self.filter(models.Q(model__isnull=True) | visible_models(user, "model__"))


class AlertRule(models.Model):
    """When an alert is raised, as data: `document` is what rules/alerts/documents.py parses.

    The scope narrows what is looked at: an environment, a model, both (one endpoint), a node; all
    empty is everything. `revision` guards against two writers. A built-in one came with the
    product: it can be changed and switched off, and put back, but not removed.
    """

    name = models.SlugField(max_length=80, unique=True)
    title = models.CharField(max_length=200)
    severity = models.CharField(
        max_length=2, choices=AlertSeverity.choices, default=AlertSeverity.P2
    )
    document = models.JSONField(default=dict)
    enabled = models.BooleanField(default=True)
    environment = models.ForeignKey(
        Environment, on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )
    model = models.ForeignKey(
        RegisteredModel, on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )
    node = models.ForeignKey(
        Node, on_delete=models.CASCADE, null=True, blank=True, related_name="+"
    )
    built_in = models.BooleanField(default=False)
    revision = models.PositiveIntegerField(default=1)
    # Why the newest look at it came to nothing; empty when it did.
    fault = models.TextField(blank=True)
    changed_by = models.ForeignKey(
        User, on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )
    changed_at = models.DateTimeField(auto_now=True)

    objects = AlertRuleQuerySet.as_manager()

    class Meta:
        ordering: ClassVar[list[str]] = ["name"]

    def __str__(self) -> str:
        return self.name


class SilenceQuerySet(models.QuerySet["Silence"]):
    """Silences, those of one model hidden with the model."""

    def visible_to(self, user: User) -> Self:
        """The silences that exist for this person (no query of its own)."""
        if user.sees_all_models:
            return self
        return self.filter(models.Q(model__isnull=True) | visible_models(user, "model__"))


class Silence(models.Model):
    """Alerts that match it are told to nobody from one moment until another, for a reason.

    What is empty matches everything. It expires by itself; `ended_at` is when a person ended it
    before that.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    rule_name = models.CharField(max_length=80, blank=True)
    severity = models.CharField(max_length=2, choices=AlertSeverity.choices, blank=True)
    environment = models.ForeignKey(
        Environment, on_delete=models.CASCADE, null=True, blank=True, related_name="+"
    )
    model = models.ForeignKey(
        RegisteredModel, on_delete=models.CASCADE, null=True, blank=True, related_name="+"
    )
    node = models.ForeignKey(
        Node, on_delete=models.CASCADE, null=True, blank=True, related_name="+"
    )
    label = models.CharField(max_length=120, blank=True)
    starts_at = models.DateTimeField()
    ends_at = models.DateTimeField()
    reason = models.CharField(max_length=500)
    author = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    ended_by = models.ForeignKey(
        User, on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )

    objects = SilenceQuerySet.as_manager()

    class Meta:
        ordering: ClassVar[list[str]] = ["-starts_at"]
        indexes: ClassVar[list[models.Index]] = [
            models.Index(fields=["ends_at"], name="silence_ends_at")
        ]

    def __str__(self) -> str:
        return f"{self.rule_name or 'every rule'} until {self.ends_at:%Y-%m-%d %H:%M}"


class AlertQuerySet(models.QuerySet["Alert"]):
    """Alerts, those of an endpoint hidden with its model."""

    def visible_to(self, user: User) -> Self:
        """The alerts that exist for this person (no query of its own)."""
        if user.sees_all_models:
            return self
        return self.filter(
            models.Q(endpoint__isnull=True) | visible_models(user, "endpoint__model__")
        )

    def unresolved(self) -> Self:
        """Those that are pending or firing."""
        return self.exclude(state=AlertState.RESOLVED)

    def firing(self) -> Self:
        """Those that fire."""
        return self.filter(state=AlertState.FIRING)


class Alert(models.Model):
    """One thing that a rule found wrong, from its first sign until it was well again.

    What it is of: an endpoint or a node, there a device, a version (0: all), a series' `label`.
    `title` is the rule's, an English phrase that is translated where it is shown; what was
    measured is said by `value`, `threshold`, `unit` and `evidence`. `fingerprint` names rule and
    thing: one unresolved alert for each. Alerts of one `group_key` are told of together.
    `suppressed` says why nobody is told though no silence matches ("maintenance"). `clear_since`
    is since when nothing is wrong any more, `quiet_since` since when nothing was measured.
    `told_at` is when people were told of it, last; `well_told_at` when they were told that it is
    over.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    rule = models.ForeignKey(
        AlertRule, on_delete=models.SET_NULL, null=True, blank=True, related_name="alerts"
    )
    rule_name = models.CharField(max_length=80)
    severity = models.CharField(max_length=2, choices=AlertSeverity.choices)
    state = models.CharField(max_length=8, choices=AlertState.choices, default=AlertState.PENDING)
    endpoint = models.ForeignKey(
        Endpoint, on_delete=models.PROTECT, null=True, blank=True, related_name="alerts"
    )
    node = models.ForeignKey(
        Node, on_delete=models.CASCADE, null=True, blank=True, related_name="alerts"
    )
    device = models.CharField(max_length=80, blank=True)
    version = models.PositiveIntegerField(default=0)
    label = models.CharField(max_length=120, blank=True)
    signal = models.CharField(max_length=80)
    title = models.CharField(max_length=300)
    data = models.JSONField(default=dict)
    value = models.FloatField(null=True, blank=True)
    threshold = models.FloatField(null=True, blank=True)
    unit = models.CharField(max_length=20, blank=True)
    started_at = models.DateTimeField()
    fired_at = models.DateTimeField(null=True, blank=True)
    clear_since = models.DateTimeField(null=True, blank=True)
    quiet_since = models.DateTimeField(null=True, blank=True)
    resolved_at = models.DateTimeField(null=True, blank=True)
    seen_at = models.DateTimeField()
    acknowledged_by = models.ForeignKey(
        User, on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )
    acknowledged_at = models.DateTimeField(null=True, blank=True)
    silenced_by = models.ForeignKey(
        Silence, on_delete=models.SET_NULL, null=True, blank=True, related_name="alerts"
    )
    suppressed = models.CharField(max_length=20, blank=True)
    told_at = models.DateTimeField(null=True, blank=True)
    well_told_at = models.DateTimeField(null=True, blank=True)
    fingerprint = models.CharField(max_length=64)
    group_key = models.CharField(max_length=200)
    evidence = models.JSONField(default=dict)
    runbook = models.CharField(max_length=60, blank=True)
    incident = models.ForeignKey(
        Incident, on_delete=models.SET_NULL, null=True, blank=True, related_name="alerts"
    )

    objects = AlertQuerySet.as_manager()

    class Meta:
        ordering: ClassVar[list[str]] = ["-started_at"]
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(
                fields=["fingerprint"],
                condition=~models.Q(state="resolved"),
                name="one_unresolved_alert_per_fingerprint",
            )
        ]
        indexes: ClassVar[list[models.Index]] = [
            models.Index(fields=["-started_at", "-id"], name="alert_started_at"),
            models.Index(fields=["endpoint", "-started_at"], name="alert_endpoint"),
            models.Index(
                fields=["resolved_at"],
                condition=models.Q(
                    state="resolved", told_at__isnull=False, well_told_at__isnull=True
                ),
                name="alert_over_untold",
            ),
            models.Index(
                fields=["state", "severity"],
                condition=~models.Q(state="resolved"),
                name="alert_unresolved",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.rule_name} {self.subject}"

    @property
    def subject(self) -> str:
        """What it is of, in words that lead to its model: `production/churn`, `node gpu-1`."""
        if self.endpoint is not None:
            return str(self.endpoint)
        return f"node {self.node.name}" if self.node is not None else "installation"

    @property
    def fired_value(self) -> float | None:
        """The value that it fired with; the newest while it has not fired."""
        fired = self.evidence.get("fired") if self.fired_at is not None else None
        value = fired[0].get("value") if fired else None
        return self.value if value is None else float(value)

    @property
    def told(self) -> bool:
        """Whether it is one that people hear of: neither silenced nor suppressed."""
        return self.silenced_by_id is None and not self.suppressed


class AlertEvent(models.Model):
    """A line of an alert's timeline."""

    alert = models.ForeignKey(Alert, on_delete=models.CASCADE, related_name="events")
    at = models.DateTimeField()
    kind = models.CharField(max_length=40)
    actor = models.ForeignKey(
        User, on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )
    message = models.TextField(blank=True)
    data = models.JSONField(default=dict)

    class Meta:
        ordering: ClassVar[list[str]] = ["at", "pk"]
        indexes: ClassVar[list[models.Index]] = [
            models.Index(fields=["alert", "at"], name="alert_event_at")
        ]

    def __str__(self) -> str:
        return f"{self.alert_id} {self.kind}"
