"""`/api/v1/memory-growth/`: GPUs whose memory only grows."""

from __future__ import annotations

from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from console.api.authentication import user_of
from deployments.selectors.fleet.memory_growth import leaks


class LeakSerializer(serializers.Serializer[object]):
    """A GPU that loses memory; `full_at` is when it is used up if that goes on."""

    node = serializers.CharField()
    device = serializers.CharField()
    bytes_per_hour = serializers.FloatField(source="growth.bytes_per_hour")
    since = serializers.DateTimeField(source="growth.since", allow_null=True)
    r_squared = serializers.FloatField(source="growth.r_squared")
    used_bytes = serializers.FloatField(source="used")
    free_bytes = serializers.FloatField(source="free", allow_null=True)
    full_at = serializers.DateTimeField(allow_null=True)
    versions = serializers.ListField(child=serializers.CharField())


class MemoryGrowthSerializer(serializers.Serializer[object]):
    results = LeakSerializer(many=True)


class MemoryGrowthView(APIView):
    @extend_schema(
        summary="GPUs whose memory only grows, the one that is full first in front",
        responses=MemoryGrowthSerializer,
    )
    def get(self, request: Request) -> Response:
        found = leaks(timezone.now(), user=user_of(request))
        return Response(MemoryGrowthSerializer({"results": found}).data)
