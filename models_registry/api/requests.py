"""What the registry's API reads."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from models_registry.exporting.protocol import DEFAULT_OPSET
from models_registry.models import ModelClass, Optimisation, RiskClass, Visibility


class CreateModelSerializer(serializers.Serializer[Any]):
    name = serializers.CharField(max_length=200, help_text="lower_snake_case, 2 to 63 characters")
    description = serializers.CharField(required=False, allow_blank=True, default="")
    owner = serializers.CharField(required=False, help_text="A user name; yourself by default.")
    team = serializers.CharField(required=False, allow_null=True)
    risk_class = serializers.ChoiceField(RiskClass.choices, default=RiskClass.MEDIUM)
    visibility = serializers.ChoiceField(
        Visibility.choices,
        default=Visibility.EVERYBODY,
        help_text="Who may know of it: everybody, or its team, seats and owner alone.",
    )
    tags = serializers.ListField(child=serializers.CharField(), required=False, default=list)
    seats = serializers.DictField(
        child=serializers.CharField(),
        required=False,
        default=dict,
        help_text="User names for data_scientist, sre and business_owner.",
    )


class ChangeModelSerializer(serializers.Serializer[Any]):
    description = serializers.CharField(required=False, allow_blank=True)
    owner = serializers.CharField(required=False)
    team = serializers.CharField(required=False, allow_null=True)
    risk_class = serializers.ChoiceField(RiskClass.choices, required=False)
    visibility = serializers.ChoiceField(Visibility.choices, required=False)
    tags = serializers.ListField(child=serializers.CharField(), required=False)
    seats = serializers.DictField(child=serializers.CharField(), required=False)
    aliases = serializers.DictField(
        child=serializers.IntegerField(allow_null=True, min_value=1),
        required=False,
        help_text="Version numbers by alias; null takes an alias away.",
    )


class CreateVersionSerializer(serializers.Serializer[Any]):
    upload = serializers.UUIDField()
    source_format = serializers.CharField(required=False, allow_blank=True, default="")
    inputs = serializers.ListField(child=serializers.DictField(), required=False, default=list)
    outputs = serializers.ListField(child=serializers.DictField(), required=False, default=list)
    opset = serializers.IntegerField(default=DEFAULT_OPSET, min_value=1, max_value=1000)
    target = serializers.CharField(
        required=False,
        allow_blank=True,
        default="",
        max_length=20,
        help_text="Triton release that has to load the export, as in 24.10; empty: the site's.",
    )
    model_class = serializers.ChoiceField(ModelClass.choices, default=ModelClass.TABULAR)
    code_upload = serializers.UUIDField(required=False, allow_null=True)
    data_uploads = serializers.ListField(
        child=serializers.UUIDField(),
        required=False,
        default=list,
        help_text="Files that an .onnx file keeps its weights in, called as it calls them.",
    )
    sample = serializers.DictField(
        required=False, allow_null=True, help_text="A v2 request, or nested lists by input."
    )
    sample_upload = serializers.UUIDField(required=False, allow_null=True)
    module_entry = serializers.CharField(
        required=False, allow_blank=True, default="", max_length=200
    )
    module_arguments = serializers.DictField(required=False, default=dict)
    tuning = serializers.DictField(required=False, default=dict)
    notes = serializers.CharField(required=False, allow_blank=True, default="")


class OptimiseSerializer(serializers.Serializer[Any]):
    optimisation = serializers.ChoiceField(Optimisation.choices)
    keep_io = serializers.BooleanField(
        default=True, help_text="false: an FP16 variant takes and gives FP16 as well."
    )
    notes = serializers.CharField(required=False, allow_blank=True, default="")


class ProposalRequestSerializer(serializers.Serializer[Any]):
    code_upload = serializers.UUIDField(required=False, allow_null=True)
    sample_upload = serializers.UUIDField(required=False, allow_null=True)
    module_entry = serializers.CharField(
        required=False, allow_blank=True, default="", max_length=200
    )
    module_arguments = serializers.DictField(required=False, default=dict)


class EnvelopeSerializer(serializers.Serializer[Any]):
    envelope = serializers.DictField(help_text="DSSE: payload, payloadType, signatures.")


class CreateReleaseSerializer(serializers.Serializer[Any]):
    version = serializers.IntegerField(min_value=1)
    environment = serializers.CharField(max_length=40)
    note = serializers.CharField(required=False, allow_blank=True, default="")
    break_glass = serializers.BooleanField(
        default=False,
        help_text="Ask although the contract is missing: only breaking the glass can approve it.",
    )


class DecisionSerializer(serializers.Serializer[Any]):
    approve = serializers.BooleanField(default=True)
    envelope = serializers.DictField(required=False)
    reason = serializers.CharField(required=False, allow_blank=True, default="", max_length=2000)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if attrs["approve"] and "envelope" not in attrs:
            raise serializers.ValidationError({"envelope": "An approval is a signed envelope."})
        return attrs


class ChangeEnvironmentSerializer(serializers.Serializer[Any]):
    description = serializers.CharField(required=False, allow_blank=True, max_length=200)
    requires_contract = serializers.BooleanField(required=False)
    approval_rules = serializers.ListField(
        child=serializers.DictField(),
        required=False,
        help_text="What an approval takes: see GET /approval-policy-schema/.",
    )
    approval_valid_days = serializers.IntegerField(
        required=False,
        allow_null=True,
        help_text="After how many days an approval counts for no new deployment; null: it does.",
    )
    break_glass_roles = serializers.ListField(
        child=serializers.CharField(),
        required=False,
        help_text="Who may release against the policy; nobody when empty.",
    )
    approver_roles = serializers.ListField(
        child=serializers.CharField(),
        required=False,
        help_text="In place of approval_rules: one approval by a holder of each role.",
    )
    author_may_approve = serializers.BooleanField(required=False)
    production = serializers.BooleanField(required=False)
    requires_load_test = serializers.BooleanField(required=False)
    load_test_p95_ms = serializers.FloatField(required=False)
    load_test_success = serializers.FloatField(required=False, help_text="In per cent.")


class SetEnvironmentSerializer(ChangeEnvironmentSerializer):
    name = serializers.CharField(max_length=80)


class StartDraftSerializer(serializers.Serializer[Any]):
    title = serializers.CharField(required=False, allow_blank=True, default="", max_length=200)
    text = serializers.CharField(
        required=False,
        allow_blank=True,
        allow_null=True,
        trim_whitespace=False,
        default=None,
        help_text="YAML; left out: what the fields below say, or a blank document.",
    )
    template = serializers.CharField(required=False, allow_blank=True, default="", max_length=40)
    revision = serializers.IntegerField(
        required=False, allow_null=True, default=None, min_value=1, max_value=2**31 - 1
    )
    version = serializers.IntegerField(
        required=False,
        allow_null=True,
        default=None,
        min_value=1,
        max_value=2**31 - 1,
        help_text="Whose report and interface fill it; with a template the newest validated.",
    )


class ChangeDraftSerializer(serializers.Serializer[Any]):
    title = serializers.CharField(required=False, max_length=200)
    text = serializers.CharField(allow_blank=True, trim_whitespace=False, help_text="YAML")


class ProposeDraftSerializer(serializers.Serializer[Any]):
    note = serializers.CharField(required=False, allow_blank=True, default="", max_length=2000)
    acknowledge_breaking = serializers.BooleanField(required=False, default=False)


class AddCommentSerializer(serializers.Serializer[Any]):
    text = serializers.CharField(max_length=100_000, help_text="Plain text, at most 4000.")
    pointer = serializers.CharField(
        required=False,
        allow_blank=True,
        default="",
        max_length=1000,
        help_text="JSON pointer of the clause it is about; empty: the whole.",
    )
    answers = serializers.IntegerField(
        required=False,
        allow_null=True,
        default=None,
        min_value=1,
        max_value=2**63 - 1,
        help_text="Id of the comment that it replies to.",
    )


class BreakGlassRequestSerializer(serializers.Serializer[Any]):
    envelope = serializers.DictField(help_text="DSSE over the release's payload, by one's own key.")
    reason = serializers.CharField(allow_blank=True, max_length=4000)
    password = serializers.CharField(
        required=False,
        allow_blank=True,
        default="",
        trim_whitespace=False,
        help_text="To prove again who it is.",
    )
    code = serializers.CharField(
        required=False,
        allow_blank=True,
        default="",
        help_text="Or the code of one's authenticator app.",
    )


class ReviewSerializer(serializers.Serializer[Any]):
    review = serializers.CharField(allow_blank=True, max_length=4000)


class FreezeRequestSerializer(serializers.Serializer[Any]):
    name = serializers.CharField(max_length=80)
    starts_at = serializers.DateTimeField()
    ends_at = serializers.DateTimeField()
    weekly = serializers.BooleanField(default=False)
    reason = serializers.CharField(allow_blank=True, max_length=300)
