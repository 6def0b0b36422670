"""Incidents and rollback policies as JSON."""

from __future__ import annotations

from rest_framework import serializers

from deployments.models import Incident, IncidentSeverity, IncidentState


class IncidentSerializer(serializers.ModelSerializer[Incident]):
    """One incident as a list tells of it."""

    environment = serializers.CharField(source="endpoint.environment.name")
    model = serializers.CharField(source="endpoint.model.name")
    severity = serializers.ChoiceField(choices=IncidentSeverity.choices)
    state = serializers.ChoiceField(choices=IncidentState.choices)
    acknowledged_by = serializers.SlugRelatedField("username", read_only=True, allow_null=True)  # type: ignore[var-annotated]

    class Meta:
        model = Incident
        fields = (
            "id",
            "environment",
            "model",
            "title",
            "cause",
            "severity",
            "state",
            "level",
            "version",
            "started_at",
            "ended_at",
            "acknowledged_by",
            "acknowledged_at",
            "resolved_at",
            "summary",
        )


class IncidentLineSerializer(serializers.Serializer[object]):
    """A line of the timeline; `took_ms` is until every gateway acted on the split."""

    at = serializers.DateTimeField()
    kind = serializers.CharField()
    actor = serializers.CharField(allow_blank=True)
    message = serializers.CharField(allow_blank=True)
    level = serializers.IntegerField(allow_null=True)
    revision = serializers.IntegerField(source="split.revision", allow_null=True, default=None)
    took_ms = serializers.FloatField(allow_null=True)
    people = serializers.ListField(child=serializers.CharField())
    version = serializers.IntegerField(allow_null=True)


class IncidentDetailSerializer(IncidentSerializer):
    """An incident with the newest 200 lines of its timeline, oldest first.

    Where `earlier` is a moment, `?before=` it gives the lines before these.
    """

    timeline = IncidentLineSerializer(many=True)
    earlier = serializers.DateTimeField(allow_null=True)

    class Meta:
        model = Incident
        fields = (*IncidentSerializer.Meta.fields, "timeline", "earlier")


class IncidentResolveSerializer(serializers.Serializer[object]):
    summary = serializers.CharField(max_length=4000, help_text="What it was and what was done.")


class IncidentCommentSerializer(serializers.Serializer[object]):
    text = serializers.CharField(max_length=4000)


class RollbackPolicySerializer(serializers.Serializer[object]):
    """When an endpoint goes down the levels by itself; times in seconds, shares in percent.

    `revision` 0 is the environment's default. `phase` says where it stands now.
    """

    automatic = serializers.BooleanField()
    document = serializers.DictField()
    revision = serializers.IntegerField()
    changed_by = serializers.CharField(allow_blank=True)
    phase = serializers.CharField()
    level = serializers.IntegerField()


class RollbackPolicyRequestSerializer(serializers.Serializer[object]):
    """What is left out of `document` has its default."""

    automatic = serializers.BooleanField()
    document = serializers.DictField(required=False, default=dict)
    reason = serializers.CharField(required=False, default="", allow_blank=True, max_length=2000)
