"""`/api/v1/gateways/`"""

from __future__ import annotations

from typing import Any, ClassVar

from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from console.api.authentication import actor_of
from console.api.idempotency import idempotent
from deployments.models import GatewayProduct
from deployments.selectors.gateways.registered import find_gateway, gateway_row, gateway_rows
from deployments.services.gateways.exports import export_gateway
from deployments.services.gateways.registrations import (
    change_gateway,
    register_gateway,
    remove_gateway,
)


class GatewayListenerSerializer(serializers.Serializer[Any]):
    environment = serializers.CharField()
    address = serializers.CharField(max_length=80)
    port = serializers.IntegerField(min_value=1, max_value=65535)
    public_url = serializers.CharField(max_length=200, required=False, allow_blank=True)


class GatewayCapabilitySerializer(serializers.Serializer[Any]):
    key = serializers.CharField()
    name = serializers.CharField()
    level = serializers.CharField(help_text="full, part or none")
    words = serializers.CharField(help_text="What is missing, or why; empty where nothing is.")


class GatewaySerializer(serializers.Serializer[Any]):
    name = serializers.CharField()
    adapter = serializers.CharField(source="product")
    admin_url = serializers.CharField()
    options = serializers.JSONField()
    connected = serializers.BooleanField()
    connected_at = serializers.DateTimeField(allow_null=True)
    acknowledged_at = serializers.DateTimeField(allow_null=True)
    last_refusal = serializers.CharField(allow_blank=True)
    last_refusal_at = serializers.DateTimeField(allow_null=True)
    listeners = GatewayListenerSerializer(many=True)
    capabilities = GatewayCapabilitySerializer(many=True)


class GatewayListSerializer(serializers.Serializer[Any]):
    results = GatewaySerializer(many=True)


class GatewayRequestSerializer(serializers.Serializer[Any]):
    name = serializers.CharField(max_length=40)
    adapter = serializers.ChoiceField(
        choices=GatewayProduct.choices, default=GatewayProduct.ENVOY.value
    )
    admin_url = serializers.CharField(max_length=200)
    options = serializers.JSONField(default=dict)
    listeners = GatewayListenerSerializer(many=True, allow_empty=False)


class GatewayChangeSerializer(serializers.Serializer[Any]):
    admin_url = serializers.CharField(max_length=200, required=False)
    options = serializers.JSONField(required=False)
    listeners = GatewayListenerSerializer(many=True, allow_empty=False, required=False)


class GatewayRemovalSerializer(serializers.Serializer[Any]):
    reason = serializers.CharField(max_length=2000)


class GatewayListView(APIView):
    required_actions: ClassVar[dict[str, str]] = {"POST": "gateway.register"}

    @extend_schema(
        operation_id="gateways_list",
        summary="List gateways, with what each can do",
        responses=GatewayListSerializer,
    )
    def get(self, request: Request) -> Response:
        return Response(GatewayListSerializer({"results": gateway_rows()}).data)

    @extend_schema(
        summary="Register a gateway, or register it anew",
        request=GatewayRequestSerializer,
        responses={201: GatewaySerializer},
    )
    @idempotent
    def post(self, request: Request) -> Response:
        body = GatewayRequestSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        wanted = body.validated_data
        gateway = register_gateway(
            name=wanted["name"],
            adapter=wanted["adapter"],
            admin_url=wanted["admin_url"],
            options=wanted["options"],
            actor=actor_of(request),
            **_listeners(wanted["listeners"]),
        )
        return Response(
            GatewaySerializer(gateway_row(gateway)).data, status=status.HTTP_201_CREATED
        )


class GatewayView(APIView):
    required_actions: ClassVar[dict[str, str]] = {
        "PATCH": "gateway.register",
        "DELETE": "gateway.register",
    }

    @extend_schema(summary="Show a gateway", responses=GatewaySerializer)
    def get(self, request: Request, gateway: str) -> Response:
        return Response(GatewaySerializer(gateway_row(find_gateway(gateway))).data)

    @extend_schema(
        summary="Change how a gateway is reached and where it listens",
        request=GatewayChangeSerializer,
        responses=GatewaySerializer,
    )
    @idempotent
    def patch(self, request: Request, gateway: str) -> Response:
        body = GatewayChangeSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        wanted = dict(body.validated_data)
        places = _listeners(wanted.pop("listeners")) if "listeners" in wanted else {}
        changed = change_gateway(name=gateway, actor=actor_of(request), **wanted, **places)
        return Response(GatewaySerializer(gateway_row(changed)).data)

    @extend_schema(
        summary="Forget a gateway; it serves on with what it has",
        request=GatewayRemovalSerializer,
        responses={204: None},
    )
    @idempotent
    def delete(self, request: Request, gateway: str) -> Response:
        body = GatewayRemovalSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        remove_gateway(name=gateway, reason=body.validated_data["reason"], actor=actor_of(request))
        return Response(status=status.HTTP_204_NO_CONTENT)


class GatewayExportView(APIView):
    required_actions: ClassVar[dict[str, str]] = {"GET": "gateway.register"}

    @extend_schema(
        summary="What a gateway should have, as the file that its own tools take",
        responses={(200, "application/yaml"): OpenApiTypes.STR},
    )
    def get(self, request: Request, gateway: str) -> HttpResponse:
        made = export_gateway(name=gateway, actor=actor_of(request))
        answer = HttpResponse(made.text, content_type="application/yaml; charset=utf-8")
        answer["Content-Disposition"] = f'attachment; filename="{made.filename}"'
        return answer


def _listeners(given: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "listeners": {one["environment"]: (one["address"], one["port"]) for one in given},
        "public_urls": {
            one["environment"]: one["public_url"] for one in given if one.get("public_url")
        },
    }
