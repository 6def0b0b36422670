"""The audit trail: append-only and hash-chained."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _

from console.models.accounts import User


class AuditEntry(models.Model):
    """Who did what to what, before and after, why and from where.

    Names are copied as text so that an entry outlives what it speaks of. `digest` chains each
    entry to the one before it (see console.rules.audit_chain); a database trigger refuses
    UPDATE and DELETE. The table is partitioned by the month of `at` (see
    console.rules.audit_partitions), so `sequence` is kept unique by the lock of the head's row
    and not by an index.
    """

    sequence = models.BigIntegerField(unique=True)
    at = models.DateTimeField()
    actor_username = models.CharField(max_length=64)
    actor_id_text = models.CharField(max_length=32, blank=True)
    action = models.CharField(max_length=64)
    subject = models.CharField(max_length=200)
    subject_url = models.CharField(max_length=300, blank=True)
    before = models.JSONField(null=True, blank=True)
    after = models.JSONField(null=True, blank=True)
    reason = models.TextField(blank=True)
    source = models.CharField(max_length=100, blank=True)
    request_id = models.CharField(max_length=64, blank=True)
    previous_digest = models.CharField(max_length=64)
    digest = models.CharField(max_length=64)

    class Meta:
        ordering: ClassVar[list[str]] = ["-sequence"]
        indexes: ClassVar[list[models.Index]] = [
            models.Index(fields=["actor_username", "-sequence"], name="audit_actor_recent"),
            # By what they start with as well, in any collation.
            models.Index(
                fields=["action", "-sequence"],
                opclasses=["varchar_pattern_ops", "int8_ops"],
                name="audit_action_recent",
            ),
            models.Index(
                fields=["subject", "-sequence"],
                opclasses=["varchar_pattern_ops", "int8_ops"],
                name="audit_subject_recent",
            ),
            models.Index(fields=["-at", "-sequence"], name="audit_at_recent"),
            models.Index(
                fields=["request_id"], condition=~models.Q(request_id=""), name="audit_request"
            ),
        ]

    def __str__(self) -> str:
        return f"#{self.sequence} {self.actor_username} {self.action} {self.subject}"


class AuditHead(models.Model):
    """The last link of the chain: one row, locked by each append so that links never fork."""

    id = models.SmallIntegerField(primary_key=True, default=1)
    sequence = models.BigIntegerField(default=0)
    digest = models.CharField(max_length=64, default="0" * 64)
    # Where the kept part begins once older partitions were dropped: the last entry before it.
    kept_after = models.BigIntegerField(default=0)
    kept_after_digest = models.CharField(max_length=64, default="0" * 64)

    class Meta:
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.CheckConstraint(condition=models.Q(id=1), name="audit_head_single_row")
        ]

    def __str__(self) -> str:
        return f"head at #{self.sequence}"


class AuditOccurrence(models.Model):
    """What happens often (denials, exports), summed up before it becomes an entry.

    The first of one person and one act becomes an entry at once; those that follow are counted
    here and become one entry a minute. `key` tells person, act and, for exports, subject apart.
    """

    key = models.CharField(max_length=64, unique=True)
    user = models.ForeignKey(
        User, on_delete=models.CASCADE, null=True, blank=True, related_name="+"
    )
    action = models.CharField(max_length=64)
    subject = models.CharField(max_length=200)
    subject_url = models.CharField(max_length=300, blank=True)
    details = models.JSONField(default=dict)
    reason = models.TextField(blank=True)
    source = models.CharField(max_length=100, blank=True)
    request_id = models.CharField(max_length=64, blank=True)
    count = models.PositiveIntegerField(default=0)
    first_at = models.DateTimeField(null=True, blank=True)
    last_at = models.DateTimeField()
    entered_at = models.DateTimeField(db_index=True)

    def __str__(self) -> str:
        return f"{self.action} × {self.count}"


class AuditCheckpoint(models.Model):
    """A signed statement of how the chain stood: whoever rewrites the chain breaks it.

    `envelope` is a DSSE envelope of the installation's key over sequence, digest and time.
    """

    sequence = models.BigIntegerField(unique=True)
    digest = models.CharField(max_length=64)
    at = models.DateTimeField()
    keyid = models.CharField(max_length=64)
    envelope = models.JSONField()

    class Meta:
        ordering: ClassVar[list[str]] = ["-sequence"]

    def __str__(self) -> str:
        return f"checkpoint at #{self.sequence}"


class SinkKind(models.TextChoices):
    SYSLOG = "syslog", _("Syslog (RFC 5424)")
    WEBHOOK = "webhook", _("Webhook")


class AuditSink(models.Model):
    """Where entries are forwarded to, in order and at least once; `sent_sequence` is how far.

    `address` is tcp://host:port, tls://host:port or udp://host:port for syslog, an https address
    for a webhook, whose messages are signed with `secret`.
    """

    name = models.SlugField(max_length=40, unique=True)
    kind = models.CharField(max_length=8, choices=SinkKind.choices)
    address = models.CharField(max_length=300)
    secret = models.CharField(max_length=200, blank=True)
    enabled = models.BooleanField(default=True)
    sent_sequence = models.BigIntegerField(default=0)
    sent_at = models.DateTimeField(null=True, blank=True)
    failures = models.PositiveIntegerField(default=0)
    last_error = models.TextField(blank=True)
    not_before = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering: ClassVar[list[str]] = ["name"]

    def __str__(self) -> str:
        return self.name
