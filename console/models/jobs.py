"""Long actions as rows: the truth about background work; the broker is only transport."""

from __future__ import annotations

import uuid
from typing import ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _

from console.models.accounts import User


class JobState(models.TextChoices):
    QUEUED = "queued", _("Queued")
    RUNNING = "running", _("Running")
    SUCCEEDED = "succeeded", _("Succeeded")
    FAILED = "failed", _("Failed")
    ERRORED = "errored", _("Errored")
    CANCELLED = "cancelled", _("Cancelled")

    @property
    def is_terminal(self) -> bool:
        return self not in (JobState.QUEUED, JobState.RUNNING)


class Job(models.Model):
    """One long action.

    `attempt` is the fencing token: a worker may write only while the row still carries the
    attempt that it claimed. `not_before` delays a retry. `checkpoint` is what a resumed attempt
    starts from. `subject` names what the job is about in words, `subject_url` leads there.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    kind = models.CharField(max_length=32, db_index=True)
    queue = models.CharField(max_length=64)
    subject = models.CharField(max_length=200, db_index=True)
    subject_url = models.CharField(max_length=300, blank=True)
    arguments = models.JSONField(default=dict)
    state = models.CharField(max_length=12, choices=JobState.choices, default=JobState.QUEUED)
    requested_by = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    idempotency_key = models.CharField(max_length=120, unique=True)

    attempt = models.PositiveIntegerField(default=0)
    max_attempts = models.PositiveIntegerField(default=3)
    lease_until = models.DateTimeField(null=True, blank=True)
    worker = models.CharField(max_length=120, blank=True)
    not_before = models.DateTimeField()
    sent_at = models.DateTimeField(null=True, blank=True)

    progress = models.FloatField(default=0)
    step = models.CharField(max_length=120, blank=True)
    checkpoint = models.JSONField(default=dict)
    result = models.JSONField(null=True, blank=True)
    error_code = models.CharField(max_length=64, blank=True)
    error_message = models.TextField(blank=True)
    error_hint = models.TextField(blank=True)
    cancel_requested_at = models.DateTimeField(null=True, blank=True)
    cancel_requested_by = models.ForeignKey(
        User, on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )

    created_at = models.DateTimeField(auto_now_add=True)
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering: ClassVar[list[str]] = ["-created_at"]
        indexes: ClassVar[list[models.Index]] = [
            models.Index(fields=["state", "not_before"], name="job_state_due"),
            models.Index(fields=["-created_at"], name="job_recent"),
            models.Index(fields=["subject", "-created_at"], name="job_subject_recent"),
        ]
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.CheckConstraint(
                condition=models.Q(progress__gte=0) & models.Q(progress__lte=1),
                name="job_progress_is_a_share",
            )
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.subject}"

    @property
    def is_terminal(self) -> bool:
        return JobState(self.state).is_terminal


class JobLine(models.Model):
    """One line of a job's log, or one attempt's ending."""

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="lines")
    at = models.DateTimeField()
    attempt = models.PositiveIntegerField()
    level = models.CharField(max_length=8, default="info")
    text = models.TextField()

    class Meta:
        ordering: ClassVar[list[str]] = ["id"]

    def __str__(self) -> str:
        return self.text


class IdempotentRequest(models.Model):
    """What a write with an Idempotency-Key answered, so that a client's retry has one effect."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="+")
    key = models.CharField(max_length=200)
    fingerprint = models.CharField(max_length=64)
    status = models.PositiveSmallIntegerField(default=0)
    body = models.JSONField(null=True, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(fields=["user", "key"], name="idempotent_request_once")
        ]

    def __str__(self) -> str:
        return self.key
