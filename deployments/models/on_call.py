"""Who is on call when: rotations in layers, and who takes over for a while."""

from __future__ import annotations

from typing import ClassVar

from django.contrib.postgres.fields import ArrayField
from django.core.validators import MinValueValidator
from django.db import models
from django.utils.translation import gettext_lazy as _

from console.models import Team, User


class Covers(models.TextChoices):
    EVERYTHING = "everything", _("Every model that has no schedule of its own")
    TEAM = "team", _("The models of a team")
    NAMED = "named", _("Only where a route or an escalation names it")


class OnCallSchedule(models.Model):
    """One person at a time is on call by it; local times are those of `time_zone` (IANA)."""

    name = models.SlugField(max_length=40, unique=True)
    title = models.CharField(max_length=120, blank=True)
    time_zone = models.CharField(max_length=64, default="UTC")
    covers = models.CharField(max_length=10, choices=Covers.choices, default=Covers.NAMED)
    team = models.ForeignKey(
        Team, on_delete=models.CASCADE, null=True, blank=True, related_name="+"
    )
    revision = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField(auto_now_add=True)
    changed_by = models.ForeignKey(
        User, on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )
    changed_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering: ClassVar[list[str]] = ["name"]
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(
                fields=["covers"],
                condition=models.Q(covers="everything"),
                name="one_schedule_for_everything",
            ),
            models.UniqueConstraint(
                fields=["team"],
                condition=models.Q(covers="team"),
                name="one_schedule_for_each_team",
            ),
            models.CheckConstraint(
                condition=models.Q(covers="team", team__isnull=False)
                | (~models.Q(covers="team") & models.Q(team__isnull=True)),
                name="schedule_of_a_team_names_it",
            ),
        ]

    def __str__(self) -> str:
        return self.title or self.name


class OnCallLayer(models.Model):
    """People who take turns of `days_each` days from `starts_on`, handing over at a local time.

    With `from_time` and `until_time`, or with `weekdays` (0 is Monday), it holds only then; a
    higher layer goes before a lower one where it holds.
    """

    schedule = models.ForeignKey(OnCallSchedule, on_delete=models.CASCADE, related_name="layers")
    position = models.PositiveSmallIntegerField()
    starts_on = models.DateField()
    handover = models.TimeField()
    days_each = models.PositiveSmallIntegerField(default=7, validators=[MinValueValidator(1)])
    from_time = models.TimeField(null=True, blank=True)
    until_time = models.TimeField(null=True, blank=True)
    weekdays: ArrayField[list[int], list[int]] = ArrayField(
        models.PositiveSmallIntegerField(), default=list, blank=True
    )

    class Meta:
        ordering: ClassVar[list[str]] = ["schedule_id", "position"]
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(
                fields=["schedule", "position"], name="on_call_layer_position_once"
            )
        ]

    def __str__(self) -> str:
        return f"{self.schedule_id} layer {self.position}"


class OnCallTurn(models.Model):
    """A person's place in a layer's rotation."""

    layer = models.ForeignKey(OnCallLayer, on_delete=models.CASCADE, related_name="turns")
    position = models.PositiveSmallIntegerField()
    person = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")

    class Meta:
        ordering: ClassVar[list[str]] = ["layer_id", "position"]
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(fields=["layer", "position"], name="on_call_turn_once")
        ]

    def __str__(self) -> str:
        return f"{self.person_id} at {self.position}"


class OnCallOverride(models.Model):
    """Somebody else is on call from one moment until another; the newest one holds."""

    schedule = models.ForeignKey(OnCallSchedule, on_delete=models.CASCADE, related_name="overrides")
    person = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    starts_at = models.DateTimeField()
    ends_at = models.DateTimeField()
    reason = models.CharField(max_length=200, blank=True)
    created_by = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering: ClassVar[list[str]] = ["-pk"]
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.CheckConstraint(
                condition=models.Q(ends_at__gt=models.F("starts_at")),
                name="on_call_override_ends_later",
            )
        ]
        indexes: ClassVar[list[models.Index]] = [
            models.Index(fields=["schedule", "ends_at"], name="on_call_override_ends")
        ]

    def __str__(self) -> str:
        return f"{self.person_id} until {self.ends_at:%Y-%m-%d %H:%M}"
