"""`/api/v1/endpoints/…`: what callers get, and changing it."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db.models import QuerySet
from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.generics import ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from console.api.authentication import actor_of, user_of
from console.api.idempotency import idempotent
from console.api.problems import problem
from console.errors import NotAcknowledged
from deployments.api.answers import endpoint_answer, etag_of, live_answer, split_answer
from deployments.api.preconditions import revision_named
from deployments.api.serializers import (
    EndpointDetailSerializer,
    EndpointSerializer,
    ModeRequestSerializer,
    RollbackRequestSerializer,
    SplitRequestSerializer,
    SplitSerializer,
    VersionLineSerializer,
)
from deployments.models import Endpoint, TrafficSplit
from deployments.selectors.statistics.live_numbers import latest
from deployments.selectors.traffic.endpoint_pages import endpoint_page
from deployments.selectors.traffic.endpoints import filtered, find_endpoint, rows_of
from deployments.services.incidents.rollbacks import roll_back
from deployments.services.traffic.splits import set_mode, set_split, wait_acknowledged

WAIT = OpenApiParameter(
    "wait", bool, description="Answer only when every gateway has acknowledged, at most 5 s."
)
IF_MATCH = OpenApiParameter(
    "If-Match", str, location="header", description='The revision that is replaced, as "12"; or *.'
)


@extend_schema(
    summary="List endpoints with their split, mode and live numbers",
    responses=EndpointSerializer(many=True),
    parameters=[
        OpenApiParameter("environment", str),
        OpenApiParameter("model", str),
        OpenApiParameter("q", str, description="Found in the model's name."),
    ],
)
class EndpointListView(ListAPIView[Endpoint]):
    pagination_ordering: ClassVar[tuple[str, ...]] = ("pk",)
    serializer_class = EndpointSerializer
    queryset = Endpoint.objects.none()

    def list(self, request: Request, *args: object, **kwargs: object) -> Response:
        wanted: QuerySet[Endpoint] = filtered(
            environment=request.query_params.get("environment", ""),
            model=request.query_params.get("model", ""),
            query=request.query_params.get("q", ""),
            user=user_of(request),
        )
        page = list(self.paginate_queryset(wanted) or [])
        live = latest(str(endpoint) for endpoint in page)
        rows = rows_of(page, timezone.now())
        return self.get_paginated_response(
            [endpoint_answer(row, live.get(f"{row.environment}/{row.model}")) for row in rows]
        )


class EndpointView(APIView):
    @extend_schema(
        summary="Show an endpoint with its split, versions and live numbers",
        responses=EndpointDetailSerializer,
    )
    def get(self, request: Request, environment: str, model: str) -> Response:
        page = endpoint_page(environment, model, now=timezone.now(), user=user_of(request))
        body: dict[str, Any] = {
            "environment": environment,
            "model": model,
            "mode": page.split.mode if page.split else "normal",
            "split": split_answer(page.endpoint.current, page.gateways),
            "ready_versions": [line.number for line in page.versions if line.ready],
            "live": live_answer(page.live),
            "limit_ms": page.promise.limit_ms,
            "promise": page.promise.state,
            "budget_left": page.promise.budget_left,
            "versions": VersionLineSerializer(page.versions, many=True).data,
            "rollback_target": page.rollback_target,
            "rollback_why_not": page.rollback_why_not,
            "urls": page.listeners,
        }
        return Response(body)


class SplitView(APIView):
    required_actions: ClassVar[dict[str, str]] = {"PUT": "split.change"}

    @extend_schema(summary="Show the split", responses=SplitSerializer)
    def get(self, request: Request, environment: str, model: str) -> Response:
        endpoint = find_endpoint(environment, model, user=user_of(request))
        return Response(split_answer(endpoint.current), headers={"ETag": etag_of(endpoint)})

    @extend_schema(
        summary="Divide the traffic among versions",
        request=SplitRequestSerializer,
        responses=SplitSerializer,
        parameters=[IF_MATCH, WAIT],
    )
    def put(self, request: Request, environment: str, model: str) -> Response:
        # Not behind Idempotency-Key: the revision named makes a second send the same effect.
        if "If-Match" not in request.headers:
            return problem(
                status_code=428,
                code="precondition_required",
                detail="The revision that this split replaces is not named.",
                hint='Send If-Match with the ETag of the split you looked at, as If-Match: "12".',
            )
        body = SplitRequestSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        split = set_split(
            environment=environment,
            model=model,
            expected_revision=revision_named(request),
            actor=actor_of(request),
            **body.validated_data,
        )
        try:
            return _answered(request, split)
        except NotAcknowledged as error:
            return _late(error, split)


class RollbackView(APIView):
    required_actions: ClassVar[dict[str, str]] = {"POST": "endpoint.rollback"}

    @extend_schema(
        summary="Send all traffic to the last good version, now",
        request=RollbackRequestSerializer,
        responses=SplitSerializer,
        parameters=[WAIT],
    )
    @idempotent
    def post(self, request: Request, environment: str, model: str) -> Response:
        body = RollbackRequestSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        split = roll_back(
            environment=environment, model=model, actor=actor_of(request), **body.validated_data
        )
        return _answered(request, split)


class ModeView(APIView):
    required_actions: ClassVar[dict[str, str]] = {"PUT": "endpoint.mode"}

    @extend_schema(
        summary="Let versions answer, the contract's fallback, or nobody",
        request=ModeRequestSerializer,
        responses=SplitSerializer,
        parameters=[WAIT],
    )
    @idempotent
    def put(self, request: Request, environment: str, model: str) -> Response:
        body = ModeRequestSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        split = set_mode(
            environment=environment,
            model=model,
            expected_revision=revision_named(request),
            actor=actor_of(request),
            **body.validated_data,
        )
        return _answered(request, split)


def _answered(request: Request, split: TrafficSplit) -> Response:
    """The split, once it is acknowledged where the caller asks to wait for that."""
    words = None
    if request.query_params.get("wait", "").lower() in ("1", "true", "yes"):
        words = wait_acknowledged(split)
    return Response(split_answer(split, words), headers={"ETag": f'"{split.revision}"'})


def _late(error: NotAcknowledged, split: TrafficSplit) -> Response:
    """The problem, with the split as it is stored: who applied it and who has not."""
    stored = split_answer(split)
    shown = {name: stored[name] for name in ("revision", "weights", "acknowledgements")}
    response = problem(
        status_code=error.status, code=error.code, detail=error.message, hint=error.hint
    )
    response.data = {**response.data, **shown}
    return response
