"""What the floor's API reads and answers."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from console.models import ApiToken, AuditEntry, Job, JobLine, User
from console.rules.permissions import SCOPES


class JobErrorSerializer(serializers.Serializer[Any]):
    code = serializers.CharField()
    message = serializers.CharField()
    hint = serializers.CharField(allow_blank=True)


class JobSerializer(serializers.ModelSerializer[Job]):
    requested_by = serializers.CharField(source="requested_by.username", read_only=True)
    error = serializers.SerializerMethodField()
    cancel_requested = serializers.SerializerMethodField()

    class Meta:
        model = Job
        fields: ClassVar[list[str]] = [
            "id",
            "kind",
            "subject",
            "subject_url",
            "state",
            "step",
            "progress",
            "attempt",
            "max_attempts",
            "queue",
            "requested_by",
            "cancel_requested",
            "error",
            "result",
            "not_before",
            "created_at",
            "started_at",
            "finished_at",
        ]

    @extend_schema_field(JobErrorSerializer(allow_null=True))
    def get_error(self, job: Job) -> dict[str, str] | None:
        if not job.error_code and not job.error_message:
            return None
        return {"code": job.error_code, "message": job.error_message, "hint": job.error_hint}

    def get_cancel_requested(self, job: Job) -> bool:
        return job.cancel_requested_at is not None


class JobLineSerializer(serializers.ModelSerializer[JobLine]):
    class Meta:
        model = JobLine
        fields: ClassVar[list[str]] = ["at", "level", "text", "attempt"]


class JobDetailSerializer(JobSerializer):
    lines = JobLineSerializer(many=True, read_only=True)

    class Meta(JobSerializer.Meta):
        fields: ClassVar[list[str]] = [*JobSerializer.Meta.fields, "lines"]


class ReasonSerializer(serializers.Serializer[Any]):
    reason = serializers.CharField(max_length=500, required=False, allow_blank=True, default="")


class TokenSerializer(serializers.ModelSerializer[ApiToken]):
    class Meta:
        model = ApiToken
        fields: ClassVar[list[str]] = [
            "id",
            "name",
            "prefix",
            "scopes",
            "created_at",
            "expires_at",
            "last_used_at",
            "last_used_from",
            "revoked_at",
        ]


class NewTokenSerializer(TokenSerializer):
    token = serializers.CharField(help_text="The clear text; it is given this once.")

    class Meta(TokenSerializer.Meta):
        fields: ClassVar[list[str]] = [*TokenSerializer.Meta.fields, "token"]


class CreateTokenSerializer(serializers.Serializer[Any]):
    name = serializers.CharField(max_length=80)
    scopes = serializers.ListField(
        child=serializers.ChoiceField(SCOPES), required=False, min_length=1
    )
    days = serializers.IntegerField(min_value=1, max_value=365, required=False, allow_null=True)
    username = serializers.CharField(max_length=64, required=False)
    password = serializers.CharField(max_length=200, required=False, trim_whitespace=False)
    code = serializers.CharField(
        max_length=40,
        required=False,
        help_text="The second factor, where one is asked for: the authenticator app's code or a "
        "recovery code.",
    )


class MeSerializer(serializers.ModelSerializer[User]):
    scopes = serializers.SerializerMethodField()

    class Meta:
        model = User
        fields: ClassVar[list[str]] = ["username", "display_name", "email", "roles", "scopes"]

    def get_scopes(self, user: User) -> list[str] | None:
        scopes: list[str] | None = self.context.get("scopes")
        return scopes


class AuditEntrySerializer(serializers.ModelSerializer[AuditEntry]):
    actor = serializers.CharField(source="actor_username")

    class Meta:
        model = AuditEntry
        fields: ClassVar[list[str]] = [
            "sequence",
            "at",
            "actor",
            "action",
            "subject",
            "subject_url",
            "before",
            "after",
            "reason",
            "source",
            "request_id",
            "digest",
            "previous_digest",
        ]
