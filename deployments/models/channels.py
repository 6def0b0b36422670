"""Where alerts are sent to: mail, webhooks, chat rooms, a pager, text messages."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _

from console.models import User


class ChannelKind(models.TextChoices):
    EMAIL = "email", _("E-mail")
    WEBHOOK = "webhook", _("Webhook")
    SLACK = "slack", _("Slack")
    FEISHU = "feishu", _("Feishu")
    DINGTALK = "dingtalk", _("DingTalk")
    PAGERDUTY = "pagerduty", _("PagerDuty")
    SMS = "sms", _("Text message")


class AlertChannel(models.Model):
    """One place that messages are sent to.

    `address` and `secret` are sealed (see services/alerts/secrets.py): the address of a chat room
    is a secret by itself. `shown` is what people may see of it. `options` is what only some kinds
    have (the numbers and the form of a text message, say). `failures` counts messages in a row
    that could not be delivered.
    """

    name = models.SlugField(max_length=40, unique=True)
    kind = models.CharField(max_length=10, choices=ChannelKind.choices)
    address = models.TextField(blank=True)
    shown = models.CharField(max_length=200, blank=True)
    secret = models.TextField(blank=True)
    options = models.JSONField(default=dict)
    language = models.CharField(max_length=12, blank=True)
    enabled = models.BooleanField(default=True)
    revision = models.PositiveIntegerField(default=1)
    failures = models.PositiveIntegerField(default=0)
    last_error = models.TextField(blank=True)
    last_sent_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    changed_by = models.ForeignKey(
        User, on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )
    changed_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering: ClassVar[list[str]] = ["name"]

    def __str__(self) -> str:
        return self.name
