"""`/api/v1/exports/…` and `/api/v1/models/…/openslo/`: promises in the forms of other tools."""

from __future__ import annotations

from typing import Any, ClassVar

from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers, status
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from console.api.authentication import actor_of, user_of
from console.api.idempotency import idempotent
from deployments.rules.objectives.openslo_reading import MOST_BYTES
from deployments.selectors.objectives.exports import openslo, prometheus_rules
from deployments.services.objectives.openslo import import_openslo

YAML = "application/yaml"
"""RFC 9512."""
CHOSEN = [OpenApiParameter("environment", str), OpenApiParameter("model", str)]


class OpenSloRequestSerializer(serializers.Serializer[Any]):
    """Documents of OpenSLO v1, YAML or JSON."""

    openslo = serializers.CharField(max_length=MOST_BYTES, trim_whitespace=False)
    service = serializers.CharField(
        max_length=255,
        required=False,
        allow_blank=True,
        default="",
        help_text="Take the objectives of this service; needed when there are several.",
    )
    title = serializers.CharField(max_length=120, required=False, allow_blank=True, default="")


class ImportedSerializer(serializers.Serializer[Any]):
    """A draft of the model's next contract; nothing is promised until it is signed."""

    draft = serializers.UUIDField(source="draft.pk")
    title = serializers.CharField(source="draft.title")
    objectives = serializers.ListField(child=serializers.DictField())
    left_out = serializers.ListField(
        child=serializers.CharField(), help_text="Documents that were not read."
    )


class PrometheusRulesView(APIView):
    @extend_schema(
        summary="Recording and alert rules for Prometheus, from the contracts that hold",
        parameters=CHOSEN,
        responses={(200, YAML): OpenApiTypes.STR},
    )
    def get(self, request: Request) -> HttpResponse:
        text = prometheus_rules(user=user_of(request), **_chosen(request))
        return HttpResponse(text, content_type=YAML)


class OpenSloView(APIView):
    @extend_schema(
        summary="Objectives as OpenSLO v1, from the contracts that hold",
        parameters=CHOSEN,
        responses={(200, YAML): OpenApiTypes.STR},
    )
    def get(self, request: Request) -> HttpResponse:
        text = openslo(user=user_of(request), **_chosen(request))
        return HttpResponse(text, content_type=YAML)


class OpenSloImportView(APIView):
    required_actions: ClassVar[dict[str, str]] = {"POST": "contract.draft"}

    @extend_schema(
        summary="Start a draft of a contract with the objectives of OpenSLO documents",
        request=OpenSloRequestSerializer,
        responses={201: ImportedSerializer},
    )
    @idempotent
    def post(self, request: Request, name: str) -> Response:
        body = OpenSloRequestSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        made = import_openslo(
            model=name,
            text=body.validated_data["openslo"],
            service=body.validated_data["service"],
            title=body.validated_data["title"],
            actor=actor_of(request),
        )
        return Response(ImportedSerializer(made).data, status=status.HTTP_201_CREATED)


def _chosen(request: Request) -> dict[str, str]:
    return {name: request.query_params.get(name, "") for name in ("environment", "model")}
