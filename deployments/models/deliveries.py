"""Every message that was or is to be sent about an alert or an incident, and what came of it."""

from __future__ import annotations

import uuid
from typing import ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _

from console.models import Job, User
from deployments.models.alerts import Alert
from deployments.models.channels import AlertChannel, ChannelKind
from deployments.models.incidents import Incident


class DeliveryState(models.TextChoices):
    WAITING = "waiting", _("Waiting")
    SENT = "sent", _("Sent")
    FAILED = "failed", _("Failed")
    SKIPPED = "skipped", _("Not sent")


class DeliveryReason(models.TextChoices):
    FIRING = "firing", _("It fires")
    REMINDER = "reminder", _("It still fires")
    ESCALATION = "escalation", _("Nobody has acknowledged")
    RESOLVED = "resolved", _("It is over")
    TEST = "test", _("Test")


class AlertDelivery(models.Model):
    """One message to one channel or one person: written once, sent by a job of its own.

    `message` is what it says, language aside, as it was when it was written. `dedup_key` names
    what is said to whom, so that the same is never written twice. `thread` ties what is said of
    one thing to one receiver together, so that its end closes it there.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    channel = models.ForeignKey(
        AlertChannel, on_delete=models.SET_NULL, null=True, blank=True, related_name="deliveries"
    )
    person = models.ForeignKey(
        User, on_delete=models.CASCADE, null=True, blank=True, related_name="+"
    )
    # What it was sent to, when the channel is gone.
    receiver = models.CharField(max_length=120)
    kind = models.CharField(max_length=10, choices=ChannelKind.choices)
    why = models.CharField(max_length=10, choices=DeliveryReason.choices)
    alerts = models.ManyToManyField(Alert, related_name="deliveries", blank=True)
    incident = models.ForeignKey(
        Incident, on_delete=models.CASCADE, null=True, blank=True, related_name="deliveries"
    )
    subject = models.CharField(max_length=200)
    subject_url = models.CharField(max_length=300, blank=True)
    severity = models.CharField(max_length=2, blank=True)
    message = models.JSONField(default=dict)
    thread = models.CharField(max_length=200, db_index=True)
    dedup_key = models.CharField(max_length=200, unique=True)
    state = models.CharField(
        max_length=8, choices=DeliveryState.choices, default=DeliveryState.WAITING
    )
    attempts = models.PositiveIntegerField(default=0)
    # What the receiver said, or why it was not sent; request ids among it.
    answer = models.TextField(blank=True)
    error = models.TextField(blank=True)
    hint = models.TextField(blank=True)
    request_id = models.CharField(max_length=64, blank=True)
    job = models.ForeignKey(Job, on_delete=models.SET_NULL, null=True, blank=True, related_name="+")
    created_at = models.DateTimeField()
    sent_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering: ClassVar[list[str]] = ["-created_at", "-id"]
        verbose_name_plural = "alert deliveries"
        indexes: ClassVar[list[models.Index]] = [
            models.Index(fields=["-created_at", "-id"], name="alert_delivery_recent"),
            models.Index(fields=["channel", "-created_at"], name="alert_delivery_channel"),
            models.Index(
                fields=["state", "-created_at"],
                condition=~models.Q(state="sent"),
                name="alert_delivery_not_sent",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.why} to {self.receiver}"
