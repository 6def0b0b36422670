"""Which alert goes where: rules in an order, the first that matches decides."""

from __future__ import annotations

from typing import ClassVar

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.utils.translation import gettext_lazy as _

from console.models import Team, User
from deployments.models.alerts import AlertSeverity
from deployments.models.channels import AlertChannel
from deployments.models.escalations import EscalationPolicy
from deployments.models.on_call import OnCallSchedule
from models_registry.models import Environment, RegisteredModel


class TellPeople(models.TextChoices):
    NOBODY = "nobody", _("Nobody: the channels alone")
    INBOX = "inbox", _("The inbox of who operates it")
    CALL = "call", _("The inbox, and a mail to who is on call")


class AlertRoute(models.Model):
    """What matches goes to these channels and people; what is empty matches everything.

    `rule_name` and `label` may have * in them. With `goes_on` the routes after it are looked at,
    too. `schedule` says who is on call; empty: the schedule that covers the model, else its seat.
    """

    name = models.SlugField(max_length=40, unique=True)
    position = models.PositiveSmallIntegerField()
    enabled = models.BooleanField(default=True)
    severities: ArrayField[list[str], list[str]] = ArrayField(
        models.CharField(max_length=2, choices=AlertSeverity.choices), default=list, blank=True
    )
    environment = models.ForeignKey(
        Environment, on_delete=models.CASCADE, null=True, blank=True, related_name="+"
    )
    model = models.ForeignKey(
        RegisteredModel, on_delete=models.CASCADE, null=True, blank=True, related_name="+"
    )
    team = models.ForeignKey(
        Team, on_delete=models.CASCADE, null=True, blank=True, related_name="+"
    )
    rule_name = models.CharField(max_length=80, blank=True)
    label = models.CharField(max_length=120, blank=True)
    channels = models.ManyToManyField(AlertChannel, related_name="routes", blank=True)
    people = models.CharField(max_length=6, choices=TellPeople.choices, default=TellPeople.INBOX)
    schedule = models.ForeignKey(
        OnCallSchedule, on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )
    policy = models.ForeignKey(
        EscalationPolicy, on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )
    goes_on = models.BooleanField(default=False)
    revision = models.PositiveIntegerField(default=1)
    changed_by = models.ForeignKey(
        User, on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )
    changed_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering: ClassVar[list[str]] = ["position", "pk"]

    def __str__(self) -> str:
        return self.name
