"""`/api/v1/environments/…/callers/` and `…/token-issuers/`: who calls, and how that is known."""

from __future__ import annotations

from typing import Any, ClassVar

from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers, status
from rest_framework.generics import ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from console.api.authentication import actor_of
from console.api.idempotency import idempotent
from deployments.models import Caller, CallerKey, TokenIssuer
from deployments.selectors.access.callers import callers_of, find_caller, is_valid, issuers_of
from deployments.services.access.callers import (
    block_caller,
    create_caller,
    create_caller_key,
    revoke_caller_key,
    unblock_caller,
)
from deployments.services.access.token_issuers import (
    refresh_token_issuer,
    remove_token_issuer,
    set_token_issuer,
)


class CallerKeySerializer(serializers.Serializer[CallerKey]):
    """An API key without its text, which is shown once, when it is made."""

    prefix = serializers.CharField()
    created_at = serializers.DateTimeField()
    expires_at = serializers.DateTimeField(allow_null=True)
    revoked_at = serializers.DateTimeField(allow_null=True)
    usable = serializers.SerializerMethodField()

    def get_usable(self, key: CallerKey) -> bool:
        return is_valid(key, timezone.now())


class CallerSerializer(serializers.Serializer[Caller]):
    name = serializers.CharField()
    environment = serializers.CharField(source="environment.name")
    description = serializers.CharField()
    contact = serializers.CharField()
    created_by = serializers.CharField(source="created_by.username")
    created_at = serializers.DateTimeField()
    blocked_at = serializers.DateTimeField(allow_null=True)
    keys = CallerKeySerializer(many=True, source="keys.all")


class CallerRequestSerializer(serializers.Serializer[Any]):
    name = serializers.CharField(max_length=60)
    description = serializers.CharField(max_length=300, required=False, allow_blank=True)
    contact = serializers.CharField(max_length=120, required=False, allow_blank=True)


class CallerReasonSerializer(serializers.Serializer[Any]):
    reason = serializers.CharField(max_length=2000, required=False, allow_blank=True)


class CallerKeyRequestSerializer(serializers.Serializer[Any]):
    expires_in_days = serializers.IntegerField(
        required=False, allow_null=True, help_text="365 when left out; null for no end."
    )


class NewCallerKeySerializer(CallerKeySerializer):
    key = serializers.CharField(help_text="Shown this once, and kept nowhere.")


class TokenIssuerSerializer(serializers.Serializer[TokenIssuer]):
    name = serializers.CharField()
    environment = serializers.CharField(source="environment.name")
    issuer = serializers.CharField()
    audiences = serializers.ListField(child=serializers.CharField())
    caller_claim = serializers.CharField()
    jwks_url = serializers.CharField()
    jwks = serializers.DictField()
    fetched_at = serializers.DateTimeField(allow_null=True)


class TokenIssuerRequestSerializer(serializers.Serializer[Any]):
    """Give `jwks`, or `jwks_url`: then the keys are fetched now, and each minute from then on."""

    issuer = serializers.CharField(max_length=300)
    audiences = serializers.ListField(child=serializers.CharField(max_length=300))
    caller_claim = serializers.CharField(max_length=60, required=False)
    jwks = serializers.DictField(required=False, allow_null=True)
    jwks_url = serializers.CharField(max_length=500, required=False, allow_blank=True)


class CallerListView(ListAPIView[Caller]):
    required_actions: ClassVar[dict[str, str]] = {"POST": "caller.manage"}
    serializer_class = CallerSerializer
    pagination_ordering: ClassVar[tuple[str, ...]] = ("name",)
    queryset = Caller.objects.none()

    @extend_schema(
        summary="List callers of an environment",
        parameters=[OpenApiParameter("q", str, description="Found in the caller's name.")],
    )
    def get(self, request: Request, environment: str) -> Response:
        found = callers_of(environment, query=request.query_params.get("q", ""))
        page = self.paginate_queryset(found)
        return self.get_paginated_response([CallerSerializer(one).data for one in page or []])

    @extend_schema(
        summary="Register a caller",
        request=CallerRequestSerializer,
        responses={201: CallerSerializer},
    )
    @idempotent
    def post(self, request: Request, environment: str) -> Response:
        body = CallerRequestSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        caller = create_caller(
            environment=environment, actor=actor_of(request), **body.validated_data
        )
        return Response(CallerSerializer(caller).data, status=status.HTTP_201_CREATED)


class CallerView(APIView):
    @extend_schema(summary="Show a caller with its keys", responses=CallerSerializer)
    def get(self, request: Request, environment: str, caller: str) -> Response:
        return Response(CallerSerializer(find_caller(environment, caller)).data)


class CallerBlockView(APIView):
    required_actions: ClassVar[dict[str, str]] = {"POST": "caller.manage"}

    @extend_schema(
        summary="Block a caller at every endpoint of the environment",
        request=CallerReasonSerializer,
        responses=CallerSerializer,
    )
    @idempotent
    def post(self, request: Request, environment: str, caller: str) -> Response:
        body = CallerReasonSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        changed = block_caller(
            environment=environment, name=caller, actor=actor_of(request), **body.validated_data
        )
        return Response(CallerSerializer(changed).data)


class CallerUnblockView(APIView):
    required_actions: ClassVar[dict[str, str]] = {"POST": "caller.manage"}

    @extend_schema(
        summary="Let a blocked caller in again",
        request=CallerReasonSerializer,
        responses=CallerSerializer,
    )
    @idempotent
    def post(self, request: Request, environment: str, caller: str) -> Response:
        body = CallerReasonSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        changed = unblock_caller(
            environment=environment, name=caller, actor=actor_of(request), **body.validated_data
        )
        return Response(CallerSerializer(changed).data)


class CallerKeyListView(APIView):
    required_actions: ClassVar[dict[str, str]] = {"POST": "caller.manage"}

    @extend_schema(
        summary="Make an API key for a caller; its text is shown this once",
        request=CallerKeyRequestSerializer,
        responses={201: NewCallerKeySerializer},
    )
    def post(self, request: Request, environment: str, caller: str) -> Response:
        # Not behind Idempotency-Key: that would keep the answer, and the key with it.
        body = CallerKeyRequestSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        key, text = create_caller_key(
            environment=environment, name=caller, actor=actor_of(request), **body.validated_data
        )
        answer = {**CallerKeySerializer(key).data, "key": text}
        return Response(
            answer, status=status.HTTP_201_CREATED, headers={"Cache-Control": "no-store"}
        )


class CallerKeyView(APIView):
    required_actions: ClassVar[dict[str, str]] = {"DELETE": "caller.manage"}

    @extend_schema(summary="Revoke an API key", responses=CallerKeySerializer)
    def delete(self, request: Request, environment: str, caller: str, prefix: str) -> Response:
        key = revoke_caller_key(
            environment=environment, name=caller, prefix=prefix, actor=actor_of(request)
        )
        return Response(CallerKeySerializer(key).data)


class TokenIssuerListView(ListAPIView[TokenIssuer]):
    serializer_class = TokenIssuerSerializer
    pagination_ordering: ClassVar[tuple[str, ...]] = ("name",)
    queryset = TokenIssuer.objects.none()

    @extend_schema(summary="List token issuers of an environment")
    def get(self, request: Request, environment: str) -> Response:
        page = self.paginate_queryset(issuers_of(environment))
        return self.get_paginated_response([TokenIssuerSerializer(one).data for one in page or []])


class TokenIssuerView(APIView):
    required_actions: ClassVar[dict[str, str]] = {
        "PUT": "caller.manage",
        "DELETE": "caller.manage",
    }

    @extend_schema(
        summary="Register a token issuer, or change its registration",
        request=TokenIssuerRequestSerializer,
        responses=TokenIssuerSerializer,
    )
    def put(self, request: Request, environment: str, issuer_name: str) -> Response:
        body = TokenIssuerRequestSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        found = set_token_issuer(
            environment=environment,
            name=issuer_name,
            actor=actor_of(request),
            **body.validated_data,
        )
        return Response(TokenIssuerSerializer(found).data)

    @extend_schema(summary="Take an issuer's tokens no more", responses={204: None})
    def delete(self, request: Request, environment: str, issuer_name: str) -> Response:
        remove_token_issuer(environment=environment, name=issuer_name, actor=actor_of(request))
        return Response(status=status.HTTP_204_NO_CONTENT)


class TokenIssuerRefreshView(APIView):
    required_actions: ClassVar[dict[str, str]] = {"POST": "caller.manage"}

    @extend_schema(
        summary="Fetch an issuer's keys now", request=None, responses=TokenIssuerSerializer
    )
    @idempotent
    def post(self, request: Request, environment: str, issuer_name: str) -> Response:
        found = refresh_token_issuer(
            environment=environment, name=issuer_name, actor=actor_of(request)
        )
        return Response(TokenIssuerSerializer(found).data)
