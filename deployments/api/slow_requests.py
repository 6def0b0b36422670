"""`/api/v1/endpoints/…/slow-requests/`: where the time of slow requests went."""

from __future__ import annotations

from datetime import timedelta

from django.http import HttpResponse
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
from deployments.documents.slow_words import NAMES, sentence
from deployments.rules.diagnosis.slow_requests import Percentile
from deployments.selectors.diagnosis.slow_requests import (
    MOST_ROWS,
    SlowFilter,
    SlowPage,
    slow_csv,
    slow_requests,
)
from deployments.selectors.traffic.endpoints import find_endpoint

PARAMETERS = [
    OpenApiParameter("from", OpenApiTypes.DATETIME, description="An hour ago without it."),
    OpenApiParameter("to", OpenApiTypes.DATETIME, description="Now without it."),
    OpenApiParameter("version", int, description="This version's alone; 0: nobody answered."),
    OpenApiParameter("status", int, description="Those with this status alone."),
    OpenApiParameter("x_request_id", str, description="This request alone."),
    OpenApiParameter("caller", str, description="This caller's alone."),
]


class StagedPercentileSerializer(serializers.Serializer[object]):
    """The request at a percentile; `stages` are means in ms of the requests at or above it."""

    percent = serializers.FloatField()
    value_ms = serializers.FloatField()
    slower = serializers.IntegerField(help_text="Requests at or above it.")
    slower_ms = serializers.FloatField(help_text="Their mean: the stages add up to it.")
    words = serializers.SerializerMethodField(help_text="Where their time went, in words.")
    stages = serializers.DictField(child=serializers.FloatField())
    main = serializers.CharField()
    share = serializers.FloatField(help_text="Of their time, 0 to 1, in the main stage.")

    def get_words(self, one: Percentile) -> str:
        return sentence(one)


class SlowRequestSerializer(serializers.Serializer[object]):
    """One request with its stages in ms, which add up to its total."""

    at = serializers.DateTimeField(source="request.at")
    x_request_id = serializers.CharField(source="request.request_id")
    version = serializers.IntegerField(source="request.version")
    status = serializers.IntegerField(source="request.status")
    flags = serializers.CharField(source="request.flags")
    total_ms = serializers.FloatField(source="request.total_ms")
    stages = serializers.DictField(child=serializers.FloatField())
    main = serializers.CharField()
    attempts = serializers.IntegerField(source="request.attempts")
    caller = serializers.CharField(source="request.caller")
    upstream = serializers.CharField(source="request.upstream")
    bytes_received = serializers.IntegerField(source="request.bytes_received")
    bytes_sent = serializers.IntegerField(source="request.bytes_sent")


class LogSeenSerializer(serializers.Serializer[object]):
    """How much of a gateway's access log was read."""

    gateway = serializers.CharField()
    lines = serializers.IntegerField()
    truncated = serializers.BooleanField()
    missing = serializers.BooleanField()


class SlowReportSerializer(serializers.Serializer[object]):
    """The percentiles of a span by stage, and its 100 slowest requests."""

    start = serializers.DateTimeField(source="wanted.start")
    end = serializers.DateTimeField(source="wanted.end")
    requests = serializers.IntegerField(source="report.requests")
    stage_names = serializers.SerializerMethodField(help_text="Each stage in words.")
    percentiles = StagedPercentileSerializer(many=True, source="report.percentiles")
    worst = SlowRequestSerializer(many=True, source="report.worst")
    logs = LogSeenSerializer(many=True)

    def get_stage_names(self, _page: SlowPage) -> dict[str, str]:
        return {name: str(words) for name, words in NAMES.items()}


class SlowRequestsView(APIView):
    @extend_schema(
        summary="Slow requests of an endpoint, by the stages of their way",
        parameters=PARAMETERS,
        responses=SlowReportSerializer,
    )
    def get(self, request: Request, environment: str, model: str) -> Response:
        return Response(SlowReportSerializer(_page(request, environment, model)).data)


class SlowCsvView(APIView):
    @extend_schema(
        summary="The slowest requests as CSV",
        parameters=PARAMETERS,
        responses={(200, "text/csv"): OpenApiTypes.STR},
    )
    def get(self, request: Request, environment: str, model: str) -> HttpResponse:
        page = _page(request, environment, model, most=MOST_ROWS)
        name = f"slow-{environment}-{model}-{page.wanted.end:%Y%m%dT%H%M}.csv"
        return HttpResponse(
            slow_csv(page),
            content_type="text/csv; charset=utf-8",
            headers={"Content-Disposition": f'attachment; filename="{name}"'},
        )


def _page(request: Request, environment: str, model: str, *, most: int = 100) -> SlowPage:
    endpoint = find_endpoint(environment, model, user=user_of(request))
    end = moment_of(request, "to") or timezone.now()
    wanted = SlowFilter(
        start=moment_of(request, "from") or end - timedelta(hours=1),
        end=end,
        version=_number(request, "version"),
        status=_number(request, "status"),
        request_id=request.query_params.get("x_request_id", "")[:200],
        caller=request.query_params.get("caller", "")[:80],
    )
    return slow_requests(endpoint, wanted, most=most)


def _number(request: Request, name: str) -> int | None:
    text = request.query_params.get(name, "")
    if text and not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise Invalid(
            f"{name} is no number: {text[:40]!r}.",
            code="invalid_input",
            errors=(FieldError(f"/{name}", "A whole number."),),
        )
    return int(text) if text else None
