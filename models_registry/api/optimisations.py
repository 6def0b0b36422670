"""`/api/v1/models/{model}/versions/{number}/optimisations/`"""

from __future__ import annotations

from typing import ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from console.api.authentication import actor_of, user_of
from console.api.idempotency import idempotent
from models_registry.api.requests import OptimiseSerializer
from models_registry.api.serializers import CreatedVersionSerializer
from models_registry.selectors.versions import find_version
from models_registry.services.optimisations import optimise_version


class OptimisationsView(APIView):
    required_actions: ClassVar[dict[str, str]] = {"POST": "version.create"}

    @extend_schema(
        summary="Make a lighter variant of a validated version, as a new version of the model",
        request=OptimiseSerializer,
        responses={201: CreatedVersionSerializer},
    )
    @idempotent
    def post(self, request: Request, name: str, number: int) -> Response:
        body = OptimiseSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        version, _ = optimise_version(
            version=find_version(name, number, user=user_of(request)),
            actor=actor_of(request),
            **body.validated_data,
        )
        shown = find_version(name, version.number, user=user_of(request))
        return Response(CreatedVersionSerializer(shown).data, status.HTTP_201_CREATED)
