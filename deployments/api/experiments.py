"""`/api/v1/endpoints/…/experiments/`: start, list, show, stop, and the chart of one."""

from __future__ import annotations

import uuid
from typing import Any, ClassVar

from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.generics import ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from console.api.authentication import actor_of, user_of
from console.api.idempotency import idempotent
from deployments.models import Experiment, ExperimentState
from deployments.rules.experiments.design import VersionEvidence
from deployments.rules.experiments.sequential_tests import Estimate, Verdict
from deployments.selectors.experiments.pages import (
    ExperimentView,
    experiment_chart,
    experiment_list,
    find_experiment,
    view_of,
)
from deployments.selectors.traffic.endpoints import find_endpoint
from deployments.services.experiments.acts import start_experiment, stop_experiment


class StartExperimentSerializer(serializers.Serializer[Any]):
    name = serializers.CharField(max_length=80)
    outcome = serializers.CharField(max_length=60, help_text="The name that callers report.")
    baseline = serializers.IntegerField(min_value=1)
    candidate = serializers.IntegerField(min_value=1)
    margin = serializers.FloatField(
        default=1.0, help_text="Percentage points of conversion by which worse is too bad."
    )
    confidence = serializers.FloatField(default=95.0, help_text="Percent.")
    take_off = serializers.BooleanField(
        default=True, help_text="Move the candidate's traffic to the baseline when it is worse."
    )
    window = serializers.CharField(
        default="10m", max_length=10, help_text="How long after its answer an outcome counts."
    )


class StopExperimentSerializer(serializers.Serializer[Any]):
    reason = serializers.CharField(default="", allow_blank=True, max_length=2000)


class ExperimentSerializer(serializers.ModelSerializer[Experiment]):
    environment = serializers.CharField(source="endpoint.environment.name")
    model = serializers.CharField(source="endpoint.model.name")
    state = serializers.ChoiceField(ExperimentState.choices)
    outcome = serializers.CharField(source="settings.outcome")
    margin = serializers.SerializerMethodField(help_text="Percentage points.")
    confidence = serializers.SerializerMethodField(help_text="Percent.")
    take_off = serializers.BooleanField(source="settings.take_off")
    window_seconds = serializers.IntegerField(source="settings.window_s")
    started_by = serializers.CharField(source="started_by.username")

    class Meta:
        model = Experiment
        fields: ClassVar[list[str]] = [
            "id",
            "environment",
            "model",
            "name",
            "baseline",
            "candidate",
            "state",
            "message",
            "outcome",
            "margin",
            "confidence",
            "take_off",
            "window_seconds",
            "started_by",
            "started_at",
            "ended_at",
        ]

    def get_margin(self, experiment: Experiment) -> float:
        return round(100 * float(experiment.settings["margin"]), 4)

    def get_confidence(self, experiment: Experiment) -> float:
        return round(100 * float(experiment.settings["confidence"]), 4)


class EstimateSerializer(serializers.Serializer[Any]):
    """In percent, or in percentage points for a difference; the interval holds at every look."""

    value = serializers.FloatField()
    low = serializers.FloatField()
    high = serializers.FloatField()


class ExperimentVersionSerializer(serializers.Serializer[Any]):
    """`waiting` answers are so new that their outcome may still come; they do not count yet."""

    version = serializers.IntegerField()
    answered = serializers.IntegerField()
    converted = serializers.IntegerField()
    waiting = serializers.IntegerField()
    conversion = EstimateSerializer(allow_null=True)


class ExperimentDetailSerializer(ExperimentSerializer):
    versions = ExperimentVersionSerializer(many=True)
    difference = EstimateSerializer(allow_null=True)
    verdict = serializers.ChoiceField([one.value for one in Verdict])

    class Meta(ExperimentSerializer.Meta):
        fields: ClassVar[list[str]] = [
            *ExperimentSerializer.Meta.fields,
            "versions",
            "difference",
            "verdict",
        ]


class ExperimentListView(ListAPIView[Experiment]):
    serializer_class = ExperimentSerializer
    required_actions: ClassVar[dict[str, str]] = {"POST": "experiment.manage"}
    pagination_ordering: ClassVar[tuple[str, ...]] = ("-started_at", "-pk")
    queryset = Experiment.objects.none()

    @extend_schema(summary="List an endpoint's experiments, newest first")
    def get(self, request: Request, environment: str, model: str) -> Response:
        find_endpoint(environment, model, user=user_of(request))
        page = self.paginate_queryset(experiment_list(environment, model, user=user_of(request)))
        return self.get_paginated_response(ExperimentSerializer(page, many=True).data)

    @extend_schema(
        summary="Begin to count the outcomes of two versions",
        request=StartExperimentSerializer,
        responses={201: ExperimentDetailSerializer},
    )
    @idempotent
    def post(self, request: Request, environment: str, model: str) -> Response:
        body = StartExperimentSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        experiment = start_experiment(
            environment=environment, model=model, actor=actor_of(request), **body.validated_data
        )
        return Response(_answer(experiment), status.HTTP_201_CREATED)


class ExperimentDetailView(APIView):
    @extend_schema(
        summary="Show what an experiment says so far", responses=ExperimentDetailSerializer
    )
    def get(
        self, request: Request, environment: str, model: str, experiment_id: uuid.UUID
    ) -> Response:
        user = user_of(request)
        return Response(_answer(find_experiment(environment, model, experiment_id, user=user)))


class ExperimentStopView(APIView):
    required_actions: ClassVar[dict[str, str]] = {"POST": "experiment.manage"}

    @extend_schema(
        summary="End an experiment; the traffic stays as it is",
        request=StopExperimentSerializer,
        responses=ExperimentDetailSerializer,
    )
    @idempotent
    def post(
        self, request: Request, environment: str, model: str, experiment_id: uuid.UUID
    ) -> Response:
        body = StopExperimentSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        experiment = stop_experiment(
            environment=environment,
            model=model,
            experiment_id=experiment_id,
            actor=actor_of(request),
            **body.validated_data,
        )
        return Response(_answer(experiment))


class ExperimentChartView(APIView):
    @extend_schema(
        summary="The difference of the conversions over time, with its interval",
        responses=OpenApiTypes.OBJECT,
    )
    def get(
        self, request: Request, environment: str, model: str, experiment_id: uuid.UUID
    ) -> Response:
        experiment = find_experiment(environment, model, experiment_id, user=user_of(request))
        return Response(experiment_chart(view_of(experiment, now=timezone.now())))


def _answer(experiment: Experiment) -> dict[str, Any]:
    view = view_of(experiment, now=timezone.now())
    plain = ExperimentSerializer(experiment).data
    return {**plain, **_evidence(view)}


def _evidence(view: ExperimentView) -> dict[str, Any]:
    found = view.evidence
    return {
        "versions": [_version(side) for side in (found.baseline, found.candidate)],
        "difference": _percent(found.difference),
        "verdict": found.verdict.value,
    }


def _version(side: VersionEvidence) -> dict[str, Any]:
    return {
        "version": side.version,
        "answered": side.answered,
        "converted": side.converted,
        "waiting": side.waiting,
        "conversion": _percent(side.conversion),
    }


def _percent(found: Estimate | None) -> dict[str, float] | None:
    if found is None:
        return None
    return {name: round(100 * getattr(found, name), 4) for name in ("value", "low", "high")}
