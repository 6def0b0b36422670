"""The audit trail: append-only and hash-chained."""

from __future__ import annotations

from typing import ClassVar

from django.db import models


class AuditEntry(models.Model):
    """Who did what to what, before and after, why and from where.

    Names are copied as text so that an entry outlives what it speaks of. `digest` chains each
    entry to the one before it (see console.rules.audit_chain); a database trigger refuses
    UPDATE and DELETE.
    """

    sequence = models.BigIntegerField(unique=True)
    at = models.DateTimeField()
    actor_username = models.CharField(max_length=64, db_index=True)
    actor_id_text = models.CharField(max_length=32, blank=True)
    action = models.CharField(max_length=64, db_index=True)
    subject = models.CharField(max_length=200, db_index=True)
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
            models.Index(fields=["subject", "-sequence"], name="audit_subject_recent"),
            models.Index(fields=["at"], name="audit_at"),
        ]

    def __str__(self) -> str:
        return f"#{self.sequence} {self.actor_username} {self.action} {self.subject}"


class AuditHead(models.Model):
    """The last link of the chain: one row, locked by each append so that links never fork."""

    id = models.SmallIntegerField(primary_key=True, default=1)
    sequence = models.BigIntegerField(default=0)
    digest = models.CharField(max_length=64, default="0" * 64)

    class Meta:
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.CheckConstraint(condition=models.Q(id=1), name="audit_head_single_row")
        ]

    def __str__(self) -> str:
        return f"head at #{self.sequence}"
