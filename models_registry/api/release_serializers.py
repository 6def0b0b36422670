"""What the API answers about releases, environments and their policies."""

from __future__ import annotations

from typing import Any, ClassVar

from django.utils import timezone
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from models_registry.models import BreakGlass, Environment, FreezeWindow, Release, ReleaseApproval
from models_registry.rules import freezes
from models_registry.rules.approval_policy import Condition, Verdict
from models_registry.rules.break_glass import review_due
from models_registry.selectors.load_tests import gate_of
from models_registry.selectors.release_policies import broken_glass, verdict_of, windows_of


class ApprovalSerializer(serializers.ModelSerializer[ReleaseApproval]):
    person = serializers.CharField(source="person.username")
    keyid = serializers.CharField(source="key.keyid", default=None)

    class Meta:
        model = ReleaseApproval
        fields: ClassVar[list[str]] = [
            "role",
            "person",
            "approved",
            "keyid",
            "reason",
            "at",
            "superseded_at",
        ]


class LoadTestGateSerializer(serializers.Serializer[Any]):
    asked = serializers.BooleanField(
        source="required", help_text="Whether the environment asks for a load test."
    )
    open = serializers.BooleanField(help_text="Whether the release may pass.")
    load_test = serializers.UUIDField(
        source="run.id", default=None, help_text="The load test that satisfies it."
    )
    sentence = serializers.CharField()
    hint = serializers.CharField(help_text="What to do while it is missing.")


class ConditionSerializer(serializers.Serializer[Any]):
    code = serializers.CharField(
        help_text="approval_missing, contract_missing, contract_expired, load_test_missing or "
        "environment_frozen."
    )
    met = serializers.BooleanField()
    waived = serializers.BooleanField(help_text="Missing, and gone past by breaking the glass.")
    sentence = serializers.CharField()
    hint = serializers.CharField(help_text="What to do while it is missing.")
    missing = serializers.IntegerField(help_text="Of an approval rule: how many are missing.")
    approved_by = serializers.SerializerMethodField()
    lapsed = serializers.SerializerMethodField(help_text="Whose approval does not count any more.")
    until = serializers.SerializerMethodField(help_text="When a freeze ends.")

    @extend_schema_field(serializers.ListField(child=serializers.CharField()))
    def get_approved_by(self, condition: Condition) -> list[str]:
        return [one.person for one in condition.approvals]

    @extend_schema_field(serializers.ListField(child=serializers.CharField()))
    def get_lapsed(self, condition: Condition) -> list[str]:
        return [one.person for one in condition.lapsed]

    @extend_schema_field(serializers.DateTimeField(allow_null=True))
    def get_until(self, condition: Condition) -> Any:
        return condition.frozen.until if condition.frozen else None


class WaivedSerializer(serializers.Serializer[Any]):
    code = serializers.CharField()
    sentence = serializers.CharField()
    until = serializers.CharField(required=False)


class BreakGlassSerializer(serializers.ModelSerializer[BreakGlass]):
    person = serializers.CharField(source="person.username")
    keyid = serializers.CharField(source="key.keyid")
    waived = WaivedSerializer(many=True)
    reviewed_by = serializers.CharField(source="reviewed_by.username", default=None)
    review_due = serializers.SerializerMethodField()

    class Meta:
        model = BreakGlass
        fields: ClassVar[list[str]] = [
            "person",
            "role",
            "keyid",
            "reason",
            "waived",
            "at",
            "review_due",
            "reviewed_by",
            "reviewed_at",
            "review",
        ]

    @extend_schema_field(serializers.DateTimeField())
    def get_review_due(self, broken: BreakGlass) -> Any:
        return review_due(broken.at)


class ReleaseSerializer(serializers.ModelSerializer[Release]):
    model = serializers.CharField(source="version.model.name")
    version = serializers.IntegerField(source="version.number")
    environment = serializers.CharField(source="environment.name")
    contract = serializers.IntegerField(source="contract.revision", default=None)
    requested_by = serializers.CharField(source="requested_by.username")
    approvals = ApprovalSerializer(many=True)
    missing_roles = serializers.SerializerMethodField()
    conditions = serializers.SerializerMethodField(
        help_text="Everything that the policy asks for, met or missing, in words."
    )
    may_deploy = serializers.SerializerMethodField(
        help_text="Whether the policy stands in no deployment's way now."
    )
    approvals_lapse_at = serializers.SerializerMethodField(
        help_text="When the approvals will not do any more for a new deployment."
    )
    explanation = serializers.SerializerMethodField(
        help_text="What the environment's policy asks for, and what is missing."
    )
    load_test = serializers.SerializerMethodField()
    break_glass = serializers.SerializerMethodField(
        help_text="How it was released against the policy; null when it was not."
    )

    class Meta:
        model = Release
        fields: ClassVar[list[str]] = [
            "id",
            "model",
            "version",
            "environment",
            "state",
            "digest",
            "digests",
            "contract",
            "required_roles",
            "required_rules",
            "missing_roles",
            "conditions",
            "may_deploy",
            "approvals_lapse_at",
            "explanation",
            "load_test",
            "approvals",
            "break_glass",
            "requested_by",
            "requested_at",
            "decided_at",
            "note",
        ]

    def to_representation(self, release: Release) -> dict[str, Any]:
        """One verdict for all the fields that read it."""
        release.__dict__["verdict_now"] = verdict_of(release, timezone.now())
        return super().to_representation(release)

    def get_missing_roles(self, release: Release) -> list[str]:
        missing = [one.rule for one in _verdict(release).approvals if one.rule and not one.met]
        return list(dict.fromkeys(role for rule in missing for role in rule.roles))

    @extend_schema_field(ConditionSerializer(many=True))
    def get_conditions(self, release: Release) -> Any:
        return ConditionSerializer(_verdict(release).conditions, many=True).data

    def get_may_deploy(self, release: Release) -> bool:
        return release.state == "approved" and _verdict(release).may_deploy

    @extend_schema_field(serializers.DateTimeField(allow_null=True))
    def get_approvals_lapse_at(self, release: Release) -> Any:
        return _verdict(release).lapses_at

    def get_explanation(self, release: Release) -> str:
        gate = gate_of(release)
        words = _verdict(release).explanation
        return f"{words} {gate.sentence}" if gate.required else words

    @extend_schema_field(LoadTestGateSerializer)
    def get_load_test(self, release: Release) -> dict[str, Any]:
        return dict(LoadTestGateSerializer(gate_of(release)).data)

    @extend_schema_field(BreakGlassSerializer(allow_null=True))
    def get_break_glass(self, release: Release) -> Any:
        broken = broken_glass(release)
        return BreakGlassSerializer(broken).data if broken else None


class FreezeSerializer(serializers.ModelSerializer[FreezeWindow]):
    environment = serializers.CharField(source="environment.name")
    created_by = serializers.CharField(source="created_by.username")

    class Meta:
        model = FreezeWindow
        fields: ClassVar[list[str]] = [
            "id",
            "environment",
            "name",
            "starts_at",
            "ends_at",
            "weekly",
            "reason",
            "created_by",
            "created_at",
            "lifted_at",
        ]


class ApprovalRuleSerializer(serializers.Serializer[Any]):
    """One rule: see GET /approval-policy-schema/."""

    count = serializers.IntegerField()
    roles = serializers.ListField(child=serializers.CharField(), required=False)
    seats = serializers.ListField(child=serializers.CharField(), required=False)

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        fields = super().get_fields()
        # A word of Python's, and the rule's own.
        fields["not"] = serializers.ListField(child=serializers.CharField(), required=False)
        return fields


class EnvironmentSerializer(serializers.ModelSerializer[Environment]):
    approval_rules = ApprovalRuleSerializer(many=True)
    approver_roles = serializers.ListField(
        child=serializers.CharField(), help_text="The roles that approval_rules ask for."
    )
    author_may_approve = serializers.BooleanField()
    policy = serializers.SerializerMethodField(help_text="approval_rules in words.")
    frozen_until = serializers.SerializerMethodField(
        help_text="When the freeze that is running ends; null when nothing is frozen."
    )

    class Meta:
        model = Environment
        fields: ClassVar[list[str]] = [
            "name",
            "description",
            "requires_contract",
            "approval_rules",
            "approver_roles",
            "author_may_approve",
            "policy",
            "approval_valid_days",
            "break_glass_roles",
            "frozen_until",
            "production",
            "requires_load_test",
            "load_test_p95_ms",
            "load_test_success",
            "created_at",
        ]

    def get_policy(self, environment: Environment) -> list[str]:
        return [rule.words() for rule in environment.rules]

    @extend_schema_field(serializers.DateTimeField(allow_null=True))
    def get_frozen_until(self, environment: Environment) -> Any:
        frozen = freezes.frozen_at(windows_of(environment), timezone.now())
        return frozen.until if frozen else None


class PreviewRowSerializer(serializers.Serializer[Any]):
    release = serializers.UUIDField()
    subject = serializers.CharField()
    state = serializers.CharField()
    missing = serializers.ListField(child=serializers.CharField())


class PolicyPreviewSerializer(serializers.Serializer[Any]):
    policy = serializers.ListField(child=serializers.CharField())
    weaker = serializers.ListField(
        child=serializers.CharField(), help_text="What the policy would not ask for any more."
    )
    impossible = serializers.ListField(
        child=serializers.CharField(), help_text="Rules that too few people could meet."
    )
    releases = PreviewRowSerializer(many=True)


def _verdict(release: Release) -> Verdict:
    verdict: Verdict = release.__dict__["verdict_now"]
    return verdict
