"""What is measured of machines: `nodes/…/machine/`, `nodes/…/charts/`, `gpu-fields/`."""

from __future__ import annotations

from typing import Any

from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from console.api.authentication import user_of
from console.errors import Unavailable
from deployments.rules.fleet.gpu_fields import FIELDS
from deployments.selectors.fleet.machine_charts import machine_chart
from deployments.selectors.fleet.machine_pages import machine_now
from deployments.selectors.fleet.nodes import find_node, served_on


class FigureSerializer(serializers.Serializer[Any]):
    value = serializers.FloatField()
    unit = serializers.CharField(source="about.unit", allow_blank=True)
    level = serializers.CharField(help_text="good, warn (watch) or bad (act).")


class GpuSerializer(serializers.Serializer[Any]):
    device = serializers.CharField()
    model = serializers.CharField(allow_blank=True)
    uuid = serializers.CharField(allow_blank=True)
    driver = serializers.CharField(allow_blank=True)
    level = serializers.CharField()
    reasons = serializers.ListField(child=serializers.CharField())
    figures = serializers.DictField(child=FigureSerializer())


class NodeVersionSerializer(serializers.Serializer[Any]):
    triton_model = serializers.CharField()
    version = serializers.IntegerField()
    serves = serializers.ListField(child=serializers.CharField(), source="served")
    figures = serializers.DictField(child=FigureSerializer())


class MachineSerializer(serializers.Serializer[Any]):
    at = serializers.DateTimeField()
    gpu_source = serializers.CharField(allow_blank=True)
    host_source = serializers.CharField(allow_blank=True)
    why_no_gpus = serializers.CharField(allow_blank=True)
    faults = serializers.DictField(child=serializers.CharField())
    gpus = GpuSerializer(many=True)
    host = serializers.DictField(child=FigureSerializer())
    versions = NodeVersionSerializer(many=True)


class GpuFieldSerializer(serializers.Serializer[Any]):
    dcgm = serializers.CharField()
    number = serializers.IntegerField()
    series = serializers.CharField()
    unit = serializers.CharField(allow_blank=True)
    group = serializers.CharField()
    title = serializers.CharField()
    meaning = serializers.CharField()
    why = serializers.CharField()
    warn = serializers.FloatField(allow_null=True)
    bad = serializers.FloatField(allow_null=True)
    below = serializers.BooleanField()
    bad_values = serializers.ListField(child=serializers.IntegerField())


class GpuFieldsSerializer(serializers.Serializer[Any]):
    results = GpuFieldSerializer(many=True)


class NodeMachineView(APIView):
    @extend_schema(
        summary="What was last measured of a node's GPUs, its host, and the versions on it",
        responses=MachineSerializer,
    )
    def get(self, request: Request, node: str) -> Response:
        found = find_node(node)
        machine = machine_now(node, served=served_on(found, user=user_of(request)))
        if machine is None:
            raise Unavailable(
                f"Nothing was measured of {node} within the last half minute.",
                code="not_measured",
                hint="Check that the collector runs: manage.py status.",
            )
        return Response(MachineSerializer(machine).data)


class NodeChartView(APIView):
    @extend_schema(
        summary="One chart of the node's page",
        parameters=[OpenApiParameter("window", str, description="10m, 1h, 6h, 24h.")],
        responses=OpenApiTypes.OBJECT,
    )
    def get(self, request: Request, node: str, name: str) -> Response:
        found = find_node(node)
        user = user_of(request)
        return Response(
            machine_chart(
                found,
                name,
                window=request.query_params.get("window", "10m"),
                now=timezone.now(),
                user=user,
                served=served_on(found, user=user),
            )
        )


class GpuFieldListView(APIView):
    @extend_schema(
        summary="The 27 fields that are measured of GPUs, with their limits",
        responses=GpuFieldsSerializer,
    )
    def get(self, request: Request) -> Response:
        return Response(GpuFieldsSerializer({"results": FIELDS}).data)
