"""`/api/v1/alerts/` and `/api/v1/silences/`"""

from __future__ import annotations

import uuid
from typing import Any, ClassVar

from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import status
from rest_framework.generics import ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from console.api.authentication import actor_of, user_of
from console.api.idempotency import idempotent
from deployments.api.alert_serializers import (
    AlertAcknowledgeSerializer,
    AlertCommentSerializer,
    AlertDetailSerializer,
    AlertSerializer,
    SilenceRequestSerializer,
    SilenceSerializer,
)
from deployments.documents.alert_words import signal_title
from deployments.models import Alert, Silence
from deployments.selectors.alerts.charts import alert_chart, drawn_signal
from deployments.selectors.alerts.pages import (
    AlertFilter,
    alert_page,
    alerts_by_time,
    find_alert,
    find_silence,
    silence_list,
)
from deployments.services.alerts.acts import acknowledge, comment
from deployments.services.alerts.silences import create_silence, end_silence

FILTERS = ("state", "severity", "environment", "model", "node", "rule", "q")


@extend_schema(
    summary="List alerts, newest first",
    parameters=[
        OpenApiParameter(
            "state",
            str,
            description="pending, firing, resolved, or `unresolved`, `silenced`, `unacknowledged`.",
        ),
        OpenApiParameter("severity", str, description="P1, P2 or P3."),
        OpenApiParameter("environment", str),
        OpenApiParameter("model", str),
        OpenApiParameter("node", str),
        OpenApiParameter("rule", str),
        OpenApiParameter("q", str, description="Found in the model, node, rule or title."),
    ],
)
class AlertListView(ListAPIView[Alert]):
    serializer_class = AlertSerializer
    pagination_ordering: ClassVar[tuple[str, ...]] = ("-started_at", "-pk")
    queryset = Alert.objects.none()

    def list(self, request: Request, *args: object, **kwargs: object) -> Response:
        wanted = AlertFilter(**{name: request.query_params.get(name, "") for name in FILTERS})
        page = self.paginate_queryset(alerts_by_time(wanted, user=user_of(request)))
        return self.get_paginated_response(self.get_serializer(page, many=True).data)


class AlertView(APIView):
    @extend_schema(
        summary="Show an alert with its evidence and timeline", responses=AlertDetailSerializer
    )
    def get(self, request: Request, alert_id: uuid.UUID) -> Response:
        return Response(_detail(request, alert_id))


class AlertAcknowledgeView(APIView):
    required_actions: ClassVar[dict[str, str]] = {"POST": "alert.handle"}

    @extend_schema(
        summary="Say that one sees to it",
        request=AlertAcknowledgeSerializer,
        responses=AlertDetailSerializer,
    )
    @idempotent
    def post(self, request: Request, alert_id: uuid.UUID) -> Response:
        body = AlertAcknowledgeSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        acknowledge(alert_id=alert_id, actor=actor_of(request), **body.validated_data)
        return Response(_detail(request, alert_id))


class AlertCommentView(APIView):
    required_actions: ClassVar[dict[str, str]] = {"POST": "alert.handle"}

    @extend_schema(
        summary="Write a line into the timeline",
        request=AlertCommentSerializer,
        responses=AlertDetailSerializer,
    )
    @idempotent
    def post(self, request: Request, alert_id: uuid.UUID) -> Response:
        body = AlertCommentSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        comment(alert_id=alert_id, actor=actor_of(request), **body.validated_data)
        return Response(_detail(request, alert_id))


class AlertChartView(APIView):
    @extend_schema(
        summary="The alert's signal over the time around it, with its limit",
        responses=OpenApiTypes.OBJECT,
    )
    def get(self, request: Request, alert_id: uuid.UUID) -> Response:
        alert = find_alert(alert_id, user=user_of(request))
        title = signal_title(drawn_signal(alert))
        return Response(alert_chart(alert, now=timezone.now(), title=title))


@extend_schema(
    parameters=[OpenApiParameter("over", bool, description="Those that have ended instead.")]
)
class SilenceListView(ListAPIView[Silence]):
    required_actions: ClassVar[dict[str, str]] = {"POST": "alert.silence"}
    serializer_class = SilenceSerializer
    pagination_ordering: ClassVar[tuple[str, ...]] = ("-starts_at", "-pk")
    queryset = Silence.objects.none()

    @extend_schema(summary="List silences in force or to come, newest first")
    def get(self, request: Request, *args: object, **kwargs: object) -> Response:
        over = request.query_params.get("over", "") in ("1", "true")
        rows = silence_list(user=user_of(request), now=timezone.now(), over=over)
        page = self.paginate_queryset(rows)
        return self.get_paginated_response(self.get_serializer(page, many=True).data)

    @extend_schema(
        summary="Keep alerts quiet for a while",
        request=SilenceRequestSerializer,
        responses={201: SilenceSerializer},
    )
    @idempotent
    def post(self, request: Request) -> Response:
        body = SilenceRequestSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        silence = create_silence(actor=actor_of(request), **body.validated_data)
        return Response(SilenceSerializer(silence).data, status=status.HTTP_201_CREATED)


class SilenceView(APIView):
    @extend_schema(summary="Show a silence", responses=SilenceSerializer)
    def get(self, request: Request, silence_id: uuid.UUID) -> Response:
        return Response(SilenceSerializer(find_silence(silence_id, user=user_of(request))).data)


class SilenceEndView(APIView):
    required_actions: ClassVar[dict[str, str]] = {"POST": "alert.silence"}

    @extend_schema(
        summary="End a silence before its time", request=None, responses=SilenceSerializer
    )
    @idempotent
    def post(self, request: Request, silence_id: uuid.UUID) -> Response:
        end_silence(silence_id=silence_id, actor=actor_of(request))
        return Response(SilenceSerializer(find_silence(silence_id, user=user_of(request))).data)


def _detail(request: Request, alert_id: uuid.UUID) -> dict[str, Any]:
    alert = find_alert(alert_id, user=user_of(request))
    page = alert_page(alert, user=user_of(request), now=timezone.now())
    alert.timeline = page.events  # type: ignore[attr-defined]
    alert.times_before = page.times_before  # type: ignore[attr-defined]
    return dict(AlertDetailSerializer(alert).data)
