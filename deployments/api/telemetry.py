"""`/api/v1/endpoints/…/telemetry/` and a version's training sample."""

from __future__ import annotations

import json
import uuid
from typing import Any, ClassVar

from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from console.api.authentication import actor_of, user_of
from console.api.problems import problem
from console.errors import FieldError, Invalid
from deployments.api.preconditions import IF_MATCH, revision_named
from deployments.api.telemetry_serializers import (
    ReferenceSampleRequestSerializer,
    ReferenceSampleSerializer,
    TelemetryRequestSerializer,
    TelemetrySerializer,
)
from deployments.selectors.telemetry.pages import TelemetryPage, telemetry_chart, telemetry_page
from deployments.selectors.traffic.endpoints import find_endpoint
from deployments.services.telemetry.settings import set_telemetry
from models_registry.selectors.reference_samples import reference_history
from models_registry.selectors.versions import find_version
from models_registry.services.reference_samples import record_reference_sample


class TelemetryView(APIView):
    required_actions: ClassVar[dict[str, str]] = {"PUT": "telemetry.change"}

    @extend_schema(
        summary="Show drift, entropy and what others send of an endpoint's model",
        responses=TelemetrySerializer,
    )
    def get(self, request: Request, environment: str, model: str) -> Response:
        return _answer(request, environment, model)

    @extend_schema(
        summary="Choose whether a model is measured without a promise, and of how many requests",
        request=TelemetryRequestSerializer,
        responses=TelemetrySerializer,
        parameters=[IF_MATCH],
    )
    def put(self, request: Request, environment: str, model: str) -> Response:
        # Not behind Idempotency-Key: the same choice again changes nothing.
        if "If-Match" not in request.headers:
            return problem(
                status_code=428,
                code="precondition_required",
                detail="The revision that this choice replaces is not named.",
                hint='Send If-Match with the ETag of what you looked at, as If-Match: "3".',
            )
        body = TelemetryRequestSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        set_telemetry(
            environment=environment,
            model=model,
            expected_revision=revision_named(request),
            actor=actor_of(request),
            **body.validated_data,
        )
        return _answer(request, environment, model)


class TelemetryChartView(APIView):
    @extend_schema(
        summary="One series of an endpoint's telemetry, a line for each version",
        parameters=[
            OpenApiParameter("window", str, description="1h, 6h, 24h, 7d, 28d; 1h without it."),
            OpenApiParameter(
                "label", str, description="A feature or output; * all of them; the greatest else."
            ),
            OpenApiParameter("version", int, description="This one alone; all without it."),
        ],
        responses=OpenApiTypes.OBJECT,
    )
    def get(self, request: Request, environment: str, model: str, name: str) -> Response:
        label = request.query_params.get("label", "")
        return Response(
            telemetry_chart(
                find_endpoint(environment, model, user=user_of(request)),
                name,
                window=request.query_params.get("window", "1h"),
                now=timezone.now(),
                label=None if label == "*" else label,
                version=_version(request),
            )
        )


class ReferenceSampleView(APIView):
    required_actions: ClassVar[dict[str, str]] = {"POST": "version.create"}

    @extend_schema(
        summary="List a version's training samples, the newest first; that one holds",
        responses=ReferenceSampleSerializer(many=True),
    )
    def get(self, request: Request, name: str, number: int) -> Response:
        version = find_version(name, number, user=user_of(request))
        rows = reference_history(version)
        return Response({"results": ReferenceSampleSerializer(rows, many=True).data})

    @extend_schema(
        summary="Record what a version was trained on, for drift to be measured against",
        request=ReferenceSampleRequestSerializer,
        responses={201: ReferenceSampleSerializer},
    )
    def post(self, request: Request, name: str, number: int) -> Response:
        # Not behind Idempotency-Key: the same content again changes nothing.
        body = ReferenceSampleRequestSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        row = record_reference_sample(
            version=find_version(name, number, user=user_of(request)),
            data=_content(body.validated_data),
            note=body.validated_data["note"],
            actor=actor_of(request),
        )
        return Response(ReferenceSampleSerializer(row).data, status=201)


def _content(body: dict[str, Any]) -> bytes | uuid.UUID:
    given = [name for name in ("upload", "csv", "inputs") if body.get(name) is not None]
    if len(given) != 1:
        raise Invalid(
            "Give one of upload, csv and inputs.",
            code="bad_reference_sample",
            errors=(FieldError(f"/{given[-1]}" if given else "/upload", "Give one of the three."),),
        )
    if "upload" in given:
        upload: uuid.UUID = body["upload"]
        return upload
    if "csv" in given:
        return str(body["csv"]).encode()
    return json.dumps({"inputs": body["inputs"]}).encode()


def _version(request: Request) -> int | None:
    text = request.query_params.get("version", "")
    if not text:
        return None
    if not text.isascii() or not text.isdecimal() or len(text) > 9:
        raise Invalid(
            f"version is no number: {text[:20]!r}.",
            code="invalid_versions",
            errors=(FieldError("/version", "A version's number."),),
        )
    return int(text)


def _answer(request: Request, environment: str, model: str) -> Response:
    page = telemetry_page(environment, model, now=timezone.now(), user=user_of(request))
    revision = page.setting.revision if page.setting else 0
    return Response(
        TelemetrySerializer(_document(page, revision)).data, headers={"ETag": f'"{revision}"'}
    )


def _document(page: TelemetryPage, revision: int) -> dict[str, Any]:
    limits = page.limits
    return {
        "measured": bool(page.setting and page.setting.measured),
        "promised": limits is not None,
        "percent": page.share,
        "revision": revision,
        "feature_drift_limit": limits.feature_drift_score if limits else None,
        "entropy_limit": limits.entropy_above if limits else None,
        "entropy_for_seconds": limits.entropy_for_seconds if limits else None,
        "rows": page.rows,
        "at": page.at,
        "versions": page.versions,
        "sent": page.sent,
    }
