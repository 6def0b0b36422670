"""`/api/v1/incidents/`"""

from __future__ import annotations

import uuid
from datetime import datetime
from typing import Any, ClassVar

from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.generics import ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from console.api.authentication import actor_of, user_of
from console.api.idempotency import idempotent
from deployments.api.incident_serializers import (
    IncidentCommentSerializer,
    IncidentDetailSerializer,
    IncidentResolveSerializer,
    IncidentSerializer,
)
from deployments.api.statistics import moment_of
from deployments.models import Incident
from deployments.selectors.incidents.pages import (
    IncidentFilter,
    find_incident,
    incident_list,
    incident_page,
)
from deployments.services.incidents.acts import acknowledge, comment, resolve

MOST_LINES = 200
FILTERS = ("state", "severity", "environment", "q")


@extend_schema(
    summary="List incidents, newest first",
    parameters=[
        OpenApiParameter(
            "state", str, description="open, acknowledged, resolved, or `unresolved`."
        ),
        OpenApiParameter("severity", str, description="P1 or P2."),
        OpenApiParameter("environment", str),
        OpenApiParameter("q", str, description="Found in the model or the title."),
    ],
)
class IncidentListView(ListAPIView[Incident]):
    serializer_class = IncidentSerializer
    pagination_ordering: ClassVar[tuple[str, ...]] = ("-started_at", "-pk")
    queryset = Incident.objects.none()

    def list(self, request: Request, *args: object, **kwargs: object) -> Response:
        wanted = IncidentFilter(**{name: request.query_params.get(name, "") for name in FILTERS})
        page = self.paginate_queryset(incident_list(wanted, user=user_of(request)))
        return self.get_paginated_response(self.get_serializer(page, many=True).data)


class IncidentView(APIView):
    @extend_schema(
        summary="Show an incident with its timeline",
        parameters=[
            OpenApiParameter(
                "before", datetime, description="Lines before this moment: `earlier` of an answer."
            )
        ],
        responses=IncidentDetailSerializer,
    )
    def get(self, request: Request, incident_id: uuid.UUID) -> Response:
        return Response(_detail(request, incident_id, moment_of(request, "before")))


class IncidentAcknowledgeView(APIView):
    required_actions: ClassVar[dict[str, str]] = {"POST": "incident.handle"}

    @extend_schema(
        summary="Say that one sees to it", request=None, responses=IncidentDetailSerializer
    )
    @idempotent
    def post(self, request: Request, incident_id: uuid.UUID) -> Response:
        acknowledge(incident_id=incident_id, actor=actor_of(request))
        return Response(_detail(request, incident_id))


class IncidentResolveView(APIView):
    required_actions: ClassVar[dict[str, str]] = {"POST": "incident.handle"}

    @extend_schema(
        summary="Close it with what it was and what was done",
        request=IncidentResolveSerializer,
        responses=IncidentDetailSerializer,
    )
    @idempotent
    def post(self, request: Request, incident_id: uuid.UUID) -> Response:
        body = IncidentResolveSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        resolve(incident_id=incident_id, actor=actor_of(request), **body.validated_data)
        return Response(_detail(request, incident_id))


class IncidentCommentView(APIView):
    required_actions: ClassVar[dict[str, str]] = {"POST": "incident.handle"}

    @extend_schema(
        summary="Write a line into the timeline",
        request=IncidentCommentSerializer,
        responses=IncidentDetailSerializer,
    )
    @idempotent
    def post(self, request: Request, incident_id: uuid.UUID) -> Response:
        body = IncidentCommentSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        comment(incident_id=incident_id, actor=actor_of(request), **body.validated_data)
        return Response(_detail(request, incident_id))


def _detail(
    request: Request, incident_id: uuid.UUID, before: datetime | None = None
) -> dict[str, Any]:
    incident = find_incident(incident_id, user=user_of(request))
    page = incident_page(incident, now=timezone.now(), before=before, most=MOST_LINES)
    incident.timeline, incident.earlier = page.lines, page.earlier  # type: ignore[attr-defined]
    return dict(IncidentDetailSerializer(incident).data)
