"""Other ways to sign in than by password, and what is asked beside it."""

from __future__ import annotations

import uuid
from typing import ClassVar

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.utils.translation import gettext_lazy as _

from console.models.accounts import Role, User


class IdentitySource(models.TextChoices):
    OIDC = "oidc", _("Single sign-on")
    LDAP = "ldap", _("Directory (LDAP)")


class ExternalIdentity(models.Model):
    """A person's account at a provider; `issuer` and `subject` name it, e-mail may change."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="identities")
    source = models.CharField(max_length=8, choices=IdentitySource.choices)
    issuer = models.CharField(max_length=300)
    subject = models.CharField(max_length=255)
    email = models.CharField(max_length=254, blank=True)
    linked_at = models.DateTimeField(auto_now_add=True)
    last_used_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering: ClassVar[list[str]] = ["linked_at"]
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(fields=["issuer", "subject"], name="identity_once")
        ]

    def __str__(self) -> str:
        return f"{self.subject} at {self.issuer}"


class Passkey(models.Model):
    """A WebAuthn credential that a person signs in with.

    `credential_id` is base64url; `public_key` the COSE key as base64url; `sign_count` never goes
    back, unless the authenticator keeps none (0).
    """

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="passkeys")
    name = models.CharField(max_length=80)
    credential_id = models.CharField(max_length=1400, unique=True)
    public_key = models.TextField()
    sign_count = models.BigIntegerField(default=0)
    transports: ArrayField[list[str], list[str]] = ArrayField(
        models.CharField(max_length=20), default=list, blank=True
    )
    backed_up = models.BooleanField(default=False)
    created_at = models.DateTimeField(auto_now_add=True)
    last_used_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering: ClassVar[list[str]] = ["created_at"]

    def __str__(self) -> str:
        return self.name


class Invitation(models.Model):
    """A link by which somebody makes their own account; only the digest of its secret is kept."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    username = models.SlugField(max_length=64)
    display_name = models.CharField(max_length=120, blank=True)
    email = models.EmailField()
    roles: ArrayField[list[str], list[str]] = ArrayField(
        models.CharField(max_length=32, choices=Role.choices), default=list, blank=True
    )
    # [{"team": slug, "roles": [...]}]
    teams = models.JSONField(default=list, blank=True)
    digest = models.CharField(max_length=64, unique=True)
    invited_by = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField()
    accepted_at = models.DateTimeField(null=True, blank=True)
    accepted_by = models.ForeignKey(
        User, on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )
    revoked_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering: ClassVar[list[str]] = ["-created_at"]

    def __str__(self) -> str:
        return self.username


class WorkloadIdentity(models.Model):
    """Which tokens of an outside platform (CI) a service account may be used with.

    `claims` maps a claim's name to the value (a trailing * stands for any end) that it must have;
    `sub` is always among them.
    """

    service_account = models.ForeignKey(
        User, on_delete=models.CASCADE, related_name="workload_identities"
    )
    name = models.CharField(max_length=80)
    issuer = models.CharField(max_length=300)
    audience = models.CharField(max_length=200)
    claims = models.JSONField(default=dict)
    scopes: ArrayField[list[str], list[str]] = ArrayField(
        models.CharField(max_length=32), default=list
    )
    created_by = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)
    last_used_at = models.DateTimeField(null=True, blank=True)
    removed_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering: ClassVar[list[str]] = ["-created_at"]

    def __str__(self) -> str:
        return self.name


class WorkloadTokenUse(models.Model):
    """An outside platform's token that was taken in: it opens nothing a second time.

    `digest` is the SHA-256 of its issuer and id; the row is of no use after the token has expired.
    """

    digest = models.CharField(max_length=64, unique=True)
    expires_at = models.DateTimeField(db_index=True)

    class Meta:
        ordering: ClassVar[list[str]] = ["expires_at"]

    def __str__(self) -> str:
        return self.digest[:12]
