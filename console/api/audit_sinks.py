"""`/api/v1/audit/sinks/`: where the trail is forwarded to."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from console.api.audit_serializers import (
    MadeSinkSerializer,
    NewSinkSerializer,
    SinkChangeSerializer,
    SinkSerializer,
)
from console.api.authentication import actor_of
from console.models import AuditSink
from console.selectors.audit import sinks
from console.services.audit_sinks import (
    change_sink,
    create_sink,
    find_sink,
    remove_sink,
    rotate_secret,
    try_sink,
)

MANAGE: dict[str, str] = dict.fromkeys(("GET", "POST", "PATCH", "DELETE"), "audit.manage")


class SinkListView(APIView):
    required_actions: ClassVar[dict[str, str]] = MANAGE

    @extend_schema(summary="List the sinks by name", responses=SinkSerializer(many=True))
    def get(self, request: Request) -> Response:
        return Response(SinkSerializer(sinks(), many=True).data)

    @extend_schema(
        summary="Forward the trail to one more place; a webhook's secret is shown this once",
        request=NewSinkSerializer,
        responses={201: MadeSinkSerializer},
    )
    def post(self, request: Request) -> Response:
        asked = NewSinkSerializer(data=request.data)
        asked.is_valid(raise_exception=True)
        made, secret = create_sink(**asked.validated_data, actor=actor_of(request))
        return Response(_made(made, secret), status=status.HTTP_201_CREATED)


class SinkView(APIView):
    required_actions: ClassVar[dict[str, str]] = MANAGE

    @extend_schema(summary="One sink, and how far it has come", responses=SinkSerializer)
    def get(self, request: Request, sink: str) -> Response:
        return Response(SinkSerializer(find_sink(sink)).data)

    @extend_schema(
        summary="Change a sink's address, stop or start it",
        request=SinkChangeSerializer,
        responses=SinkSerializer,
    )
    def patch(self, request: Request, sink: str) -> Response:
        asked = SinkChangeSerializer(data=request.data)
        asked.is_valid(raise_exception=True)
        changed = change_sink(name=sink, **asked.validated_data, actor=actor_of(request))
        return Response(SinkSerializer(changed).data)

    @extend_schema(summary="Send nothing there any more", responses={204: None})
    def delete(self, request: Request, sink: str) -> Response:
        remove_sink(name=sink, actor=actor_of(request))
        return Response(status=status.HTTP_204_NO_CONTENT)


class SinkTestView(APIView):
    required_actions: ClassVar[dict[str, str]] = MANAGE

    @extend_schema(
        summary="Send a message that says that it is a test, now",
        request=None,
        responses={204: None},
    )
    def post(self, request: Request, sink: str) -> Response:
        try_sink(name=sink, actor=actor_of(request))
        return Response(status=status.HTTP_204_NO_CONTENT)


class SinkSecretView(APIView):
    required_actions: ClassVar[dict[str, str]] = MANAGE

    @extend_schema(
        summary="A new secret for a webhook, shown this once",
        request=None,
        responses={201: MadeSinkSerializer},
    )
    def post(self, request: Request, sink: str) -> Response:
        changed, secret = rotate_secret(name=sink, actor=actor_of(request))
        return Response(_made(changed, secret), status=status.HTTP_201_CREATED)


def _made(sink: AuditSink, secret: str) -> dict[str, Any]:
    return {**SinkSerializer(sink).data, "secret": secret}
