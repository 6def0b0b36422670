"""`/api/v1/alert-channels/`, `/alert-routes/` and `/alert-deliveries/`: where alerts are sent."""

from __future__ import annotations

import uuid
from typing import Any, ClassVar

from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import status
from rest_framework.generics import ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from console.api.authentication import actor_of
from console.api.idempotency import idempotent
from deployments.api.channel_serializers import (
    ChannelChangeSerializer,
    ChannelSerializer,
    DeliverySerializer,
    MadeChannelSerializer,
    NewChannelSerializer,
    RouteChangeSerializer,
    RouteSerializer,
)
from deployments.models import AlertChannel, AlertDelivery
from deployments.rules.alerts.route_terms import RouteTerms
from deployments.selectors.alerts.deliveries import DeliveryFilter, channel_list, delivery_list
from deployments.selectors.alerts.routes import routes
from deployments.services.alerts.channel_tests import try_channel
from deployments.services.alerts.channels import (
    change_channel,
    create_channel,
    find_channel,
    remove_channel,
    rotate_secret,
)
from deployments.services.alerts.deliveries import retry
from deployments.services.alerts.routes import find_route, remove_route, set_route

MANAGE: dict[str, str] = dict.fromkeys(
    ("GET", "POST", "PUT", "PATCH", "DELETE"), "alert_channel.manage"
)
FILTERS = ("state", "why", "channel", "q")


class ChannelListView(APIView):
    required_actions: ClassVar[dict[str, str]] = MANAGE

    @extend_schema(
        summary="List the channels by name, at most 200", responses=ChannelSerializer(many=True)
    )
    def get(self, request: Request) -> Response:
        return Response(ChannelSerializer(channel_list(timezone.now()), many=True).data)

    @extend_schema(
        summary="Send alerts to one more place; a webhook's secret is shown this once",
        request=NewChannelSerializer,
        responses={201: MadeChannelSerializer},
    )
    def post(self, request: Request) -> Response:
        asked = NewChannelSerializer(data=request.data)
        asked.is_valid(raise_exception=True)
        made, secret = create_channel(**asked.validated_data, actor=actor_of(request))
        return Response(_made(made, secret), status=status.HTTP_201_CREATED)


class ChannelView(APIView):
    required_actions: ClassVar[dict[str, str]] = MANAGE

    @extend_schema(summary="One channel, and how it does", responses=ChannelSerializer)
    def get(self, request: Request, channel: str) -> Response:
        return Response(ChannelSerializer(find_channel(channel)).data)

    @extend_schema(
        summary="Change a channel, stop or start it",
        request=ChannelChangeSerializer,
        responses=ChannelSerializer,
    )
    def patch(self, request: Request, channel: str) -> Response:
        asked = ChannelChangeSerializer(data=request.data)
        asked.is_valid(raise_exception=True)
        changed = change_channel(name=channel, **asked.validated_data, actor=actor_of(request))
        return Response(ChannelSerializer(changed).data)

    @extend_schema(summary="Send nothing there any more", responses={204: None})
    def delete(self, request: Request, channel: str) -> Response:
        remove_channel(name=channel, actor=actor_of(request))
        return Response(status=status.HTTP_204_NO_CONTENT)


class ChannelTestView(APIView):
    required_actions: ClassVar[dict[str, str]] = MANAGE

    @extend_schema(
        summary="Send a message that says that it is a test, now, and tell what was answered",
        request=None,
        responses=DeliverySerializer(many=True),
    )
    def post(self, request: Request, channel: str) -> Response:
        tried = try_channel(name=channel, actor=actor_of(request))
        return Response(DeliverySerializer(tried, many=True).data)


class ChannelSecretView(APIView):
    required_actions: ClassVar[dict[str, str]] = MANAGE

    @extend_schema(
        summary="A new secret for a webhook, shown this once",
        request=None,
        responses={201: MadeChannelSerializer},
    )
    def post(self, request: Request, channel: str) -> Response:
        changed, secret = rotate_secret(name=channel, actor=actor_of(request))
        return Response(_made(changed, secret), status=status.HTTP_201_CREATED)


class RouteListView(APIView):
    required_actions: ClassVar[dict[str, str]] = MANAGE

    @extend_schema(
        summary="List the routes in their order, at most 200",
        responses=RouteSerializer(many=True),
    )
    def get(self, request: Request) -> Response:
        return Response(RouteSerializer(routes(), many=True).data)


class RouteView(APIView):
    required_actions: ClassVar[dict[str, str]] = MANAGE

    @extend_schema(summary="One route", responses=RouteSerializer)
    def get(self, request: Request, route: str) -> Response:
        return Response(RouteSerializer(find_route(route)).data)

    @extend_schema(
        summary="Make a route, or decide it anew; what is left out is as in a new one",
        request=RouteChangeSerializer,
        responses=RouteSerializer,
    )
    def put(self, request: Request, route: str) -> Response:
        asked = RouteChangeSerializer(data=request.data)
        asked.is_valid(raise_exception=True)
        given = dict(asked.validated_data)
        revision, reason = given.pop("revision", None), given.pop("reason")
        terms = RouteTerms(
            **{
                **given,
                "severities": tuple(given["severities"]),
                "channels": tuple(given["channels"]),
            }
        )
        set_route(
            name=route, terms=terms, revision=revision, reason=reason, actor=actor_of(request)
        )
        return Response(RouteSerializer(find_route(route)).data)

    @extend_schema(summary="Take a route away", responses={204: None})
    def delete(self, request: Request, route: str) -> Response:
        remove_route(name=route, actor=actor_of(request))
        return Response(status=status.HTTP_204_NO_CONTENT)


@extend_schema(
    summary="List messages about alerts, newest first",
    parameters=[
        OpenApiParameter("state", str, description="waiting, sent, failed or skipped."),
        OpenApiParameter("why", str, description="firing, reminder, escalation, resolved, test."),
        OpenApiParameter("channel", str),
        OpenApiParameter("q", str, description="Found in the receiver or the subject."),
    ],
)
class DeliveryListView(ListAPIView[AlertDelivery]):
    required_actions: ClassVar[dict[str, str]] = MANAGE
    serializer_class = DeliverySerializer
    pagination_ordering: ClassVar[tuple[str, ...]] = ("-created_at", "-id")
    queryset = AlertDelivery.objects.none()

    def list(self, request: Request, *args: object, **kwargs: object) -> Response:
        wanted = DeliveryFilter(**{name: request.query_params.get(name, "") for name in FILTERS})
        page = self.paginate_queryset(delivery_list(wanted))
        return self.get_paginated_response(self.get_serializer(page, many=True).data)


class DeliveryRetryView(APIView):
    required_actions: ClassVar[dict[str, str]] = MANAGE

    @extend_schema(
        summary="Send a message that failed once more", request=None, responses=DeliverySerializer
    )
    @idempotent
    def post(self, request: Request, delivery_id: uuid.UUID) -> Response:
        return Response(
            DeliverySerializer(retry(delivery_id=delivery_id, actor=actor_of(request))).data
        )


def _made(made: AlertChannel, secret: str) -> dict[str, Any]:
    return {**ChannelSerializer(made).data, "secret": secret}
