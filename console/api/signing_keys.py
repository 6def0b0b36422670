"""`/api/v1/keys/`: the keys that people sign with, and their public halves for verifiers."""

from __future__ import annotations

from typing import Any, ClassVar

from django.http import HttpResponse
from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers, status
from rest_framework.generics import ListAPIView
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from console.api.authentication import actor_of
from console.api.idempotency import idempotent
from console.api.key_serializers import (
    EnrolKeySerializer,
    EnrolPasskeySerializer,
    KeyEffectSerializer,
    RevokeKeySerializer,
    SigningKeySerializer,
)
from console.errors import Invalid
from console.models import SigningKey
from console.rules.key_export import to_jwks, to_pem
from console.selectors.signing_keys import keys_to_export, signing_keys_of
from console.services.key_rows import known_key
from console.services.keys import effects_of, enrol_key, key_for_revocation, revoke_key
from console.services.signing_passkeys import begin_passkey, enrol_passkey

EXPORTS = {"jwks": "application/jwk-set+json", "pem": "application/x-pem-file"}


class KeyListView(ListAPIView[SigningKey]):
    serializer_class = SigningKeySerializer
    required_actions: ClassVar[dict[str, str]] = {"POST": "key.manage_own"}
    pagination_ordering: ClassVar[tuple[str, ...]] = ("-enrolled_at", "-pk")
    queryset = SigningKey.objects.none()

    @extend_schema(summary="List one's signing keys")
    def get(self, request: Request) -> Response:
        page = self.paginate_queryset(signing_keys_of(actor_of(request).user))
        return self.get_paginated_response(SigningKeySerializer(page, many=True).data)

    @extend_schema(
        summary="Enrol a signing key, in the place of another if it replaces one",
        request=EnrolKeySerializer,
        responses={201: SigningKeySerializer},
    )
    @idempotent
    def post(self, request: Request) -> Response:
        body = EnrolKeySerializer(data=request.data)
        body.is_valid(raise_exception=True)
        key = enrol_key(**body.validated_data, session=_session(request), actor=actor_of(request))
        return Response(SigningKeySerializer(key).data, status=status.HTTP_201_CREATED)


class PasskeyOptionsView(APIView):
    required_actions: ClassVar[dict[str, str]] = {"POST": "key.manage_own"}

    @extend_schema(
        summary="Begin to enrol a passkey: what navigator.credentials.create() is given",
        request=None,
        responses=OpenApiTypes.OBJECT,
    )
    def post(self, request: Request) -> Response:
        options = begin_passkey(actor=actor_of(request))
        return Response(options, headers={"Cache-Control": "no-store"})


class PasskeyListView(APIView):
    required_actions: ClassVar[dict[str, str]] = {"POST": "key.manage_own"}

    @extend_schema(
        summary="Enrol the passkey that the browser made, as a signing key",
        request=EnrolPasskeySerializer,
        responses={201: SigningKeySerializer},
    )
    def post(self, request: Request) -> Response:
        body = EnrolPasskeySerializer(data=request.data)
        body.is_valid(raise_exception=True)
        key = enrol_passkey(
            **body.validated_data, session=_session(request), actor=actor_of(request)
        )
        return Response(SigningKeySerializer(key).data, status=status.HTTP_201_CREATED)


class KeyRevokeView(APIView):
    required_actions: ClassVar[dict[str, str]] = {"POST": "key.manage_own"}

    @extend_schema(
        summary="Revoke a signing key, by its number or key id",
        request=RevokeKeySerializer,
        responses=SigningKeySerializer,
    )
    @idempotent
    def post(self, request: Request, key_id: str) -> Response:
        body = RevokeKeySerializer(data=request.data)
        body.is_valid(raise_exception=True)
        key = revoke_key(key_id=key_id, **body.validated_data, actor=actor_of(request))
        return Response(SigningKeySerializer(key).data)


class KeyEffectView(APIView):
    required_actions: ClassVar[dict[str, str]] = {"GET": "key.manage_own"}

    @extend_schema(
        summary="What revoking a key would do to each thing that stands by its signature",
        parameters=[OpenApiParameter("doubted_from", OpenApiTypes.DATETIME, required=False)],
        responses=KeyEffectSerializer(many=True),
    )
    def get(self, request: Request, key_id: str) -> Response:
        key = key_for_revocation(key_id=key_id, actor=actor_of(request))
        since = None
        if asked := request.query_params.get("doubted_from"):
            since = serializers.DateTimeField().run_validation(asked)
        return Response(KeyEffectSerializer(effects_of(key, since), many=True).data)


class _AsAsked(BaseContentNegotiation):
    """`?format=` is the view's own word here."""

    def select_parser(self, request: Request, parsers: Any) -> Any:
        return parsers[0]

    def select_renderer(
        self, request: Request, renderers: Any, format_suffix: str | None = None
    ) -> Any:
        return renderers[0], renderers[0].media_type


class KeyExportView(APIView):
    """Open to everybody, like every key set: a verifier has no account. Names of people are not."""

    content_negotiation_class = _AsAsked

    def get_permissions(self) -> list[Any]:
        return [AllowAny()]

    @extend_schema(
        summary="Public keys for offline verifiers; whose they are only for who is signed in",
        parameters=[
            OpenApiParameter("format", str, enum=sorted(EXPORTS), required=False),
            OpenApiParameter("person", str, required=False, description="A user name."),
        ],
        responses={
            (200, EXPORTS["jwks"]): OpenApiTypes.OBJECT,
            (200, EXPORTS["pem"]): OpenApiTypes.STR,
        },
    )
    def get(self, request: Request) -> HttpResponse:
        named = request.user.is_authenticated
        wanted = request.query_params.get("format", "jwks")
        if wanted not in EXPORTS:
            raise Invalid(
                f"Keys are given as {' or '.join(EXPORTS)}, not as {wanted[:20]}.",
                code="unknown_format",
                hint="Ask with ?format=jwks or ?format=pem.",
            )
        person = request.query_params.get("person", "")
        if person and not named:
            raise Invalid(
                "Whose a key is, is told only to who is signed in.",
                code="sign_in_needed",
                hint="Sign in, or ask for all keys and pick them by their key id.",
            )
        known = [known_key(key, named=named) for key in keys_to_export(person)]
        text = (to_jwks if wanted == "jwks" else to_pem)(known, timezone.now())
        kind = EXPORTS[wanted] if wanted == "jwks" else f"{EXPORTS[wanted]}; charset=utf-8"
        name = f"keys-{person}.{wanted}" if person else f"keys.{wanted}"
        answer = HttpResponse(text, content_type=kind)
        answer["Content-Disposition"] = f'attachment; filename="{name}"'
        answer["Cache-Control"] = "no-store"
        return answer


def _session(request: Request) -> Any:
    """The session of a page's script; a token has none."""
    return None if request.auth is not None else request._request.session
