"""The dossier of a version as PDF, and the bill of materials of a release."""

from __future__ import annotations

import uuid

from django.http import HttpResponse
from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.views import APIView

from console.api.authentication import actor_of, user_of
from console.rules.canonical import digest
from deployments.documents.dossiers import dossier_pdf
from models_registry.api.content import AnyAccept, exact_bytes
from models_registry.selectors.releases import find_release
from models_registry.services.boms import release_bom


class DossierView(APIView):
    content_negotiation_class = AnyAccept

    @extend_schema(
        summary="A version's governance dossier as PDF, with the bundles that prove it attached",
        parameters=[OpenApiParameter("lang", str, description="en or zh-hans.")],
        responses={(200, "application/pdf"): OpenApiTypes.BINARY},
    )
    def get(self, request: Request, name: str, number: int) -> HttpResponse:
        data, filename = dossier_pdf(
            name,
            number,
            language=request.query_params.get("lang", ""),
            now=timezone.now(),
            actor=actor_of(request),
        )
        return exact_bytes(
            data, content_type="application/pdf", sha256=digest(data), filename=filename
        )


class ReleaseBomView(APIView):
    content_negotiation_class = AnyAccept

    @extend_schema(
        summary="A release's bill of materials: CycloneDX 1.6 with a model card",
        responses={(200, "application/vnd.cyclonedx+json"): OpenApiTypes.OBJECT},
    )
    def get(self, request: Request, name: str, release_id: uuid.UUID) -> HttpResponse:
        release = find_release(release_id, model_name=name, user=user_of(request))
        data = release_bom(release)
        return exact_bytes(
            data,
            content_type="application/vnd.cyclonedx+json",
            sha256=digest(data),
            filename=f"{name}-v{release.version.number}.cdx.json",
        )
