"""Rollouts as the API gives and takes them."""

from __future__ import annotations

from typing import Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from deployments.models import AnalysisRun, Measurement, Rollout, RolloutEvent


@extend_schema_field({"oneOf": [{"type": "object"}, {"type": "string"}]})
class PlanField(serializers.Field[Any, Any, Any, Any]):
    """A plan as an object, or as a text in YAML; the rules say what is wrong with it."""

    def to_internal_value(self, data: Any) -> Any:
        if not isinstance(data, dict | str):
            raise serializers.ValidationError("A plan is an object, or a text in YAML.")
        return data

    def to_representation(self, value: Any) -> Any:
        return value


class RolloutRequestSerializer(serializers.Serializer[Any]):
    version = serializers.IntegerField(min_value=1, help_text="The version that is to get traffic.")
    baseline = serializers.IntegerField(
        min_value=1,
        required=False,
        allow_null=True,
        help_text="What it is compared with; the version with most traffic when left out.",
    )
    plan = PlanField(
        required=False, help_text="What is left out comes from the contract; see docs/rollouts.md."
    )
    reason = serializers.CharField(max_length=2000)


class RolloutActSerializer(serializers.Serializer[Any]):
    reason = serializers.CharField(max_length=2000, required=False, allow_blank=True, default="")


class RolloutStepActSerializer(RolloutActSerializer):
    step = serializers.IntegerField(
        min_value=1,
        required=False,
        help_text="The step that was looked at; 409 `step_over` where it is not under way.",
    )


class RolloutEndSerializer(serializers.Serializer[Any]):
    reason = serializers.CharField(max_length=2000)


class RolloutSerializer(serializers.ModelSerializer[Rollout]):
    environment = serializers.CharField(source="endpoint.environment.name")
    model = serializers.CharField(source="endpoint.model.name")
    started_by = serializers.CharField(source="started_by.username")
    step = serializers.SerializerMethodField(help_text="The step under way, from 1.")
    steps = serializers.SerializerMethodField(help_text="How many steps there are.")
    weight = serializers.SerializerMethodField(help_text="The version's share in percent.")
    cause = serializers.CharField(help_text="Why it stands still, or how it ended; a stable word.")

    class Meta:
        model = Rollout
        fields = (
            "id",
            "environment",
            "model",
            "version",
            "baseline",
            "state",
            "cause",
            "message",
            "reason",
            "step",
            "steps",
            "weight",
            "started_by",
            "created_at",
            "changed_at",
            "next_look_at",
            "ended_at",
        )

    def get_step(self, rollout: Rollout) -> int:
        return min(int(rollout.progress.get("step", 0)) + 1, self.get_steps(rollout))

    def get_steps(self, rollout: Rollout) -> int:
        return int(rollout.progress.get("steps", 0))

    def get_weight(self, rollout: Rollout) -> float:
        return float(rollout.progress.get("weight", 0)) / 100


class RolloutStepSerializer(serializers.Serializer[Any]):
    number = serializers.IntegerField(help_text="From 1.")
    kind = serializers.ChoiceField(choices=["set_weight", "pause", "analyse"])
    state = serializers.ChoiceField(choices=["done", "current", "todo"])
    percent = serializers.FloatField(allow_null=True)
    seconds = serializers.FloatField(
        allow_null=True, help_text="How long a pause lasts; null until somebody lets it go on."
    )
    metrics = serializers.ListField(child=serializers.CharField())
    began_at = serializers.DateTimeField(
        allow_null=True, help_text="When the share of a set_weight step was written."
    )


class MeasurementSerializer(serializers.ModelSerializer[Measurement]):
    class Meta:
        model = Measurement
        fields = (
            "metric",
            "at",
            "value",
            "baseline_value",
            "requests",
            "limit",
            "phase",
            "dry_run",
            "message",
        )


class AnalysisRunSerializer(serializers.ModelSerializer[AnalysisRun]):
    step = serializers.SerializerMethodField(
        help_text="From 1; null for the analysis beside all steps."
    )
    measurements = MeasurementSerializer(many=True, source="newest")

    class Meta:
        model = AnalysisRun
        fields = ("step", "phase", "message", "started_at", "ended_at", "measurements")

    @extend_schema_field(OpenApiTypes.INT)
    def get_step(self, run: AnalysisRun) -> int | None:
        return None if run.step is None else run.step + 1


class RolloutEventSerializer(serializers.ModelSerializer[RolloutEvent]):
    actor = serializers.CharField(source="actor.username", default="")
    revision = serializers.IntegerField(source="split.revision", allow_null=True, default=None)
    step = serializers.SerializerMethodField()

    class Meta:
        model = RolloutEvent
        fields = ("at", "kind", "step", "revision", "actor", "message")

    @extend_schema_field(OpenApiTypes.INT)
    def get_step(self, event: RolloutEvent) -> int | None:
        return None if event.step is None else event.step + 1


class RolloutDetailSerializer(RolloutSerializer):
    plan = serializers.JSONField()
    plan_steps = RolloutStepSerializer(many=True)
    analyses = AnalysisRunSerializer(many=True, source="shown_analyses")
    events = RolloutEventSerializer(many=True, source="shown_events")

    class Meta(RolloutSerializer.Meta):
        fields = (  # type: ignore[assignment]
            *RolloutSerializer.Meta.fields,
            "plan",
            "plan_steps",
            "analyses",
            "events",
        )
