"""`/api/v1/models/{model}/versions/{n}/load-tests/` and `/api/v1/load-tests/{id}`"""

from __future__ import annotations

import uuid
from typing import Any, ClassVar

from django.http.response import HttpResponseBase
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers, status
from rest_framework.generics import ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from console.api.authentication import actor_of, user_of
from console.api.idempotency import idempotent
from console.errors import NotFound
from deployments.services.trials.load_tests import ask_for_load_test
from models_registry.api.content import AnyAccept, download
from models_registry.models import LoadPattern, LoadTest
from models_registry.selectors.load_tests import find_load_test, load_test_list
from models_registry.selectors.releases import find_environment
from models_registry.selectors.versions import FileRow, find_version


class StartLoadTestSerializer(serializers.Serializer[Any]):
    environment = serializers.CharField(max_length=40)
    pattern = serializers.ChoiceField(LoadPattern.choices, default=LoadPattern.STEP)
    rate = serializers.IntegerField(help_text="Requests a second, at the peak.")
    seconds = serializers.IntegerField(help_text="5 to 300.")


class LoadTestSerializer(serializers.ModelSerializer[LoadTest]):
    model = serializers.CharField(source="version.model.name")
    version = serializers.IntegerField(source="version.number")
    environment = serializers.CharField(source="environment.name")
    limits = serializers.SerializerMethodField()
    job = serializers.UUIDField(source="job_id", allow_null=True)
    job_state = serializers.CharField(source="job.state", default=None)
    requested_by = serializers.CharField(source="requested_by.username")

    class Meta:
        model = LoadTest
        fields: ClassVar[list[str]] = [
            "id",
            "model",
            "version",
            "environment",
            "pattern",
            "rate",
            "seconds",
            "limits",
            "passed",
            "job",
            "job_state",
            "requested_by",
            "requested_at",
            "ended_at",
        ]

    @extend_schema_field(OpenApiTypes.OBJECT)
    def get_limits(self, load_test: LoadTest) -> dict[str, float]:
        return {"p95_ms": load_test.limit_p95_ms, "success": load_test.limit_success}


class LoadTestReportSerializer(LoadTestSerializer):
    class Meta(LoadTestSerializer.Meta):
        fields: ClassVar[list[str]] = [*LoadTestSerializer.Meta.fields, "report"]


class LoadTestListView(ListAPIView[LoadTest]):
    serializer_class = LoadTestSerializer
    required_actions: ClassVar[dict[str, str]] = {"POST": "load_test.run"}
    pagination_ordering: ClassVar[tuple[str, ...]] = ("-requested_at", "-pk")
    queryset = LoadTest.objects.none()

    @extend_schema(summary="List a version's load tests, newest first")
    def get(self, request: Request, name: str, number: int) -> Response:
        find_version(name, number, user=user_of(request))
        page = self.paginate_queryset(load_test_list(name, number, user=user_of(request)))
        return self.get_paginated_response(LoadTestSerializer(page, many=True).data)

    @extend_schema(
        summary="Load-test a version that is ready in an environment",
        request=StartLoadTestSerializer,
        responses={201: LoadTestSerializer},
    )
    @idempotent
    def post(self, request: Request, name: str, number: int) -> Response:
        body = StartLoadTestSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        wanted = body.validated_data
        load_test, _ = ask_for_load_test(
            version=find_version(name, number, user=user_of(request)),
            environment=find_environment(wanted["environment"]),
            pattern=wanted["pattern"],
            rate=wanted["rate"],
            seconds=wanted["seconds"],
            actor=actor_of(request),
        )
        shown = find_load_test(load_test.pk, user=user_of(request))
        return Response(LoadTestSerializer(shown).data, status.HTTP_201_CREATED)


class LoadTestView(APIView):
    @extend_schema(summary="Show a load test with its report", responses=LoadTestReportSerializer)
    def get(self, request: Request, load_test_id: uuid.UUID) -> Response:
        return Response(
            LoadTestReportSerializer(find_load_test(load_test_id, user=user_of(request))).data
        )


class LoadTestHtmlView(APIView):
    content_negotiation_class = AnyAccept

    @extend_schema(
        summary="The report as one HTML file",
        responses={(200, "application/octet-stream"): OpenApiTypes.BINARY},
    )
    def get(self, request: Request, load_test_id: uuid.UUID) -> HttpResponseBase:
        load_test = find_load_test(load_test_id, user=user_of(request))
        if load_test.report_html is None:
            raise NotFound(
                "The load test has no report yet.",
                code="no_report",
                hint="Follow its job; the report is there when it has ended with a verdict.",
            )
        stem = f"{load_test.version.model.name}-v{load_test.version.number}"
        name = f"{stem}-load-test-{load_test.pk.hex[:12]}.html"
        return download(request, FileRow("report", load_test.report_html, name))
