"""Files by content, and the uploads that bring them."""

from __future__ import annotations

import uuid
from typing import ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _

from console.models import User


class Artifact(models.Model):
    """A stored file named by its SHA-256; never overwritten, shared by all who refer to it."""

    sha256 = models.CharField(max_length=64, unique=True)
    size = models.BigIntegerField()
    media_type = models.CharField(max_length=100, default="application/octet-stream")
    storage_key = models.CharField(max_length=200)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.CheckConstraint(
                condition=models.Q(sha256__regex=r"^[0-9a-f]{64}$"), name="artifact_sha256_is_hex"
            ),
            models.CheckConstraint(
                condition=models.Q(size__gte=0), name="artifact_size_is_positive"
            ),
        ]

    def __str__(self) -> str:
        return self.sha256[:12]


class UploadState(models.TextChoices):
    RECEIVING = "receiving", _("Receiving")
    COMPLETE = "complete", _("Complete")
    REFUSED = "refused", _("Refused")


class Upload(models.Model):
    """A tus 1.0.0 upload under way; its bytes lie in the upload folder until it is complete."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    owner = models.ForeignKey(User, on_delete=models.CASCADE, related_name="+")
    filename = models.CharField(max_length=255)
    length = models.BigIntegerField()
    offset = models.BigIntegerField(default=0)
    expected_sha256 = models.CharField(max_length=64, blank=True)
    state = models.CharField(
        max_length=10, choices=UploadState.choices, default=UploadState.RECEIVING
    )
    refusal = models.TextField(blank=True)
    detected_format = models.CharField(max_length=40, blank=True)
    artifact = models.ForeignKey(
        Artifact, on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField()

    class Meta:
        ordering: ClassVar[list[str]] = ["-created_at"]
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.CheckConstraint(
                condition=models.Q(offset__gte=0) & models.Q(offset__lte=models.F("length")),
                name="upload_offset_within_length",
            )
        ]

    def __str__(self) -> str:
        return f"{self.filename} {self.offset}/{self.length}"
