"""`/api/v1/installation-keys/`: whose signature stands under checkpoints and deployed folders."""

from __future__ import annotations

from typing import ClassVar

from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework import serializers
from rest_framework.generics import ListAPIView

from console.models import InstallationKey


class InstallationKeySerializer(serializers.ModelSerializer[InstallationKey]):
    class Meta:
        model = InstallationKey
        fields: ClassVar[list[str]] = ["keyid", "algorithm", "public_key_pem", "first_used_at"]


@extend_schema_view(get=extend_schema(summary="List the public keys of this installation"))
class InstallationKeyListView(ListAPIView[InstallationKey]):
    serializer_class = InstallationKeySerializer
    pagination_ordering: ClassVar[tuple[str, ...]] = ("-first_used_at", "-pk")
    queryset = InstallationKey.objects.order_by("-first_used_at", "-pk")
