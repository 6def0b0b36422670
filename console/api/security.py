"""`/api/v1/me/security/`, `/me/sessions/` and an admin's reset: how people sign in, and where."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from console.actors import require
from console.api.authentication import actor_of
from console.api.serializers import ReasonSerializer
from console.selectors.security import security_of
from console.services.second_factors import Factors, factors_of, reset_second_factors
from console.services.sessions import end_other_sessions
from console.services.sign_ins import must_have_second_factor


class SecuritySerializer(serializers.Serializer[Any]):
    """What somebody has set up beside their password, and whether this installation asks for it."""

    app = serializers.BooleanField()
    passkeys = serializers.IntegerField()
    recovery_codes = serializers.IntegerField()
    second_factor_required = serializers.BooleanField()


class SessionSerializer(serializers.Serializer[Any]):
    """One browser where somebody is signed in; `by` as in "password+totp"."""

    handle = serializers.CharField(source="session.handle")
    browser = serializers.CharField(source="session.browser")
    address = serializers.CharField(source="session.address")
    by = serializers.CharField(source="session.means")
    signed_in_at = serializers.DateTimeField(source="session.signed_in_at")
    last_seen_at = serializers.DateTimeField(source="session.last_seen_at")
    here = serializers.BooleanField()


class EndedSerializer(serializers.Serializer[Any]):
    ended = serializers.IntegerField()


class MySecurityView(APIView):
    @extend_schema(summary="One's second factors", responses=SecuritySerializer)
    def get(self, request: Request) -> Response:
        actor = actor_of(request)
        require(actor, "read")
        return Response(_factors(factors_of(actor.user), must_have_second_factor(actor.user)))


class MySessionsView(APIView):
    required_actions: ClassVar[dict[str, str]] = {"DELETE": "second_factor.manage_own"}

    @extend_schema(
        summary="The browsers where one is signed in, at most 50",
        responses=SessionSerializer(many=True),
    )
    def get(self, request: Request) -> Response:
        actor = actor_of(request)
        require(actor, "read")
        found = security_of(actor.user, session_key=_session_key(request))
        return Response(SessionSerializer(found.sessions, many=True).data)

    @extend_schema(
        summary="End all of one's sessions but the one that asks",
        request=None,
        responses={200: EndedSerializer},
    )
    def delete(self, request: Request) -> Response:
        ended = end_other_sessions(keep=_session_key(request) or None, actor=actor_of(request))
        return Response({"ended": ended})


class PersonSecondFactorView(APIView):
    required_actions: ClassVar[dict[str, str]] = {"POST": "user.manage"}

    @extend_schema(
        summary="Take the second factors of somebody away who lost them",
        request=ReasonSerializer,
        responses=SecuritySerializer,
    )
    def post(self, request: Request, username: str) -> Response:
        body = ReasonSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        person = reset_second_factors(
            username=username, reason=body.validated_data["reason"], actor=actor_of(request)
        )
        return Response(_factors(factors_of(person), must_have_second_factor(person)))


def _factors(found: Factors, required: bool) -> dict[str, object]:
    return {
        "app": found.app,
        "passkeys": found.passkeys,
        "recovery_codes": found.recovery_codes,
        "second_factor_required": required,
    }


def _session_key(request: Request) -> str:
    """The key of the session that asks; empty for a token."""
    return "" if request.auth else str(request._request.session.session_key or "")
