"""`/api/v1/models/{model}/versions/{number}/try/`"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, ClassVar

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from console.api.authentication import actor_of, user_of
from deployments.services.trials.samples import try_version
from models_registry.selectors.releases import find_environment
from models_registry.selectors.versions import find_version


class TryRequestSerializer(serializers.Serializer[Any]):
    environment = serializers.CharField(max_length=40)
    request = serializers.DictField(
        required=False,
        allow_null=True,
        default=None,
        help_text="A v2 inference request, 1 MiB at most; left out: the recorded sample.",
    )


class ComparisonSerializer(serializers.Serializer[Any]):
    within = serializers.BooleanField(help_text="Within the tolerance everywhere.")
    largest = serializers.FloatField(
        allow_null=True, help_text="The largest absolute difference from the recorded answer."
    )
    atol = serializers.FloatField()
    rtol = serializers.FloatField()
    detail = serializers.CharField(help_text="Where it is too far, where it is.")


class TrialSerializer(serializers.Serializer[Any]):
    environment = serializers.CharField()
    who = serializers.CharField(help_text="The gateway or the node that was asked.")
    url = serializers.CharField()
    model_version = serializers.CharField(help_text="X-Model-Version of the answer.")
    request_id = serializers.CharField()
    duration_ms = serializers.FloatField()
    outputs = serializers.ListField(
        child=serializers.DictField(),
        help_text="v2 tensors: name, datatype, shape, flat data; NaN and infinities as words.",
    )
    comparison = ComparisonSerializer(
        allow_null=True, help_text="There when the recorded sample was sent."
    )
    request_bytes = serializers.IntegerField()
    request_sha256 = serializers.CharField()


class TryView(APIView):
    required_actions: ClassVar[dict[str, str]] = {"POST": "version.try"}

    @extend_schema(
        summary="Send a sample to a version that is ready in an environment",
        request=TryRequestSerializer,
        responses={200: TrialSerializer, 503: OpenApiTypes.OBJECT},
    )
    def post(self, request: Request, name: str, number: int) -> Response:
        body = TryRequestSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        trial = try_version(
            version=find_version(name, number, user=user_of(request)),
            environment=find_environment(body.validated_data["environment"]),
            request=body.validated_data["request"],
            actor=actor_of(request),
        )
        return Response(TrialSerializer(asdict(trial)).data)
