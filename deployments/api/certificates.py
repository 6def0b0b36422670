"""`/api/v1/gateways/…/certificates/…`: TLS on a gateway's listener."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from console.api.authentication import actor_of
from deployments.models import GatewayListener
from deployments.services.gateways.certificates import set_certificate


class CertificateSerializer(serializers.Serializer[GatewayListener]):
    gateway = serializers.CharField(source="gateway.name")
    environment = serializers.CharField(source="environment.name")
    public_url = serializers.CharField()
    certificate_file = serializers.CharField()
    key_file = serializers.CharField()
    certificate_not_after = serializers.DateTimeField(
        allow_null=True, help_text="Null until the gateway control has read a good pair."
    )


class CertificateRequestSerializer(serializers.Serializer[Any]):
    """Files on the machine of the gateway control; both empty for plain HTTP."""

    certificate_file = serializers.CharField(max_length=300, allow_blank=True)
    key_file = serializers.CharField(max_length=300, allow_blank=True)
    reason = serializers.CharField(max_length=2000, required=False, allow_blank=True)


class CertificateView(APIView):
    required_actions: ClassVar[dict[str, str]] = {"PUT": "gateway.register"}

    @extend_schema(
        summary="Have a listener speak TLS with the certificate in these files",
        request=CertificateRequestSerializer,
        responses=CertificateSerializer,
    )
    def put(self, request: Request, gateway: str, environment: str) -> Response:
        body = CertificateRequestSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        listener = set_certificate(
            gateway=gateway,
            environment=environment,
            actor=actor_of(request),
            **body.validated_data,
        )
        return Response(CertificateSerializer(listener).data)
