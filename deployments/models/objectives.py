"""Time that a promise does not count: maintenance agreed beforehand, exclusions agreed after."""

from __future__ import annotations

import uuid
from typing import ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _

from console.models import User
from deployments.models.incidents import Incident
from deployments.models.traffic import Endpoint
from models_registry.models import Seat
from models_registry.models.catalog import OfModelQuerySet


class AgreementState(models.TextChoices):
    PROPOSED = "proposed", _("Proposed")
    AGREED = "agreed", _("Agreed")
    WITHDRAWN = "withdrawn", _("Withdrawn")


class AgreedSpan(models.Model):
    """Whole minutes [starts_at, ends_at) of one endpoint that its three seats set aside.

    `agreed_at` is when the third seat agreed: until then the time counts like any other.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    starts_at = models.DateTimeField()
    ends_at = models.DateTimeField()
    reason = models.TextField()
    state = models.CharField(
        max_length=9, choices=AgreementState.choices, default=AgreementState.PROPOSED
    )
    proposed_by = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    proposed_at = models.DateTimeField()
    agreed_at = models.DateTimeField(null=True, blank=True)
    withdrawn_by = models.ForeignKey(
        User, on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )
    withdrawn_at = models.DateTimeField(null=True, blank=True)
    withdrawn_because = models.TextField(blank=True)

    class Meta:
        abstract = True
        ordering: ClassVar[list[str]] = ["-starts_at", "-pk"]
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.CheckConstraint(
                condition=models.Q(ends_at__gt=models.F("starts_at")),
                name="%(class)s_ends_after_it_starts",
            )
        ]
        indexes: ClassVar[list[models.Index]] = [
            models.Index(fields=["endpoint", "starts_at"], name="%(class)s_at")
        ]


class SeatAgreement(models.Model):
    """One seat's word for a span, given once by one person."""

    seat = models.CharField(max_length=16, choices=Seat.choices)
    person = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    at = models.DateTimeField()

    class Meta:
        abstract = True
        ordering: ClassVar[list[str]] = ["at", "pk"]


class MaintenanceWindowQuerySet(OfModelQuerySet["MaintenanceWindow"]):
    model_path = "endpoint__model__"


class MaintenanceWindow(AgreedSpan):
    """Work announced before it begins. Withdrawn while it runs, it ends at that minute."""

    endpoint = models.ForeignKey(
        Endpoint, on_delete=models.PROTECT, related_name="maintenance_windows"
    )

    objects = MaintenanceWindowQuerySet.as_manager()

    def __str__(self) -> str:
        return f"{self.endpoint_id} maintenance {self.starts_at:%Y-%m-%d %H:%M}"


class MaintenanceAgreement(SeatAgreement):
    window = models.ForeignKey(
        MaintenanceWindow, on_delete=models.CASCADE, related_name="agreements"
    )

    class Meta(SeatAgreement.Meta):
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(fields=["window", "seat"], name="maintenance_seat_once"),
            models.UniqueConstraint(fields=["window", "person"], name="maintenance_person_once"),
        ]

    def __str__(self) -> str:
        return f"{self.window_id} {self.seat}"


class ExclusionQuerySet(OfModelQuerySet["Exclusion"]):
    model_path = "endpoint__model__"


class Exclusion(AgreedSpan):
    """Time taken out of the count after the fact, with what shows why (`evidence`)."""

    endpoint = models.ForeignKey(Endpoint, on_delete=models.PROTECT, related_name="exclusions")
    evidence = models.TextField()
    incident = models.ForeignKey(
        Incident, on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )

    objects = ExclusionQuerySet.as_manager()

    def __str__(self) -> str:
        return f"{self.endpoint_id} exclusion {self.starts_at:%Y-%m-%d %H:%M}"


class ExclusionAgreement(SeatAgreement):
    exclusion = models.ForeignKey(Exclusion, on_delete=models.CASCADE, related_name="agreements")

    class Meta(SeatAgreement.Meta):
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(fields=["exclusion", "seat"], name="exclusion_seat_once"),
            models.UniqueConstraint(fields=["exclusion", "person"], name="exclusion_person_once"),
        ]

    def __str__(self) -> str:
        return f"{self.exclusion_id} {self.seat}"
