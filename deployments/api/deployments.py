"""`/api/v1/deployments/`"""

from __future__ import annotations

import uuid
from typing import ClassVar

from django.http import HttpResponse, JsonResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import status
from rest_framework.generics import ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from console.api.authentication import actor_of, user_of
from console.api.idempotency import idempotent
from deployments.api.serializers import (
    DeploymentSerializer,
    DeployRequestSerializer,
    RemoveRequestSerializer,
)
from deployments.models import Deployment
from deployments.selectors.fleet.deployments import (
    deployment_list,
    find_deployment,
    find_signed_placement,
)
from deployments.services.fleet.deploys import deploy_release, remove_deployment


class DeploymentListView(ListAPIView[Deployment]):
    required_actions: ClassVar[dict[str, str]] = {"POST": "deployment.create"}
    serializer_class = DeploymentSerializer
    pagination_ordering: ClassVar[tuple[str, ...]] = ("-created_at", "-pk")
    queryset = Deployment.objects.none()

    @extend_schema(
        summary="List deployments, newest first",
        parameters=[
            OpenApiParameter("model", str),
            OpenApiParameter("environment", str),
            OpenApiParameter("version", int),
            OpenApiParameter("all", bool, description="Those that were removed as well."),
        ],
    )
    def get(self, request: Request, *args: object, **kwargs: object) -> Response:
        given = request.query_params
        found = deployment_list(
            model=given.get("model", ""),
            environment=given.get("environment", ""),
            version=given.get("version", ""),
            removed=given.get("all", "").lower() in ("1", "true", "yes"),
            user=user_of(request),
        )
        page = self.paginate_queryset(found)
        return self.get_paginated_response(self.get_serializer(page, many=True).data)

    @extend_schema(
        summary="Deploy an approved release to nodes of its environment",
        request=DeployRequestSerializer,
        responses={201: DeploymentSerializer},
    )
    @idempotent
    def post(self, request: Request) -> Response:
        body = DeployRequestSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        deployment = deploy_release(
            release_id=body.validated_data["release"],
            nodes=body.validated_data.get("nodes"),
            actor=actor_of(request),
        )
        return Response(
            DeploymentSerializer(find_deployment(deployment.pk, user=user_of(request))).data,
            status=status.HTTP_201_CREATED,
        )


class FolderSignatureView(APIView):
    @extend_schema(
        summary="The OpenSSF model-signing signature of a deployed folder",
        responses={(200, "application/json"): OpenApiTypes.OBJECT},
    )
    def get(self, request: Request, deployment_id: uuid.UUID, node: str) -> HttpResponse:
        placement = find_signed_placement(
            find_deployment(deployment_id, user=user_of(request)), node
        )
        answer = JsonResponse(placement.folder_signature)
        version = placement.deployment.release.version
        name = f"{version.model.name}-{version.number}-{node}.sig"
        answer["Content-Disposition"] = f'attachment; filename="{name}"'
        return answer


class DeploymentView(APIView):
    required_actions: ClassVar[dict[str, str]] = {"DELETE": "deployment.remove"}

    @extend_schema(summary="Show a deployment with its nodes", responses=DeploymentSerializer)
    def get(self, request: Request, deployment_id: uuid.UUID) -> Response:
        return Response(
            DeploymentSerializer(find_deployment(deployment_id, user=user_of(request))).data
        )

    @extend_schema(
        summary="Drain a deployment and unload it from its nodes",
        parameters=[RemoveRequestSerializer],
        responses={202: DeploymentSerializer},
    )
    def delete(self, request: Request, deployment_id: uuid.UUID) -> Response:
        # Many clients send no body with DELETE, so the query may carry the same.
        body = RemoveRequestSerializer(data=request.data or request.query_params.dict())
        body.is_valid(raise_exception=True)
        remove_deployment(
            deployment=find_deployment(deployment_id, user=user_of(request)),
            actor=actor_of(request),
            **body.validated_data,
        )
        return Response(
            DeploymentSerializer(find_deployment(deployment_id, user=user_of(request))).data,
            status=status.HTTP_202_ACCEPTED,
        )
