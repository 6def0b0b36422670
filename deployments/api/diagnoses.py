"""`/api/v1/diagnoses/`"""

from __future__ import annotations

import uuid
from typing import Any, ClassVar

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers, status
from rest_framework.generics import ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from console.api.authentication import actor_of, user_of
from console.api.idempotency import idempotent
from deployments.documents.diagnosis_words import cause_of, told_step
from deployments.models import Diagnosis, DiagnosisState
from deployments.rules.diagnosis.findings import Step
from deployments.selectors.diagnosis.diagnoses import (
    DiagnosisFilter,
    diagnosis_list,
    find_diagnosis,
    node_for,
)
from deployments.services.diagnosis.asking import request_diagnosis
from models_registry.selectors.versions import find_version

FILTERS = ("state", "node", "q")
VERDICTS = ("good", "unknown", "warn", "bad")


class DiagnosisSerializer(serializers.ModelSerializer[Diagnosis]):
    """One diagnosis as a list tells of it; `cause` is a code, "" without one."""

    model = serializers.CharField(source="version.model.name")
    version = serializers.IntegerField(source="version.number")
    node = serializers.CharField(source="node.name")
    state = serializers.ChoiceField(choices=DiagnosisState.choices)
    requested_by = serializers.SlugRelatedField("username", read_only=True)  # type: ignore[var-annotated]

    class Meta:
        model = Diagnosis
        fields = (
            "id",
            "model",
            "version",
            "node",
            "state",
            "cause",
            "automatic",
            "try_load",
            "job",
            "requested_by",
            "requested_at",
            "ended_at",
        )


class FindingSerializer(serializers.Serializer[object]):
    """What was seen, in a code and in words; `mend` is what to do, "" for nothing."""

    code = serializers.CharField()
    verdict = serializers.ChoiceField(choices=VERDICTS)
    title = serializers.CharField()
    mend = serializers.CharField(allow_blank=True)
    evidence = serializers.CharField(allow_blank=True)


class DiagnosisStepSerializer(serializers.Serializer[object]):
    name = serializers.CharField()
    title = serializers.CharField()
    verdict = serializers.ChoiceField(choices=VERDICTS)
    findings = FindingSerializer(many=True)


class DiagnosisDetailSerializer(DiagnosisSerializer):
    """A diagnosis with its five steps; empty while it runs."""

    steps = DiagnosisStepSerializer(many=True, source="told_steps")
    because = FindingSerializer(allow_null=True)
    facts = serializers.DictField()

    class Meta:
        model = Diagnosis
        fields = (*DiagnosisSerializer.Meta.fields, "because", "steps", "facts")


class DiagnosisRequestSerializer(serializers.Serializer[object]):
    """Without `node`, where the version last failed or lies."""

    model = serializers.CharField(max_length=64)
    version = serializers.IntegerField(min_value=1, max_value=2**31 - 1)
    node = serializers.CharField(max_length=40, required=False, default="", allow_blank=True)
    try_load = serializers.BooleanField(
        required=False,
        default=True,
        help_text="Load it once more, under a name of its own beside what serves.",
    )


@extend_schema(
    summary="List diagnoses, newest first",
    parameters=[
        OpenApiParameter("state", str, description="running, found, suspected, clean or failed."),
        OpenApiParameter("node", str),
        OpenApiParameter("q", str, description="Found in the model or the cause."),
    ],
)
class DiagnosisListView(ListAPIView[Diagnosis]):
    serializer_class = DiagnosisSerializer
    pagination_ordering: ClassVar[tuple[str, ...]] = ("-requested_at", "-pk")
    queryset = Diagnosis.objects.none()
    required_actions: ClassVar[dict[str, str]] = {"POST": "diagnosis.run"}

    def list(self, request: Request, *args: object, **kwargs: object) -> Response:
        wanted = DiagnosisFilter(**{name: request.query_params.get(name, "") for name in FILTERS})
        page = self.paginate_queryset(diagnosis_list(wanted, user=user_of(request)))
        return self.get_paginated_response(self.get_serializer(page, many=True).data)

    @extend_schema(
        summary="Have it found out why a version does not load on a node",
        parameters=[],
        request=DiagnosisRequestSerializer,
        responses={202: DiagnosisDetailSerializer},
    )
    @idempotent
    def post(self, request: Request) -> Response:
        body = DiagnosisRequestSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        asked = body.validated_data
        version = find_version(asked["model"], asked["version"], user=user_of(request))
        diagnosis = request_diagnosis(
            version=version,
            node=node_for(version, asked["node"]),
            actor=actor_of(request),
            try_load=asked["try_load"],
        )
        return Response(_detail(request, diagnosis.pk), status=status.HTTP_202_ACCEPTED)


class DiagnosisView(APIView):
    @extend_schema(
        summary="Show a diagnosis with what its five steps found",
        responses=DiagnosisDetailSerializer,
    )
    def get(self, request: Request, diagnosis_id: uuid.UUID) -> Response:
        return Response(_detail(request, diagnosis_id))


def _detail(request: Request, diagnosis_id: uuid.UUID) -> dict[str, Any]:
    diagnosis = find_diagnosis(diagnosis_id, user=user_of(request))
    steps = [Step.from_json(one) for one in diagnosis.steps]
    diagnosis.told_steps = [told_step(one) for one in steps]  # type: ignore[attr-defined]
    diagnosis.because = cause_of(steps, diagnosis.cause)  # type: ignore[attr-defined]
    return dict(DiagnosisDetailSerializer(diagnosis).data)
