"""What a model is: its name, owner, seats and aliases."""

from __future__ import annotations

from typing import ClassVar, Self, TypeVar

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.utils.translation import gettext_lazy as _

from console.models import Team, TeamMembership, User


class Seat(models.TextChoices):
    """The three people who carry a promise."""

    DATA_SCIENTIST = "data_scientist", _("Data scientist")
    SRE = "sre", _("SRE")
    BUSINESS_OWNER = "business_owner", _("Business owner")


class RiskClass(models.TextChoices):
    LOW = "low", _("Low")
    MEDIUM = "medium", _("Medium")
    HIGH = "high", _("High")


class Visibility(models.TextChoices):
    EVERYBODY = "everybody", _("Everybody who signs in")
    TEAM = "team", _("Its team, seats and owner")


T = TypeVar("T", bound=models.Model)


class OfModelQuerySet(models.QuerySet[T]):
    """Rows that hang on a model, reached by `model_path`: seen by whoever may see the model."""

    model_path: ClassVar[str] = "model__"

    def visible_to(self, user: User) -> Self:
        """The rows that exist for this person (no query of its own)."""
        return self.filter(visible_models(user, self.model_path))


class RegisteredModelQuerySet(models.QuerySet["RegisteredModel"]):
    """Models, with who may see them."""

    def visible_to(self, user: User) -> Self:
        """The models that exist for this person (no query of its own)."""
        return self.filter(visible_models(user))


def visible_models(user: User, path: str = "") -> models.Q:
    """The condition that the model at `path` ("version__model__") exists for this person.

    With the visibility `team` that is its owner, its team, who sits in its seats, and who sees
    all models (`User.sees_all_models`). The parts are subqueries, so that no row comes twice.
    """
    if user.sees_all_models:
        return models.Q()
    teams = TeamMembership.objects.filter(user=user).values("team")
    seats = SeatHolder.objects.filter(user=user).values("model")
    return (
        models.Q(**{f"{path}visibility": Visibility.EVERYBODY})
        | models.Q(**{f"{path}owner": user})
        | models.Q(**{f"{path}team__in": teams})
        | models.Q(**{f"{path}id__in": seats})
    )


class RegisteredModel(models.Model):
    """A model that has versions, a promise and callers. `name` is lower_snake_case.

    With the visibility `team` it, and everything that hangs on it, does not exist for others.
    """

    name = models.CharField(max_length=63, unique=True)
    description = models.TextField(blank=True)
    owner = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    team = models.ForeignKey(
        Team, on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )
    risk_class = models.CharField(max_length=8, choices=RiskClass.choices, default=RiskClass.MEDIUM)
    visibility = models.CharField(
        max_length=10, choices=Visibility.choices, default=Visibility.EVERYBODY
    )
    tags: ArrayField[list[str], list[str]] = ArrayField(
        models.CharField(max_length=40), default=list, blank=True
    )
    last_version_number = models.PositiveIntegerField(default=0)
    last_contract_revision = models.PositiveIntegerField(default=0)
    created_at = models.DateTimeField(auto_now_add=True)

    objects = RegisteredModelQuerySet.as_manager()

    class Meta:
        ordering: ClassVar[list[str]] = ["name"]
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.CheckConstraint(
                condition=models.Q(name__regex=r"^[a-z][a-z0-9_]{1,62}$"),
                name="model_name_is_lower_snake_case",
            )
        ]

    def __str__(self) -> str:
        return self.name


class SeatHolderQuerySet(OfModelQuerySet["SeatHolder"]):
    model_path = "model__"


class SeatHolder(models.Model):
    """Who sits in one of a model's three seats."""

    model = models.ForeignKey(RegisteredModel, on_delete=models.CASCADE, related_name="seats")
    seat = models.CharField(max_length=16, choices=Seat.choices)
    user = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    since = models.DateTimeField(auto_now_add=True)

    objects = SeatHolderQuerySet.as_manager()

    class Meta:
        ordering: ClassVar[list[str]] = ["seat"]
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(fields=["model", "seat"], name="one_holder_per_seat")
        ]

    def __str__(self) -> str:
        return f"{self.seat} of {self.model_id}: {self.user_id}"


class ModelAliasQuerySet(OfModelQuerySet["ModelAlias"]):
    model_path = "model__"


class ModelAlias(models.Model):
    """A name that points to a version, such as champion or challenger."""

    model = models.ForeignKey(RegisteredModel, on_delete=models.CASCADE, related_name="aliases")
    name = models.SlugField(max_length=40)
    version = models.ForeignKey(
        "models_registry.ModelVersion", on_delete=models.CASCADE, related_name="aliases"
    )

    objects = ModelAliasQuerySet.as_manager()

    class Meta:
        ordering: ClassVar[list[str]] = ["name"]
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(fields=["model", "name"], name="alias_once_per_model")
        ]

    def __str__(self) -> str:
        return self.name
