"""`/api/v1/models/{model}/versions/{number}/plans/`"""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.generics import ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response

from console.api.authentication import actor_of, user_of
from console.api.idempotency import idempotent
from deployments.models import TensorRtPlan
from deployments.rules.fleet import tensorrt
from deployments.selectors.fleet.plans import plan_list, plan_row
from deployments.services.fleet.plans import request_plan
from models_registry.selectors.versions import find_version


class PlanRequestSerializer(serializers.Serializer[Any]):
    # Not a choice field: the service's refusal names what there is.
    precision = serializers.CharField(max_length=20, default=tensorrt.FP16)
    workspace_mib = serializers.IntegerField(
        default=tensorrt.DEFAULT_WORKSPACE_MIB, min_value=1, max_value=2**31 - 1
    )
    node = serializers.CharField(required=False, allow_blank=True, default="", max_length=40)
    environment = serializers.CharField(required=False, allow_blank=True, default="", max_length=40)


class PlanSerializer(serializers.ModelSerializer[TensorRtPlan]):
    model = serializers.CharField(source="version.model.name")
    version = serializers.IntegerField(source="version.number")
    node = serializers.CharField(source="node.name", default=None)
    state = serializers.SerializerMethodField(help_text="built, building, needs_gpu or failed")
    command = serializers.ListField(child=serializers.CharField(), help_text="As for exec.")
    command_line = serializers.SerializerMethodField(help_text="As for a shell.")
    sha256 = serializers.CharField(source="plan.sha256", default=None)
    size = serializers.IntegerField(source="plan.size", default=None)
    job = serializers.UUIDField(source="job_id", allow_null=True)
    requested_by = serializers.CharField(source="requested_by.username")

    class Meta:
        model = TensorRtPlan
        fields: ClassVar[list[str]] = [
            "id",
            "model",
            "version",
            "node",
            "state",
            "detail",
            "profile",
            "command",
            "command_line",
            "sha256",
            "size",
            "job",
            "requested_by",
            "requested_at",
            "built_at",
        ]

    def get_state(self, plan: TensorRtPlan) -> str:
        return plan_row(plan).state

    def get_command_line(self, plan: TensorRtPlan) -> str:
        return plan_row(plan).command


class PlanListView(ListAPIView[TensorRtPlan]):
    required_actions: ClassVar[dict[str, str]] = {"POST": "plan.build"}
    serializer_class = PlanSerializer
    pagination_ordering: ClassVar[tuple[str, ...]] = ("-requested_at", "-pk")
    queryset = TensorRtPlan.objects.none()

    @extend_schema(summary="List a version's TensorRT plans, newest first")
    def get(self, request: Request, name: str, number: int) -> Response:
        page = self.paginate_queryset(plan_list(find_version(name, number, user=user_of(request))))
        return self.get_paginated_response(PlanSerializer(page, many=True).data)

    @extend_schema(
        summary="Ask for a TensorRT plan: built on a GPU node, else only written down",
        request=PlanRequestSerializer,
        responses={201: PlanSerializer},
    )
    @idempotent
    def post(self, request: Request, name: str, number: int) -> Response:
        body = PlanRequestSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        plan = request_plan(
            version=find_version(name, number, user=user_of(request)),
            actor=actor_of(request),
            **body.validated_data,
        )
        shown = plan_list(plan.version).get(pk=plan.pk)
        return Response(PlanSerializer(shown).data, status.HTTP_201_CREATED)
