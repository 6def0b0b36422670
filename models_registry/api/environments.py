"""`/api/v1/environments/`: their policies and freeze windows."""

from __future__ import annotations

from typing import ClassVar

from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework import status
from rest_framework.generics import ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from console.actors import require
from console.api.authentication import actor_of, user_of
from console.api.idempotency import idempotent
from console.api.serializers import ReasonSerializer
from models_registry.api.release_serializers import (
    EnvironmentSerializer,
    FreezeSerializer,
    PolicyPreviewSerializer,
)
from models_registry.api.requests import (
    ChangeEnvironmentSerializer,
    FreezeRequestSerializer,
    SetEnvironmentSerializer,
)
from models_registry.models import Environment, FreezeWindow
from models_registry.rules import approval_documents
from models_registry.selectors.policy_previews import policy_preview
from models_registry.selectors.releases import environment_list, find_environment
from models_registry.services.environments import set_environment
from models_registry.services.freezes import freeze_environment, lift_freeze


class EnvironmentListView(ListAPIView[Environment]):
    serializer_class = EnvironmentSerializer
    required_actions: ClassVar[dict[str, str]] = {"POST": "environment.change"}
    pagination_ordering: ClassVar[tuple[str, ...]] = ("name",)
    queryset = Environment.objects.none()

    @extend_schema(summary="List environments and their policies")
    def get(self, request: Request) -> Response:
        page = self.paginate_queryset(environment_list())
        return self.get_paginated_response(EnvironmentSerializer(page, many=True).data)

    @extend_schema(
        summary="Make an environment, or change what is given of one",
        request=SetEnvironmentSerializer,
        responses={201: EnvironmentSerializer},
    )
    @idempotent
    def post(self, request: Request) -> Response:
        body = SetEnvironmentSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        environment = set_environment(**body.validated_data, actor=actor_of(request))
        return Response(
            EnvironmentSerializer(find_environment(environment.name)).data, status.HTTP_201_CREATED
        )


class EnvironmentView(APIView):
    required_actions: ClassVar[dict[str, str]] = {"PATCH": "environment.change"}

    @extend_schema(summary="Show an environment", responses=EnvironmentSerializer)
    def get(self, request: Request, name: str) -> Response:
        return Response(EnvironmentSerializer(find_environment(name)).data)

    @extend_schema(
        summary="Change an environment's policy",
        request=ChangeEnvironmentSerializer,
        responses=EnvironmentSerializer,
    )
    def patch(self, request: Request, name: str) -> Response:
        body = ChangeEnvironmentSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        environment = set_environment(
            name=find_environment(name).name, **body.validated_data, actor=actor_of(request)
        )
        return Response(EnvironmentSerializer(find_environment(environment.name)).data)


class ApprovalPolicySchemaView(APIView):
    @extend_schema(
        summary="The JSON Schema (2020-12) of an environment's policy",
        responses=OpenApiTypes.OBJECT,
    )
    def get(self, request: Request) -> Response:
        return Response(approval_documents.schema())


class PolicyPreviewView(APIView):
    required_actions: ClassVar[dict[str, str]] = {"POST": "environment.change"}

    @extend_schema(
        summary="What a policy would mean for open releases; changes nothing",
        request=ChangeEnvironmentSerializer,
        responses=PolicyPreviewSerializer,
    )
    def post(self, request: Request, name: str) -> Response:
        require(actor_of(request), "environment.change")
        body = ChangeEnvironmentSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        found = policy_preview(
            find_environment(name),
            body.validated_data,
            user=user_of(request),
            now=timezone.now(),
        )
        answer = {
            "policy": [rule.words() for rule in found.rules],
            "weaker": found.weaker,
            "impossible": found.impossible,
            "releases": [
                {
                    "release": row.release.pk,
                    "subject": str(row.release),
                    "state": row.release.state,
                    "missing": row.missing,
                }
                for row in found.rows
            ],
        }
        return Response(PolicyPreviewSerializer(answer).data)


class FreezeListView(ListAPIView[FreezeWindow]):
    serializer_class = FreezeSerializer
    required_actions: ClassVar[dict[str, str]] = {"POST": "environment.freeze"}
    pagination_ordering: ClassVar[tuple[str, ...]] = ("-starts_at", "-pk")
    queryset = FreezeWindow.objects.none()

    @extend_schema(summary="List an environment's freeze windows, lifted ones as well")
    def get(self, request: Request, name: str) -> Response:
        windows = FreezeWindow.objects.filter(environment=find_environment(name))
        page = self.paginate_queryset(windows.select_related("environment", "created_by"))
        return self.get_paginated_response(FreezeSerializer(page, many=True).data)

    @extend_schema(
        summary="Freeze an environment: nothing new is deployed meanwhile",
        request=FreezeRequestSerializer,
        responses={201: FreezeSerializer},
    )
    @idempotent
    def post(self, request: Request, name: str) -> Response:
        body = FreezeRequestSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        window = freeze_environment(
            environment=find_environment(name), **body.validated_data, actor=actor_of(request)
        )
        return Response(FreezeSerializer(window).data, status.HTTP_201_CREATED)


class FreezeLiftView(APIView):
    required_actions: ClassVar[dict[str, str]] = {"POST": "environment.freeze"}

    @extend_schema(
        summary="Lift a freeze window", request=ReasonSerializer, responses=FreezeSerializer
    )
    @idempotent
    def post(self, request: Request, name: str, freeze_id: int) -> Response:
        body = ReasonSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        window = lift_freeze(
            environment=find_environment(name),
            freeze_id=freeze_id,
            reason=body.validated_data["reason"],
            actor=actor_of(request),
        )
        return Response(FreezeSerializer(window).data)
