"""People: users with global roles, teams with roles of their own, API tokens."""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib.auth.models import AbstractBaseUser, BaseUserManager, PermissionsMixin
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.utils.functional import cached_property
from django.utils.translation import gettext_lazy as _

# The installation itself, for what happens by timer.
SYSTEM_USERNAME = "system"


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


class UserKind(models.TextChoices):
    PERSON = "person", _("Person")
    SERVICE = "service", _("Service account")


class User(AbstractBaseUser, PermissionsMixin):
    """A person who signs in, or a service account, which has tokens and no password."""

    username = models.SlugField(max_length=64, unique=True)
    display_name = models.CharField(max_length=120, blank=True)
    email = models.EmailField(blank=True)
    roles: ArrayField[list[str], list[str]] = ArrayField(
        models.CharField(max_length=32, choices=Role.choices), default=list, blank=True
    )
    kind = models.CharField(max_length=8, choices=UserKind.choices, default=UserKind.PERSON)
    is_active = models.BooleanField(default=True)
    deactivated_at = models.DateTimeField(null=True, blank=True)
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

    @property
    def is_service(self) -> bool:
        """Whether this is a program's account, not a person's."""
        return self.kind == UserKind.SERVICE

    def has_role(self, *roles: str) -> bool:
        """Whether the person has one of these roles for the whole installation."""
        return bool(set(roles) & set(self.roles))

    def roles_in(self, team_id: int | None) -> frozenset[str]:
        """Roles that count for what belongs to the team: the global ones and those held in it.

        What belongs to no team (None) knows the global ones alone. At most one query for as long
        as this instance lives, and none for who is in no need of it (see `team_roles`).
        """
        own = frozenset(self.roles)
        return own if team_id is None else own | self.team_roles.get(team_id, frozenset())

    @property
    def roles_anywhere(self) -> frozenset[str]:
        """Roles held globally or in any team: what doors and menus ask."""
        return frozenset(self.roles).union(*self.team_roles.values())

    @property
    def sees_all_models(self) -> bool:
        """Whether no model is invisible: platform admins, and global SREs, who operate them all.

        Whoever is on call must see what fails at night, and already holds the machines on which
        every model runs. A role in one team alone opens that team's models only.
        """
        return (
            self.is_superuser
            or self.username == SYSTEM_USERNAME
            or self.has_role(Role.PLATFORM_ADMIN, Role.SRE)
        )

    @cached_property
    def team_roles(self) -> dict[int, frozenset[str]]:
        """The roles of each membership by the team's id (one query, kept on the instance)."""
        if self.pk is None:
            return {}
        memberships = TeamMembership.objects.filter(user=self).order_by("team_id")
        return {
            team: frozenset(roles) for team, roles in memberships.values_list("team_id", "roles")
        }

    def refresh_from_db(self, *args: Any, **kwargs: Any) -> None:
        """Read the row anew, and with it what is kept of the memberships."""
        self.__dict__.pop("team_roles", None)
        super().refresh_from_db(*args, **kwargs)


class Team(models.Model):
    """A group of people that owns models."""

    name = models.CharField(max_length=80)
    slug = models.SlugField(max_length=64, unique=True)
    description = models.CharField(max_length=200, blank=True)
    members = models.ManyToManyField(
        User, related_name="teams", through="console.TeamMembership", blank=True
    )

    class Meta:
        ordering: ClassVar[list[str]] = ["slug"]

    def __str__(self) -> str:
        return self.name


class TeamMembership(models.Model):
    """A person in a team; `roles` hold for that team's models, beside the person's global ones."""

    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="memberships")
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="memberships")
    roles: ArrayField[list[str], list[str]] = ArrayField(
        models.CharField(max_length=32, choices=Role.choices), default=list, blank=True
    )
    since = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering: ClassVar[list[str]] = ["team_id", "user_id"]
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(fields=["team", "user"], name="one_membership_per_team")
        ]

    def __str__(self) -> str:
        return f"{self.user_id} in {self.team_id}"


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
    last_used_from = models.CharField(max_length=100, blank=True)
    # Set on a short token that a workload got for its platform's own token.
    workload = models.ForeignKey(
        "console.WorkloadIdentity",
        on_delete=models.CASCADE,
        null=True,
        blank=True,
        related_name="+",
    )
    revoked_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering: ClassVar[list[str]] = ["-created_at"]

    def __str__(self) -> str:
        return f"{self.prefix}… ({self.name})"
