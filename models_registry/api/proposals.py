"""`/api/v1/uploads/{id}/proposal/`"""

from __future__ import annotations

import uuid
from typing import ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from console.api.authentication import actor_of
from models_registry.api.requests import ProposalRequestSerializer
from models_registry.api.serializers import ProposalSerializer
from models_registry.services.proposals import propose_inputs


class ProposalView(APIView):
    required_actions: ClassVar[dict[str, str]] = {"POST": "upload.create"}

    @extend_schema(
        summary="Propose inputs and outputs for an upload, read and tried out in the sandbox",
        request=ProposalRequestSerializer,
        responses=ProposalSerializer,
    )
    def post(self, request: Request, upload_id: uuid.UUID) -> Response:
        body = ProposalRequestSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        wanted = body.validated_data
        found = propose_inputs(
            upload_id=upload_id,
            code_upload_id=wanted.get("code_upload"),
            sample_upload_id=wanted.get("sample_upload"),
            module_entry=wanted["module_entry"],
            module_arguments=wanted["module_arguments"],
            actor=actor_of(request),
        )
        return Response(ProposalSerializer({"beside": [], **found}).data)
