"""What happens when nobody acknowledges: whom to tell next, and after how long."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _

from console.models import User
from deployments.models.alerts import Alert
from deployments.models.channels import AlertChannel
from deployments.models.incidents import Incident
from deployments.models.on_call import OnCallSchedule


class StepTarget(models.TextChoices):
    ON_CALL = "on_call", _("Who is on call for it")
    OPERATORS = "operators", _("Everybody who operates it")
    SCHEDULE = "schedule", _("Who is on call by a schedule")
    PERSON = "person", _("A person")
    CHANNEL = "channel", _("A channel")
    ADMINS = "admins", _("The platform admins")


class EscalationPolicy(models.Model):
    """Steps, one after the other, until somebody acknowledges; then all again, `repeats` times."""

    name = models.SlugField(max_length=40, unique=True)
    repeats = models.PositiveSmallIntegerField(default=0)
    revision = models.PositiveIntegerField(default=1)
    changed_by = models.ForeignKey(
        User, on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )
    changed_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering: ClassVar[list[str]] = ["name"]
        verbose_name_plural = "escalation policies"

    def __str__(self) -> str:
        return self.name


class EscalationStep(models.Model):
    """Tell somebody `after_minutes` after it began, if nobody has acknowledged by then."""

    policy = models.ForeignKey(EscalationPolicy, on_delete=models.CASCADE, related_name="steps")
    after_minutes = models.PositiveSmallIntegerField()
    target = models.CharField(max_length=10, choices=StepTarget.choices)
    schedule = models.ForeignKey(
        OnCallSchedule, on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )
    person = models.ForeignKey(
        User, on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )
    channel = models.ForeignKey(
        AlertChannel, on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )

    class Meta:
        ordering: ClassVar[list[str]] = ["policy_id", "after_minutes", "pk"]
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.CheckConstraint(
                condition=models.Q(target="schedule", schedule__isnull=False)
                | models.Q(target="person", person__isnull=False)
                | models.Q(target="channel", channel__isnull=False)
                | models.Q(target__in=["on_call", "operators", "admins"]),
                name="escalation_step_names_its_target",
            )
        ]

    def __str__(self) -> str:
        return f"{self.target} after {self.after_minutes} min"


class Escalation(models.Model):
    """An alert or an incident that waits for somebody to acknowledge it.

    `step` counts the steps taken, repeats among them; `next_at` is when the next one is due.
    """

    alert = models.ForeignKey(
        Alert, on_delete=models.CASCADE, null=True, blank=True, related_name="escalations"
    )
    incident = models.ForeignKey(
        Incident, on_delete=models.CASCADE, null=True, blank=True, related_name="escalations"
    )
    policy = models.ForeignKey(EscalationPolicy, on_delete=models.CASCADE, related_name="+")
    started_at = models.DateTimeField()
    step = models.PositiveSmallIntegerField(default=0)
    next_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    ended_why = models.CharField(max_length=20, blank=True)

    class Meta:
        ordering: ClassVar[list[str]] = ["-started_at"]
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.CheckConstraint(
                condition=models.Q(alert__isnull=False, incident__isnull=True)
                | models.Q(alert__isnull=True, incident__isnull=False),
                name="escalation_of_one_thing",
            ),
            models.UniqueConstraint(
                fields=["alert"],
                condition=models.Q(ended_at__isnull=True),
                name="one_escalation_of_an_alert",
            ),
            models.UniqueConstraint(
                fields=["incident"],
                condition=models.Q(ended_at__isnull=True),
                name="one_escalation_of_an_incident",
            ),
        ]
        indexes: ClassVar[list[models.Index]] = [
            models.Index(
                fields=["next_at"],
                condition=models.Q(ended_at__isnull=True),
                name="escalation_due",
            )
        ]

    def __str__(self) -> str:
        return f"{self.policy_id} step {self.step}"
