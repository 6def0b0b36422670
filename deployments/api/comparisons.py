"""`/api/v1/endpoints/…/comparison/`: how far the answers of two versions differ."""

from __future__ import annotations

from typing import Any

from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from console.api.authentication import user_of
from deployments.api.statistics import moment_of
from deployments.selectors.experiments.comparisons import comparison, comparison_series


class _PairSerializer(serializers.Serializer[Any]):
    baseline = serializers.IntegerField(min_value=1, required=False, default=None)
    candidate = serializers.IntegerField(min_value=1, required=False, default=None)


class ComparisonView(APIView):
    @extend_schema(
        summary="How far the answers of two versions to the same requests differ",
        description="Sampled requests; without a pair, the one that is compared now or was last.",
        parameters=[
            OpenApiParameter("baseline", int),
            OpenApiParameter("candidate", int),
            OpenApiParameter("from", OpenApiTypes.DATETIME, description="An hour ago without it."),
            OpenApiParameter("to", OpenApiTypes.DATETIME, description="Now without it."),
        ],
        responses=OpenApiTypes.OBJECT,
    )
    def get(self, request: Request, environment: str, model: str) -> Response:
        pair = _PairSerializer(data=request.query_params.dict())
        pair.is_valid(raise_exception=True)
        found = comparison(
            environment,
            model,
            **pair.validated_data,
            start=moment_of(request, "from"),
            end=moment_of(request, "to"),
            now=timezone.now(),
            user=user_of(request),
        )
        return Response(comparison_series(found))
