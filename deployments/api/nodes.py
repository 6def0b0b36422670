"""`/api/v1/nodes/`"""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import status
from rest_framework.generics import ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from console.api.authentication import actor_of, user_of
from console.api.idempotency import idempotent
from console.api.serializers import JobSerializer
from deployments.api.serializers import (
    CordonRequestSerializer,
    LoadedSerializer,
    NodeDetailSerializer,
    NodeRequestSerializer,
    NodeSerializer,
    ReconcileRequestSerializer,
)
from deployments.models import Node
from deployments.selectors.fleet.nodes import find_node, node_page
from deployments.services.fleet.live_checks import verify_node
from deployments.services.fleet.nodes import (
    cordon_node,
    reconcile_node,
    register_node,
    uncordon_node,
)


class NodeListView(ListAPIView[Node]):
    required_actions: ClassVar[dict[str, str]] = {"POST": "node.register"}
    serializer_class = NodeSerializer
    pagination_ordering: ClassVar[tuple[str, ...]] = ("name",)
    queryset = Node.objects.prefetch_related("environments")

    @extend_schema(summary="List nodes")
    def get(self, request: Request, *args: object, **kwargs: object) -> Response:
        return self.list(request)

    @extend_schema(
        summary="Register a node, or change its registration",
        request=NodeRequestSerializer,
        responses={201: NodeSerializer},
    )
    @idempotent
    def post(self, request: Request) -> Response:
        body = NodeRequestSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        node = register_node(actor=actor_of(request), **body.validated_data)
        return Response(NodeSerializer(node).data, status=status.HTTP_201_CREATED)


class NodeView(APIView):
    @extend_schema(
        summary="Show a node and what it has loaded against what it should",
        responses=NodeDetailSerializer,
    )
    def get(self, request: Request, node: str) -> Response:
        page = node_page(node, user=user_of(request))
        body: dict[str, Any] = {
            **NodeSerializer(page.node).data,
            "loaded": LoadedSerializer(page.rows, many=True).data,
        }
        return Response(body)


class NodeCordonView(APIView):
    required_actions: ClassVar[dict[str, str]] = {"POST": "node.cordon"}

    @extend_schema(
        summary="Place nothing new on a node",
        request=CordonRequestSerializer,
        responses=NodeSerializer,
    )
    @idempotent
    def post(self, request: Request, node: str) -> Response:
        body = CordonRequestSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        changed = cordon_node(
            node=find_node(node), reason=body.validated_data["reason"], actor=actor_of(request)
        )
        return Response(NodeSerializer(changed).data)


class NodeUncordonView(APIView):
    required_actions: ClassVar[dict[str, str]] = {"POST": "node.cordon"}

    @extend_schema(
        summary="Let a node take placements again", request=None, responses=NodeSerializer
    )
    @idempotent
    def post(self, request: Request, node: str) -> Response:
        changed = uncordon_node(node=find_node(node), actor=actor_of(request))
        return Response(NodeSerializer(changed).data)


class NodeVerifyView(APIView):
    required_actions: ClassVar[dict[str, str]] = {"POST": "node.verify"}

    @extend_schema(
        summary="Have a node compare what it has live with what was signed",
        request=None,
        responses={202: JobSerializer},
    )
    @idempotent
    def post(self, request: Request, node: str) -> Response:
        job = verify_node(node=find_node(node), actor=actor_of(request))
        return Response(JobSerializer(job).data, status=status.HTTP_202_ACCEPTED)


class NodeReconcileView(APIView):
    required_actions: ClassVar[dict[str, str]] = {"POST": "node.cordon"}

    @extend_schema(
        summary="Have a node load what it should, and remove what it should not have",
        request=ReconcileRequestSerializer,
        responses={202: JobSerializer},
    )
    @idempotent
    def post(self, request: Request, node: str) -> Response:
        body = ReconcileRequestSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        job = reconcile_node(node=find_node(node), actor=actor_of(request), **body.validated_data)
        return Response(JobSerializer(job).data, status=status.HTTP_202_ACCEPTED)
