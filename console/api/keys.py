"""`/api/v1/tokens/` and `/api/v1/me/`: what a person calls with, and who they are."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import status
from rest_framework.generics import ListAPIView
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from console.actors import Actor, require
from console.api.authentication import actor_of
from console.api.serializers import (
    CreateTokenSerializer,
    MeSerializer,
    NewTokenSerializer,
    TokenSerializer,
)
from console.errors import Invalid
from console.models import ApiToken, User
from console.rules.permissions import SCOPES
from console.selectors.people import tokens_of
from console.services.sign_ins import Origin, check_sign_in
from console.services.tokens import create_token, revoke_token

# A token made by signing in from the command line may do what its owner may.
SIGN_IN_SCOPES = list(SCOPES)


class TokenListView(ListAPIView[ApiToken]):
    serializer_class = TokenSerializer
    pagination_ordering: ClassVar[tuple[str, ...]] = ("-created_at", "-pk")
    queryset = ApiToken.objects.none()

    def get_permissions(self) -> Any:
        # Signing in by name and password is for those who have nothing else yet.
        return [AllowAny()] if self.request.method == "POST" else super().get_permissions()

    @extend_schema(summary="List one's tokens")
    def get(self, request: Request) -> Response:
        page = self.paginate_queryset(tokens_of(actor_of(request).user))
        return self.get_paginated_response(TokenSerializer(page, many=True).data)

    @extend_schema(
        summary="Make a token: as who one is signed in as, or by username and password",
        request=CreateTokenSerializer,
        responses={201: NewTokenSerializer},
    )
    def post(self, request: Request) -> Response:
        body = CreateTokenSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        wanted = body.validated_data
        signs_in = "username" in wanted or "password" in wanted
        actor = _signed_in(request, wanted) if signs_in else actor_of(request)
        token, clear = create_token(
            name=wanted["name"],
            scopes=wanted.get("scopes") or (SIGN_IN_SCOPES if signs_in else ["read"]),
            days=wanted.get("days"),
            actor=actor,
        )
        answer = {**TokenSerializer(token).data, "token": clear}
        return Response(
            answer, status=status.HTTP_201_CREATED, headers={"Cache-Control": "no-store"}
        )


class TokenRevokeView(APIView):
    required_actions: ClassVar[dict[str, str]] = {"POST": "token.manage_own"}

    @extend_schema(summary="Revoke one's token", request=None, responses=TokenSerializer)
    def post(self, request: Request, token_id: int) -> Response:
        token = revoke_token(token_id=token_id, actor=actor_of(request))
        return Response(TokenSerializer(token).data)


class MeView(APIView):
    @extend_schema(summary="Who one is signed in as", responses=MeSerializer)
    def get(self, request: Request) -> Response:
        actor = actor_of(request)
        require(actor, "read")
        scopes = None if actor.scopes is None else sorted(actor.scopes)
        return Response(MeSerializer(actor.user, context={"scopes": scopes}).data)


def _signed_in(request: Request, wanted: dict[str, Any]) -> Actor:
    if not wanted.get("username") or not wanted.get("password"):
        raise Invalid(
            "Signing in takes a username and a password.",
            code="credentials_missing",
            hint="Send both, or neither to make a token for who you are signed in as.",
        )
    request_id = getattr(request._request, "request_id", "")
    user: User = check_sign_in(
        username=wanted["username"],
        password=wanted["password"],
        code=wanted.get("code", ""),
        origin=Origin(request.META.get("REMOTE_ADDR", ""), "api", request_id),
    )
    return Actor(user=user, source="api", request_id=request_id)
