"""Public signing keys of people."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _

from console.models.accounts import User


class KeyAlgorithm(models.TextChoices):
    P256 = "ecdsa-p256", "ECDSA P-256"
    ED25519 = "ed25519", "Ed25519"


class KeyOrigin(models.TextChoices):
    BROWSER = "browser", _("Browser")
    CLI = "cli", _("Command line")


class SigningKey(models.Model):
    """The public half of a key that a person signs with; the private half never reaches us."""

    user = models.ForeignKey(User, on_delete=models.PROTECT, related_name="signing_keys")
    name = models.CharField(max_length=80)
    keyid = models.CharField(max_length=64, unique=True)
    algorithm = models.CharField(max_length=16, choices=KeyAlgorithm.choices)
    origin = models.CharField(max_length=16, choices=KeyOrigin.choices)
    public_key_pem = models.TextField()
    enrolled_at = models.DateTimeField(auto_now_add=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    revoked_reason = models.CharField(max_length=300, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering: ClassVar[list[str]] = ["-enrolled_at"]

    def __str__(self) -> str:
        return f"{self.name} ({self.keyid[:12]})"

    @property
    def is_revoked(self) -> bool:
        return self.revoked_at is not None
