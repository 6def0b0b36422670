"""Service contracts and the signatures over contracts and releases."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _

from console.models import SigningKey, User
from models_registry.models.catalog import OfModelQuerySet, RegisteredModel, Seat


class ContractState(models.TextChoices):
    PROPOSED = "proposed", _("Proposed")
    IN_FORCE = "in_force", _("In force")
    SUPERSEDED = "superseded", _("Superseded")
    WITHDRAWN = "withdrawn", _("Withdrawn")
    EXPIRED = "expired", _("Expired")


HOLDING = (ContractState.IN_FORCE, ContractState.EXPIRED)
"""What serves goes on serving by the newest of these that was in force, expired or not."""


class ServiceContractQuerySet(OfModelQuerySet["ServiceContract"]):
    model_path = "model__"

    def holding(self) -> ServiceContractQuerySet:
        """In force, or expired after it was, the newest first: the first of a model holds."""
        held = self.filter(state__in=HOLDING, in_force_at__isnull=False)
        return held.order_by("-revision")


class ServiceContract(models.Model):
    """A numbered revision of a model's promise; immutable from the moment it is proposed.

    `payload` holds the exact canonical bytes (RFC 8785) that are signed; `digest` is their SHA-256
    in hex. In force when all three seats have signed; the next one in force supersedes it, and
    the end of the day `valid_until` (UTC), copied from the document, ends it.
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
    valid_until = models.DateField(null=True, blank=True)
    in_force_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)

    objects = ServiceContractQuerySet.as_manager()

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


class ContractSignatureQuerySet(OfModelQuerySet["ContractSignature"]):
    model_path = "contract__model__"


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

    objects = ContractSignatureQuerySet.as_manager()

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


class ContractDraftQuerySet(OfModelQuerySet["ContractDraft"]):
    model_path = "model__"


class ContractDraft(models.Model):
    """A contract that is still being written: `text` is YAML, and may be wrong.

    `edition` counts its changes; a change names the one that it was made from, so that two people
    never overwrite each other. A proposed draft keeps the revision that it became.
    """

    model = models.ForeignKey(RegisteredModel, on_delete=models.CASCADE, related_name="drafts")
    title = models.CharField(max_length=120)
    text = models.TextField()
    edition = models.PositiveIntegerField(default=1)
    created_by = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    changed_by = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)
    changed_at = models.DateTimeField(auto_now=True)
    proposed_as = models.ForeignKey(
        ServiceContract, on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )
    discarded_at = models.DateTimeField(null=True, blank=True)

    objects = ContractDraftQuerySet.as_manager()

    class Meta:
        ordering: ClassVar[list[str]] = ["-changed_at"]

    def __str__(self) -> str:
        return self.title


class ContractCommentQuerySet(OfModelQuerySet["ContractComment"]):
    model_path = "contract__model__"


class ContractComment(models.Model):
    """What somebody says of a proposal, of one place in it (`pointer`, RFC 6901) or as a whole."""

    contract = models.ForeignKey(ServiceContract, on_delete=models.CASCADE, related_name="comments")
    author = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    pointer = models.CharField(max_length=200, blank=True)
    text = models.TextField()
    answers = models.ForeignKey(
        "self", on_delete=models.CASCADE, null=True, blank=True, related_name="+"
    )
    at = models.DateTimeField(auto_now_add=True)
    resolved_at = models.DateTimeField(null=True, blank=True)
    resolved_by = models.ForeignKey(
        User, on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )

    objects = ContractCommentQuerySet.as_manager()

    class Meta:
        ordering: ClassVar[list[str]] = ["at"]

    def __str__(self) -> str:
        return self.text[:60]
