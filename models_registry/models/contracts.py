"""Service contracts and the signatures over contracts and releases."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _

from console.models import SigningKey, User
from models_registry.models.catalog import RegisteredModel, Seat


class ContractState(models.TextChoices):
    PROPOSED = "proposed", _("Proposed")
    IN_FORCE = "in_force", _("In force")
    SUPERSEDED = "superseded", _("Superseded")
    WITHDRAWN = "withdrawn", _("Withdrawn")


class ServiceContract(models.Model):
    """A numbered revision of a model's promise; immutable from the moment it is proposed.

    `payload` holds the exact canonical bytes (RFC 8785) that are signed; `digest` is their SHA-256
    in hex. In force when all three seats have signed; the next one in force supersedes it.
    """

    model = models.ForeignKey(RegisteredModel, on_delete=models.PROTECT, related_name="contracts")
    revision = models.PositiveIntegerField()
    state = models.CharField(
        max_length=12, choices=ContractState.choices, default=ContractState.PROPOSED
    )
    document = models.JSONField()
    payload = models.BinaryField()
    digest = models.CharField(max_length=64)
    note = models.TextField(blank=True)
    proposed_by = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    proposed_at = models.DateTimeField(auto_now_add=True)
    in_force_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering: ClassVar[list[str]] = ["-revision"]
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(fields=["model", "revision"], name="contract_revision_once"),
            models.UniqueConstraint(
                fields=["model"],
                condition=models.Q(state="in_force"),
                name="one_contract_in_force",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.model.name} contract {self.revision}"


class ContractSignature(models.Model):
    """One seat's DSSE envelope over a contract's payload; name and role are copied as text."""

    contract = models.ForeignKey(
        ServiceContract, on_delete=models.PROTECT, related_name="signatures"
    )
    seat = models.CharField(max_length=16, choices=Seat.choices)
    signer = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    key = models.ForeignKey(SigningKey, on_delete=models.PROTECT, related_name="+")
    envelope = models.JSONField()
    signed_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering: ClassVar[list[str]] = ["signed_at"]
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(fields=["contract", "seat"], name="one_signature_per_seat"),
            models.UniqueConstraint(
                fields=["contract", "signer"], name="nobody_signs_two_seats_of_a_contract"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.seat} of contract {self.contract_id}"
