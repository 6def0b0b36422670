"""Environments' policies, and releases of a version to an environment with their approvals."""

from __future__ import annotations

import uuid
from typing import ClassVar

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.utils.translation import gettext_lazy as _

from console.models import Role, SigningKey, User
from models_registry.models.catalog import OfModelQuerySet
from models_registry.models.contracts import ServiceContract
from models_registry.models.versions import ModelVersion
from models_registry.rules import approval_documents
from models_registry.rules.approval_rules import ApprovalRule


class Environment(models.Model):
    """Where releases go, with its policy as data.

    `approval_rules` are what an approval takes, in the JSON form of rules/approval_documents;
    `approver_roles` and `author_may_approve` read them in short. An approval counts for new
    deployments for `approval_valid_days` days (None: always). `break_glass_roles` may release
    against the policy; nobody may when there are none. With `requires_load_test` a release needs a
    load test of the version that kept `load_test_p95_ms` and `load_test_success` (per cent) in
    another environment. A `production` environment is load-tested by special permission only. The
    gateway's side of an environment (listeners, nodes) hangs on this row from above: deployments.
    """

    name = models.SlugField(max_length=40, unique=True)
    description = models.CharField(max_length=200, blank=True)
    requires_contract = models.BooleanField(default=False)
    approval_rules = models.JSONField(default=list, blank=True)
    approval_valid_days = models.PositiveSmallIntegerField(null=True, blank=True)
    break_glass_roles: ArrayField[list[str], list[str]] = ArrayField(
        models.CharField(max_length=32, choices=Role.choices), default=list, blank=True
    )
    production = models.BooleanField(default=False)
    requires_load_test = models.BooleanField(default=False)
    load_test_p95_ms = models.FloatField(default=50.0)
    load_test_success = models.FloatField(default=100.0)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering: ClassVar[list[str]] = ["name"]

    def __str__(self) -> str:
        return self.name

    @property
    def approver_roles(self) -> list[str]:
        """The roles that the approval rules ask for."""
        return approval_documents.approver_roles(self.rules)

    @property
    def author_may_approve(self) -> bool:
        """Whether who asks for a release may give an approval by each rule."""
        return approval_documents.admits_authors(self.rules)

    @property
    def rules(self) -> tuple[ApprovalRule, ...]:
        """The approval rules. Raises Invalid `bad_policy` when the row was written past us."""
        return approval_documents.read_rules(self.approval_rules)


class FreezeWindow(models.Model):
    """A time in which nothing new is released to an environment; times in UTC.

    `weekly` repeats it each week from its first beginning until it is lifted.
    """

    environment = models.ForeignKey(
        Environment, on_delete=models.CASCADE, related_name="freeze_windows"
    )
    name = models.CharField(max_length=80)
    starts_at = models.DateTimeField()
    ends_at = models.DateTimeField()
    weekly = models.BooleanField(default=False)
    reason = models.CharField(max_length=300, blank=True)
    created_by = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)
    lifted_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering: ClassVar[list[str]] = ["starts_at"]
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.CheckConstraint(
                condition=models.Q(ends_at__gt=models.F("starts_at")),
                name="freeze_ends_after_it_starts",
            )
        ]

    def __str__(self) -> str:
        return self.name


class ReleaseState(models.TextChoices):
    PROPOSED = "proposed", _("Proposed")
    APPROVED = "approved", _("Approved")
    REFUSED = "refused", _("Refused")
    WITHDRAWN = "withdrawn", _("Withdrawn")


class ReleaseQuerySet(OfModelQuerySet["Release"]):
    model_path = "version__model__"


class Release(models.Model):
    """One version for one environment; `payload` is the canonical document that approvals sign."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    version = models.ForeignKey(ModelVersion, on_delete=models.PROTECT, related_name="releases")
    environment = models.ForeignKey(Environment, on_delete=models.PROTECT, related_name="+")
    contract = models.ForeignKey(
        ServiceContract, on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )
    state = models.CharField(
        max_length=10, choices=ReleaseState.choices, default=ReleaseState.PROPOSED
    )
    payload = models.BinaryField()
    digest = models.CharField(max_length=64)
    digests = models.JSONField()
    # What the policy asked for when this was asked for, with what the contract promised on top;
    # `required_roles` are the roles in it.
    required_rules = models.JSONField(default=list, blank=True)
    required_roles: ArrayField[list[str], list[str]] = ArrayField(
        models.CharField(max_length=32), default=list, blank=True
    )
    requested_by = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    requested_at = models.DateTimeField()
    decided_at = models.DateTimeField(null=True, blank=True)
    note = models.TextField(blank=True)

    objects = ReleaseQuerySet.as_manager()

    class Meta:
        ordering: ClassVar[list[str]] = ["-requested_at"]
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(
                fields=["version", "environment"],
                condition=models.Q(state__in=["proposed", "approved"]),
                name="one_open_release_per_version_and_environment",
            )
        ]

    def __str__(self) -> str:
        return f"{self.version} to {self.environment.name}"


class ReleaseApprovalQuerySet(OfModelQuerySet["ReleaseApproval"]):
    model_path = "release__version__model__"


class ReleaseApproval(models.Model):
    """One person's decision: an approval carries a DSSE envelope, a refusal a reason.

    `roles` and `seats` are those that the person held then; `role` is the one that their word was
    first counted as. An approval that lapsed and was given again stays, `superseded_at` that time.
    """

    release = models.ForeignKey(Release, on_delete=models.PROTECT, related_name="approvals")
    role = models.CharField(max_length=32, choices=Role.choices)
    roles: ArrayField[list[str], list[str]] = ArrayField(
        models.CharField(max_length=32), default=list, blank=True
    )
    seats: ArrayField[list[str], list[str]] = ArrayField(
        models.CharField(max_length=32), default=list, blank=True
    )
    person = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    key = models.ForeignKey(
        SigningKey, on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )
    approved = models.BooleanField()
    envelope = models.JSONField(null=True, blank=True)
    reason = models.TextField(blank=True)
    at = models.DateTimeField(auto_now_add=True)
    superseded_at = models.DateTimeField(null=True, blank=True)

    objects = ReleaseApprovalQuerySet.as_manager()

    class Meta:
        ordering: ClassVar[list[str]] = ["at"]
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(
                fields=["release", "person"],
                condition=models.Q(superseded_at__isnull=True),
                name="one_decision_per_person",
            ),
            models.CheckConstraint(
                condition=models.Q(approved=False) | models.Q(envelope__isnull=False),
                name="an_approval_is_signed",
            ),
        ]

    def __str__(self) -> str:
        return f"{'approved' if self.approved else 'refused'} by {self.person_id}"


class BreakGlassQuerySet(OfModelQuerySet["BreakGlass"]):
    model_path = "release__version__model__"


class BreakGlass(models.Model):
    """A release that went ahead against its environment's policy: by whom, why, past what.

    Signed over the release's payload like an approval. `waived` lists the codes and sentences of
    what was not met. A second person has been told, and says that they have looked into it.
    """

    release = models.OneToOneField(Release, on_delete=models.PROTECT, related_name="break_glass")
    person = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    role = models.CharField(max_length=32, choices=Role.choices)
    key = models.ForeignKey(SigningKey, on_delete=models.PROTECT, related_name="+")
    envelope = models.JSONField()
    reason = models.TextField()
    waived = models.JSONField(default=list)
    at = models.DateTimeField(auto_now_add=True)
    reviewed_by = models.ForeignKey(
        User, on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )
    reviewed_at = models.DateTimeField(null=True, blank=True)
    review = models.TextField(blank=True)
    # On which day after its time the review was last reminded of.
    reminded_days = models.PositiveSmallIntegerField(null=True, blank=True)

    objects = BreakGlassQuerySet.as_manager()

    class Meta:
        ordering: ClassVar[list[str]] = ["-at"]

    def __str__(self) -> str:
        return f"break-glass of {self.release_id}"
