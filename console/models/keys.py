"""Public signing keys of people."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from console.models.accounts import User
from console.rules.key_life import fingerprint, state_of


class KeyAlgorithm(models.TextChoices):
    P256 = "ecdsa-p256", "ECDSA P-256"
    ED25519 = "ed25519", "Ed25519"


class KeyOrigin(models.TextChoices):
    BROWSER = "browser", _("Browser")
    CLI = "cli", _("Command line")
    PASSKEY = "passkey", _("Passkey")


class RevocationKind(models.TextChoices):
    """Why a key ended. Only `compromised` casts doubt on what it signed before."""

    LOST = "lost", _("Lost")
    COMPROMISED = "compromised", _("Compromised")
    REPLACED = "replaced", _("Replaced")
    LEFT = "left", _("Owner left")
    OTHER = "other", _("Other")


class SigningKey(models.Model):
    """The public half of a key that a person signs with; the private half never reaches us.

    A key signs nothing after `expires_at`. A key made by rotation names the one that it `replaces`.
    `doubted_from` is set when it was compromised: what it signed since then does not count. A
    passkey has its `credential_id` (base64url) and the `rp_id` that it is bound to.
    """

    user = models.ForeignKey(User, on_delete=models.PROTECT, related_name="signing_keys")
    name = models.CharField(max_length=80)
    keyid = models.CharField(max_length=64, unique=True)
    algorithm = models.CharField(max_length=16, choices=KeyAlgorithm.choices)
    origin = models.CharField(max_length=16, choices=KeyOrigin.choices)
    public_key_pem = models.TextField()
    enrolled_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField(null=True, blank=True)
    replaces = models.ForeignKey(
        "self", on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )
    credential_id = models.CharField(max_length=1400, blank=True)
    rp_id = models.CharField(max_length=253, blank=True)
    sign_count = models.BigIntegerField(default=0)
    revoked_at = models.DateTimeField(null=True, blank=True)
    revocation = models.CharField(max_length=12, choices=RevocationKind.choices, blank=True)
    doubted_from = models.DateTimeField(null=True, blank=True)
    revoked_reason = models.CharField(max_length=300, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering: ClassVar[list[str]] = ["-enrolled_at"]
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(
                fields=["credential_id"],
                condition=~models.Q(credential_id=""),
                name="signing_passkey_once",
            )
        ]

    def __str__(self) -> str:
        return f"{self.name} ({self.keyid[:12]})"

    @property
    def is_revoked(self) -> bool:
        return self.revoked_at is not None

    @property
    def is_usable(self) -> bool:
        """Whether it may sign something new now."""
        return self.state in ("active", "expiring")

    @property
    def state(self) -> str:
        """How it stands now: active, expiring, expired or revoked."""
        return state_of(self, timezone.now())

    @property
    def fingerprint(self) -> str:
        """The key id in groups of four."""
        return fingerprint(self.keyid)


class InstallationKey(models.Model):
    """The public half of a key of this installation, which signs checkpoints and deployed folders.

    The private half lies in the installation's home (or where COVENANT_SIGNING_KEY says). Rows are
    kept after a rotation, so that older signatures stay verifiable.
    """

    keyid = models.CharField(max_length=64, unique=True)
    algorithm = models.CharField(max_length=16, choices=KeyAlgorithm.choices)
    public_key_pem = models.TextField()
    first_used_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering: ClassVar[list[str]] = ["-first_used_at"]

    def __str__(self) -> str:
        return self.keyid[:12]
