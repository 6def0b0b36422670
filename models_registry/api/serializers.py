"""What the registry's API answers."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from console.errors import Invalid
from models_registry.models import (
    ContractSignature,
    ModelVersion,
    RegisteredModel,
    ServiceContract,
    Upload,
)
from models_registry.selectors.catalog import seats_of
from models_registry.selectors.contracts import checklist_of
from models_registry.selectors.versions import files_of


class LatestVersionSerializer(serializers.Serializer[Any]):
    number = serializers.IntegerField()
    state = serializers.CharField()
    created_at = serializers.DateTimeField()


class ModelSerializer(serializers.ModelSerializer[RegisteredModel]):
    owner = serializers.CharField(source="owner.username")
    team = serializers.CharField(source="team.slug", default=None)
    seats = serializers.SerializerMethodField(help_text="Who sits in each of the three seats.")
    aliases = serializers.SerializerMethodField(help_text="Version numbers by alias.")
    latest_version = serializers.SerializerMethodField()
    latest_validated = serializers.IntegerField(allow_null=True)
    contract_in_force = serializers.IntegerField(source="contract_revision", allow_null=True)

    class Meta:
        model = RegisteredModel
        fields: ClassVar[list[str]] = [
            "name",
            "description",
            "owner",
            "team",
            "risk_class",
            "visibility",
            "tags",
            "seats",
            "aliases",
            "last_version_number",
            "latest_version",
            "latest_validated",
            "contract_in_force",
            "created_at",
        ]

    def get_seats(self, model: RegisteredModel) -> dict[str, str | None]:
        return {row.seat: row.user.username if row.user else None for row in seats_of(model)}

    def get_aliases(self, model: RegisteredModel) -> dict[str, int]:
        return {alias.name: alias.version.number for alias in model.aliases.all()}

    @extend_schema_field(LatestVersionSerializer(allow_null=True))
    def get_latest_version(self, model: Any) -> dict[str, Any] | None:
        if not model.last_version_number:
            return None
        return dict(
            LatestVersionSerializer(
                {
                    "number": model.last_version_number,
                    "state": model.latest_state,
                    "created_at": model.latest_at,
                }
            ).data
        )


class UploadSerializer(serializers.ModelSerializer[Upload]):
    sha256 = serializers.CharField(source="artifact.sha256", default=None)

    class Meta:
        model = Upload
        fields: ClassVar[list[str]] = [
            "id",
            "filename",
            "length",
            "offset",
            "state",
            "refusal",
            "detected_format",
            "sha256",
            "created_at",
            "expires_at",
        ]


class FileSerializer(serializers.Serializer[Any]):
    sha256 = serializers.CharField()
    size = serializers.IntegerField()
    filename = serializers.CharField()


class VersionSummarySerializer(serializers.ModelSerializer[ModelVersion]):
    model = serializers.CharField(source="model.name")
    created_by = serializers.CharField(source="created_by.username")
    export_job = serializers.UUIDField(source="export_job_id", allow_null=True)
    validate_job = serializers.UUIDField(source="validate_job_id", allow_null=True)
    derived_from = serializers.IntegerField(
        source="derived_from.number",
        default=None,
        allow_null=True,
        help_text="The version whose ONNX file this one was made of, by `optimisation`.",
    )
    files = serializers.SerializerMethodField(help_text="By name, as under …/artifacts/{name}.")

    class Meta:
        model = ModelVersion
        fields: ClassVar[list[str]] = [
            "model",
            "number",
            "state",
            "source_format",
            "filename",
            "model_class",
            "opset",
            "target",
            "notes",
            "rejection",
            "created_by",
            "created_at",
            "validated_at",
            "export_job",
            "validate_job",
            "derived_from",
            "optimisation",
            "files",
        ]

    @extend_schema_field(serializers.DictField(child=FileSerializer()))
    def get_files(self, version: ModelVersion) -> dict[str, dict[str, Any]]:
        return {
            row.name: {
                "sha256": row.artifact.sha256,
                "size": row.artifact.size,
                "filename": row.filename,
            }
            for row in files_of(version)
        }


class VersionSerializer(VersionSummarySerializer):
    verdict = serializers.SerializerMethodField()

    class Meta(VersionSummarySerializer.Meta):
        fields: ClassVar[list[str]] = [
            *VersionSummarySerializer.Meta.fields,
            "inputs",
            "outputs",
            "module_entry",
            "module_arguments",
            "tuning",
            "facts",
            "config_origins",
            "verdict",
        ]

    def get_verdict(self, version: ModelVersion) -> str | None:
        verdict: str | None = (version.report or {}).get("verdict")
        return verdict


class CreatedVersionSerializer(VersionSerializer):
    job = serializers.UUIDField(source="export_job_id", help_text="The export job.")

    class Meta(VersionSerializer.Meta):
        fields: ClassVar[list[str]] = [*VersionSerializer.Meta.fields, "job"]


class ProposalSerializer(serializers.Serializer[Any]):
    inputs = serializers.ListField(child=serializers.DictField())
    outputs = serializers.ListField(child=serializers.DictField())
    notes = serializers.ListField(child=serializers.CharField())
    beside = serializers.ListField(
        child=serializers.CharField(), help_text="Files that an .onnx file keeps its weights in."
    )


class ContractSignatureSerializer(serializers.ModelSerializer[ContractSignature]):
    signer = serializers.CharField(source="signer.username")
    keyid = serializers.CharField(source="key.keyid")
    key_revoked_at = serializers.DateTimeField(source="key.revoked_at", allow_null=True)

    class Meta:
        model = ContractSignature
        fields: ClassVar[list[str]] = ["seat", "signer", "keyid", "key_revoked_at", "signed_at"]


class SignedSerializer(ContractSignatureSerializer):
    contract_state = serializers.CharField(source="contract.state")

    class Meta(ContractSignatureSerializer.Meta):
        fields: ClassVar[list[str]] = [*ContractSignatureSerializer.Meta.fields, "contract_state"]


class ContractSummarySerializer(serializers.ModelSerializer[ServiceContract]):
    model = serializers.CharField(source="model.name")
    proposed_by = serializers.CharField(source="proposed_by.username")
    signatures = ContractSignatureSerializer(many=True)
    seats = serializers.SerializerMethodField(help_text="Who has to sign for each seat.")

    class Meta:
        model = ServiceContract
        fields: ClassVar[list[str]] = [
            "model",
            "revision",
            "state",
            "digest",
            "note",
            "proposed_by",
            "proposed_at",
            "in_force_at",
            "valid_until",
            "ended_at",
            "seats",
            "signatures",
        ]

    def get_seats(self, contract: ServiceContract) -> dict[str, str | None]:
        rows = seats_of(contract.model)
        return {row.seat: row.user.username if row.user else None for row in rows}


class ClauseSerializer(serializers.Serializer[Any]):
    key = serializers.CharField(source="clause.key")
    pointer = serializers.CharField(source="clause.pointer")
    asks = serializers.CharField(source="clause.asks", help_text="What the contract must have.")
    why = serializers.CharField(source="clause.why")
    required = serializers.BooleanField(  # type: ignore[assignment]
        help_text="By the risk class that the model has today."
    )
    met = serializers.BooleanField()


class ContractSerializer(ContractSummarySerializer):
    document = serializers.DictField()
    clauses = serializers.SerializerMethodField(
        help_text="What risk classes ask for, and whether this contract has it."
    )

    class Meta(ContractSummarySerializer.Meta):
        fields: ClassVar[list[str]] = [
            *ContractSummarySerializer.Meta.fields,
            "document",
            "clauses",
        ]

    @extend_schema_field(ClauseSerializer(many=True))
    def get_clauses(self, contract: ServiceContract) -> Any:
        try:
            return ClauseSerializer(checklist_of(contract), many=True).data
        except Invalid:
            return []  # changed in the database: what it says counts for nothing


class ChangeSerializer(serializers.Serializer[Any]):
    pointer = serializers.CharField()
    kind = serializers.CharField(help_text="added, removed or changed")
    effect = serializers.CharField(help_text="breaking, weaker, stronger or neutral")
    before = serializers.JSONField(allow_null=True)
    after = serializers.JSONField(allow_null=True)
    sentence = serializers.CharField()
    words = serializers.CharField(help_text="The sentence, and what it is to a caller.")


class DifferencesSerializer(serializers.Serializer[Any]):
    against = serializers.IntegerField(allow_null=True)
    breaking = serializers.IntegerField(help_text="How many of the changes break callers.")
    changes = ChangeSerializer(many=True)
