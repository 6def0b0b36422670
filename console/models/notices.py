"""What a person should know of: a row for each recipient, shown on their home page."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _

from console.models.accounts import User


class Severity(models.TextChoices):
    INFO = "info", _("Information")
    WARNING = "warning", _("Warning")
    CRITICAL = "critical", _("Critical")


class Notice(models.Model):
    """`kind` names the phrase that `data` is filled into; `key` makes saying it twice one notice.

    A notice is open until its recipient has seen to it (`done_at`) or its cause is gone
    (`ended_at`).
    """

    recipient = models.ForeignKey(User, on_delete=models.CASCADE, related_name="notices")
    kind = models.CharField(max_length=40, db_index=True)
    severity = models.CharField(max_length=8, choices=Severity.choices, default=Severity.INFO)
    key = models.CharField(max_length=200)
    subject = models.CharField(max_length=200)
    subject_url = models.CharField(max_length=300, blank=True)
    data = models.JSONField(default=dict)
    created_at = models.DateTimeField(auto_now_add=True)
    done_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering: ClassVar[list[str]] = ["-created_at"]
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(fields=["recipient", "key"], name="notice_once")
        ]
        indexes: ClassVar[list[models.Index]] = [
            models.Index(
                fields=["recipient", "-created_at"],
                condition=models.Q(done_at__isnull=True, ended_at__isnull=True),
                name="notice_open",
            )
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.subject}"
