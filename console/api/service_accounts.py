"""`/api/v1/service-accounts/`, and a platform's own token for one of ours."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import status
from rest_framework.generics import ListAPIView
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from console.api.authentication import actor_of
from console.api.idempotency import idempotent
from console.api.people_serializers import (
    AddWorkloadSerializer,
    ChangeServiceAccountSerializer,
    CreateAccountTokenSerializer,
    CreateServiceAccountSerializer,
    ExchangedSerializer,
    ExchangeSerializer,
    OwnedTokenSerializer,
    ServiceAccountSerializer,
    WorkloadSerializer,
)
from console.api.serializers import NewTokenSerializer, ReasonSerializer, TokenSerializer
from console.models import ApiToken, User, WorkloadIdentity
from console.selectors.people import tokens_of
from console.selectors.teams import find_service_account, service_accounts, workloads_of
from console.services.service_accounts import (
    change_service_account,
    create_service_account,
    disable_service_account,
    enable_service_account,
)
from console.services.tokens import create_account_token
from console.services.workloads import add_workload, exchange_token, remove_workload

MANAGE: dict[str, str] = dict.fromkeys(("GET", "POST", "PATCH", "DELETE"), "service_account.manage")
NO_STORE = {"Cache-Control": "no-store"}


class ServiceAccountListView(ListAPIView[User]):
    serializer_class = ServiceAccountSerializer
    required_actions: ClassVar[dict[str, str]] = MANAGE
    pagination_ordering: ClassVar[tuple[str, ...]] = ("username",)
    queryset = User.objects.none()

    @extend_schema(summary="List service accounts")
    def get(self, request: Request) -> Response:
        page = self.paginate_queryset(service_accounts())
        return self.get_paginated_response(ServiceAccountSerializer(page, many=True).data)

    @extend_schema(
        summary="Make a service account",
        request=CreateServiceAccountSerializer,
        responses={201: ServiceAccountSerializer},
    )
    @idempotent
    def post(self, request: Request) -> Response:
        body = CreateServiceAccountSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        account = create_service_account(**body.validated_data, actor=actor_of(request))
        return Response(_account(account.username), status.HTTP_201_CREATED)


class ServiceAccountView(APIView):
    required_actions: ClassVar[dict[str, str]] = MANAGE

    @extend_schema(summary="Show a service account", responses=ServiceAccountSerializer)
    def get(self, request: Request, username: str) -> Response:
        return Response(_account(username))

    @extend_schema(
        summary="Rename it, give it to another team, or change its roles there",
        request=ChangeServiceAccountSerializer,
        responses=ServiceAccountSerializer,
    )
    @idempotent
    def patch(self, request: Request, username: str) -> Response:
        body = ChangeServiceAccountSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        present = _account(username)
        wanted = {
            "display_name": present["display_name"],
            "team": present["team"] or "",
            "roles": present["roles"],
            **body.validated_data,
        }
        change_service_account(username=username, **wanted, actor=actor_of(request))
        return Response(_account(username))


class ServiceAccountDisableView(APIView):
    required_actions: ClassVar[dict[str, str]] = MANAGE

    @extend_schema(
        summary="Disable a service account; its tokens are revoked",
        request=ReasonSerializer,
        responses=ServiceAccountSerializer,
    )
    @idempotent
    def post(self, request: Request, username: str) -> Response:
        disable_service_account(username=username, reason=_reason(request), actor=actor_of(request))
        return Response(_account(username))


class ServiceAccountEnableView(APIView):
    required_actions: ClassVar[dict[str, str]] = MANAGE

    @extend_schema(
        summary="Enable a service account again",
        request=ReasonSerializer,
        responses=ServiceAccountSerializer,
    )
    @idempotent
    def post(self, request: Request, username: str) -> Response:
        enable_service_account(username=username, reason=_reason(request), actor=actor_of(request))
        return Response(_account(username))


class ServiceAccountTokenListView(ListAPIView[ApiToken]):
    serializer_class = OwnedTokenSerializer
    required_actions: ClassVar[dict[str, str]] = MANAGE
    pagination_ordering: ClassVar[tuple[str, ...]] = ("-created_at", "-pk")
    queryset = ApiToken.objects.none()

    @extend_schema(summary="List a service account's tokens")
    def get(self, request: Request, username: str) -> Response:
        tokens = tokens_of(find_service_account(username)).select_related("user")
        page = self.paginate_queryset(tokens)
        return self.get_paginated_response(OwnedTokenSerializer(page, many=True).data)

    @extend_schema(
        summary="Make a token for a service account; the clear text is given once",
        request=CreateAccountTokenSerializer,
        responses={201: NewTokenSerializer},
    )
    def post(self, request: Request, username: str) -> Response:
        body = CreateAccountTokenSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        token, clear = create_account_token(
            username=username, **body.validated_data, actor=actor_of(request)
        )
        answer = {**TokenSerializer(token).data, "token": clear}
        return Response(answer, status.HTTP_201_CREATED, headers=NO_STORE)


class WorkloadListView(ListAPIView[WorkloadIdentity]):
    serializer_class = WorkloadSerializer
    required_actions: ClassVar[dict[str, str]] = MANAGE
    queryset = WorkloadIdentity.objects.none()

    @extend_schema(summary="List what speaks for a service account without a secret")
    def get(self, request: Request, username: str) -> Response:
        page = self.paginate_queryset(workloads_of(find_service_account(username)))
        return self.get_paginated_response(WorkloadSerializer(page, many=True).data)

    @extend_schema(
        summary="Trust tokens of a platform to speak for a service account",
        request=AddWorkloadSerializer,
        responses={201: WorkloadSerializer},
    )
    @idempotent
    def post(self, request: Request, username: str) -> Response:
        body = AddWorkloadSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        identity = add_workload(username=username, **body.validated_data, actor=actor_of(request))
        return Response(WorkloadSerializer(identity).data, status.HTTP_201_CREATED)


class WorkloadView(APIView):
    required_actions: ClassVar[dict[str, str]] = MANAGE

    @extend_schema(
        summary="Trust these tokens no longer", request=ReasonSerializer, responses={204: None}
    )
    def delete(self, request: Request, username: str, workload_id: int) -> Response:
        remove_workload(
            username=username,
            workload_id=workload_id,
            reason=_reason(request),
            actor=actor_of(request),
        )
        return Response(status=status.HTTP_204_NO_CONTENT)


class TokenExchangeView(APIView):
    # The platform's token is the proof; nothing else is looked at.
    authentication_classes = ()
    permission_classes = (AllowAny,)

    @extend_schema(
        summary="Exchange a platform's own token (CI, Kubernetes) for one of 15 minutes",
        auth=[],
        request=ExchangeSerializer,
        responses={201: ExchangedSerializer},
    )
    def post(self, request: Request) -> Response:
        body = ExchangeSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        token, clear = exchange_token(
            **body.validated_data,
            address=request.META.get("REMOTE_ADDR", ""),
            source="api",
            request_id=getattr(request._request, "request_id", ""),
        )
        answer = {
            "token": clear,
            "account": token.user.username,
            "scopes": token.scopes,
            "expires_at": token.expires_at,
        }
        return Response(ExchangedSerializer(answer).data, status.HTTP_201_CREATED, headers=NO_STORE)


def _reason(request: Request) -> str:
    body = ReasonSerializer(data=request.data)
    body.is_valid(raise_exception=True)
    reason: str = body.validated_data["reason"]
    return reason


def _account(username: str) -> dict[str, Any]:
    return dict(ServiceAccountSerializer(find_service_account(username)).data)
