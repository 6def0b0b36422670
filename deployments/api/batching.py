"""`/api/v1/endpoints/…/batching/`: what a version could do better in batches."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from console.api.authentication import user_of
from console.errors import FieldError, Invalid
from deployments.api.statistics import moment_of
from deployments.documents.batching_words import told
from deployments.selectors.diagnosis.batching import batching_advice
from deployments.selectors.traffic.endpoints import find_endpoint

LONGEST = timedelta(days=2)


class AdviceSerializer(serializers.Serializer[object]):
    """What to change: `setting` from `now` to `wanted`; empty where nothing is to be set."""

    code = serializers.CharField()
    verdict = serializers.CharField()
    title = serializers.CharField()
    why = serializers.CharField()
    effect = serializers.CharField(allow_blank=True)
    setting = serializers.CharField(allow_blank=True)
    now = serializers.CharField(allow_blank=True)
    wanted = serializers.CharField(allow_blank=True)


class VersionAdviceSerializer(serializers.Serializer[object]):
    """A version with what it did: times in ms, rates per second, shares from 0 to 1."""

    version = serializers.IntegerField()
    max_batch_size = serializers.IntegerField(source="facts.max_batch_size")
    queue_delay_us = serializers.IntegerField(source="facts.queue_delay_us")
    instances = serializers.IntegerField(source="facts.instances")
    requests = serializers.IntegerField(source="facts.requests")
    requests_per_second = serializers.FloatField(source="facts.rate")
    batch_efficiency = serializers.FloatField(source="facts.efficiency")
    load = serializers.FloatField(source="facts.load")
    use = serializers.FloatField(source="facts.use")
    queue_ms = serializers.FloatField(source="facts.queue_ms")
    compute_ms = serializers.FloatField(source="facts.compute_ms")
    advice = AdviceSerializer(many=True, source="told")


class BatchingSerializer(serializers.Serializer[object]):
    start = serializers.DateTimeField()
    end = serializers.DateTimeField()
    versions = VersionAdviceSerializer(many=True)


class BatchingView(APIView):
    @extend_schema(
        summary="What to change in the batching of an endpoint's versions, and why",
        parameters=[
            OpenApiParameter("from", OpenApiTypes.DATETIME, description="An hour ago without it."),
            OpenApiParameter("to", OpenApiTypes.DATETIME, description="Now without it."),
        ],
        responses=BatchingSerializer,
    )
    def get(self, request: Request, environment: str, model: str) -> Response:
        endpoint = find_endpoint(environment, model, user=user_of(request))
        end = moment_of(request, "to") or timezone.now()
        start = moment_of(request, "from") or end - timedelta(hours=1)
        if not timedelta(0) < end - start <= LONGEST:
            raise Invalid(
                "Such a span cannot be looked through.",
                code="invalid_span",
                hint=f"It ends after it begins, and is at most {LONGEST.days} days long.",
                errors=(FieldError("/from", "Choose a shorter span."),),
            )
        versions: list[dict[str, Any]] = [
            {"version": one.version, "facts": one.facts, "told": [told(a) for a in one.advice]}
            for one in batching_advice(endpoint, start=start, end=end)
        ]
        return Response(BatchingSerializer({"start": start, "end": end, "versions": versions}).data)
