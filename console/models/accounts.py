"""People: users with global roles, teams, API tokens."""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib.auth.models import AbstractBaseUser, BaseUserManager, PermissionsMixin
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.utils.translation import gettext_lazy as _


class Role(models.TextChoices):
    DATA_SCIENTIST = "data_scientist", _("Data scientist")
    SRE = "sre", _("SRE")
    BUSINESS_OWNER = "business_owner", _("Business owner")
    PLATFORM_ADMIN = "platform_admin", _("Platform admin")
    VIEWER = "viewer", _("Viewer")


class UserManager(BaseUserManager["User"]):
    """Creates users; Django's own commands (createsuperuser) rely on these two names."""

    def create_user(self, username: str, password: str | None = None, **fields: Any) -> User:
        user = self.model(username=username, **fields)
        user.set_password(password)
        user.full_clean(exclude=["password"])
        user.save(using=self._db)
        return user

    def create_superuser(self, username: str, password: str | None = None, **fields: Any) -> User:
        fields.setdefault("roles", [Role.PLATFORM_ADMIN])
        return self.create_user(username, password, is_superuser=True, **fields)


class User(AbstractBaseUser, PermissionsMixin):
    """A person (or a service account) who signs in."""

    username = models.SlugField(max_length=64, unique=True)
    display_name = models.CharField(max_length=120, blank=True)
    email = models.EmailField(blank=True)
    roles: ArrayField[list[str], list[str]] = ArrayField(
        models.CharField(max_length=32, choices=Role.choices), default=list, blank=True
    )
    is_active = models.BooleanField(default=True)
    language = models.CharField(max_length=12, blank=True)
    date_joined = models.DateTimeField(auto_now_add=True)

    USERNAME_FIELD = "username"
    REQUIRED_FIELDS: ClassVar[list[str]] = ["email"]

    objects: ClassVar[UserManager] = UserManager()

    class Meta:
        ordering: ClassVar[list[str]] = ["username"]

    def __str__(self) -> str:
        return self.display_name or self.username

    @property
    def is_staff(self) -> bool:
        """Django's admin and permission hooks ask for this name."""
        return self.is_superuser

    def get_full_name(self) -> str:
        return self.display_name or self.username

    def has_role(self, *roles: str) -> bool:
        return bool(set(roles) & set(self.roles))


class Team(models.Model):
    """A group of people that owns models."""

    name = models.CharField(max_length=80)
    slug = models.SlugField(max_length=64, unique=True)
    members = models.ManyToManyField(User, related_name="teams", blank=True)

    class Meta:
        ordering: ClassVar[list[str]] = ["slug"]

    def __str__(self) -> str:
        return self.name


class ApiToken(models.Model):
    """A token for the API and the CLI: only its SHA-256 digest is kept."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="api_tokens")
    name = models.CharField(max_length=80)
    prefix = models.CharField(max_length=12)
    digest = models.CharField(max_length=64, unique=True)
    scopes: ArrayField[list[str], list[str]] = ArrayField(
        models.CharField(max_length=32), default=list
    )
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField()
    last_used_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering: ClassVar[list[str]] = ["-created_at"]

    def __str__(self) -> str:
        return f"{self.prefix}… ({self.name})"
