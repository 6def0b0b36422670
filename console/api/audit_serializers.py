"""What the API of the audit trail takes in and gives out."""

from __future__ import annotations

from typing import Any, ClassVar

from rest_framework import serializers

from console.models import AuditCheckpoint, AuditSink, SinkKind


class ChainFaultSerializer(serializers.Serializer[Any]):
    sequence = serializers.IntegerField()
    last = serializers.IntegerField()
    kind = serializers.CharField(
        help_text="edited, deleted, inserted, reordered, cut, extended, checkpoint or rewritten"
    )
    detail = serializers.CharField()


class ChainSerializer(serializers.Serializer[Any]):
    ok = serializers.BooleanField()
    entries = serializers.IntegerField()
    head_digest = serializers.CharField(allow_blank=True)
    after = serializers.IntegerField(help_text="The check began behind this entry.")
    checked = serializers.IntegerField()
    checkpoints = serializers.IntegerField(help_text="Signed checkpoints that were held against it")
    seconds = serializers.FloatField()
    faults = ChainFaultSerializer(many=True)


class CheckpointSerializer(serializers.ModelSerializer[AuditCheckpoint]):
    class Meta:
        model = AuditCheckpoint
        fields: ClassVar[list[str]] = ["sequence", "digest", "at", "keyid", "envelope"]


class SinkSerializer(serializers.ModelSerializer[AuditSink]):
    class Meta:
        model = AuditSink
        fields: ClassVar[list[str]] = [
            "name",
            "kind",
            "address",
            "enabled",
            "sent_sequence",
            "sent_at",
            "failures",
            "last_error",
            "not_before",
            "created_at",
        ]


class MadeSinkSerializer(SinkSerializer):
    secret = serializers.CharField(
        read_only=True, allow_blank=True, help_text="A webhook's: shown this once."
    )

    class Meta(SinkSerializer.Meta):
        fields: ClassVar[list[str]] = [*SinkSerializer.Meta.fields, "secret"]


class NewSinkSerializer(serializers.Serializer[Any]):
    name = serializers.SlugField(max_length=40)
    kind = serializers.ChoiceField(choices=SinkKind.choices)
    address = serializers.CharField(max_length=300)
    from_start = serializers.BooleanField(
        default=False, help_text="Send all that is kept, not only what is written from now on."
    )


class SinkChangeSerializer(serializers.Serializer[Any]):
    address = serializers.CharField(max_length=300, required=False, default="")
    enabled = serializers.BooleanField(required=False, allow_null=True, default=None)
    reason = serializers.CharField(max_length=500, required=False, default="", allow_blank=True)
