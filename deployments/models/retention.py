"""How long what was counted and measured stays, as one row that is changed by people."""

from __future__ import annotations

from typing import ClassVar

from django.db import models

from console.models import User

ROW = 1


class RetentionPolicy(models.Model):
    """Days that each kind of count is kept; 0 keeps it for ever. There is one row."""

    minutes_days = models.PositiveIntegerField(default=100)
    hours_days = models.PositiveIntegerField(default=800)
    days_days = models.PositiveIntegerField(default=0)
    series_minutes_days = models.PositiveIntegerField(default=35)
    series_hours_days = models.PositiveIntegerField(default=400)
    mirrors_days = models.PositiveIntegerField(default=100)
    comparisons_days = models.PositiveIntegerField(default=100)
    outcomes_days = models.PositiveIntegerField(default=400)
    gaps_days = models.PositiveIntegerField(default=800)
    revision = models.PositiveIntegerField(default=0)
    updated_at = models.DateTimeField(null=True, blank=True)
    updated_by = models.ForeignKey(
        User, on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )
    last_run_at = models.DateTimeField(null=True, blank=True)
    last_run = models.JSONField(default=dict, blank=True)

    class Meta:
        verbose_name_plural = "retention policies"
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.CheckConstraint(condition=models.Q(pk=ROW), name="one_retention_policy")
        ]

    def __str__(self) -> str:
        return f"retention, revision {self.revision}"
