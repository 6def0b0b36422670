"""`/api/v1/models/{model}/versions/`"""

from __future__ import annotations

from typing import ClassVar

from django.http import HttpResponse
from django.http.response import HttpResponseBase
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import status
from rest_framework.generics import ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from console.api.authentication import actor_of, user_of
from console.api.idempotency import idempotent
from console.api.serializers import ReasonSerializer
from console.errors import NotFound
from models_registry.api.content import AnyAccept, download, exact_bytes
from models_registry.api.requests import CreateVersionSerializer
from models_registry.api.serializers import (
    CreatedVersionSerializer,
    VersionSerializer,
    VersionSummarySerializer,
)
from models_registry.models import ModelVersion
from models_registry.rules import report_diff
from models_registry.selectors.catalog import find_model
from models_registry.selectors.versions import (
    find_file,
    find_version,
    other_version,
    report_of,
    version_list,
)
from models_registry.services.artifacts import read_bytes
from models_registry.services.contracts import propose_document
from models_registry.services.versions import archive_version, create_version


class VersionListView(ListAPIView[ModelVersion]):
    serializer_class = VersionSummarySerializer
    required_actions: ClassVar[dict[str, str]] = {"POST": "version.create"}
    pagination_ordering: ClassVar[tuple[str, ...]] = ("-number",)
    queryset = ModelVersion.objects.none()

    @extend_schema(
        summary="List a model's versions, newest first",
        parameters=[
            OpenApiParameter("state", str),
            OpenApiParameter("q", str, description="In the notes."),
        ],
    )
    def get(self, request: Request, name: str) -> Response:
        find_model(name, user=user_of(request))
        state, q = request.query_params.get("state", ""), request.query_params.get("q", "")
        page = self.paginate_queryset(version_list(name, state=state, q=q, user=user_of(request)))
        return self.get_paginated_response(VersionSummarySerializer(page, many=True).data)

    @extend_schema(
        summary="Create the next version from an upload; its export begins at once",
        request=CreateVersionSerializer,
        responses={201: CreatedVersionSerializer},
    )
    @idempotent
    def post(self, request: Request, name: str) -> Response:
        body = CreateVersionSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        wanted = body.validated_data
        sample = wanted.pop("sample", None)
        sample_upload = wanted.pop("sample_upload", None)
        version, _ = create_version(
            model=find_model(name, user=user_of(request)),
            upload_id=wanted.pop("upload"),
            code_upload_id=wanted.pop("code_upload", None),
            data_upload_ids=wanted.pop("data_uploads"),
            sample=sample if sample is not None else sample_upload,
            **wanted,
            actor=actor_of(request),
        )
        shown = find_version(name, version.number, user=user_of(request))
        return Response(CreatedVersionSerializer(shown).data, status.HTTP_201_CREATED)


class VersionView(APIView):
    @extend_schema(summary="Show a version", responses=VersionSerializer)
    def get(self, request: Request, name: str, number: int) -> Response:
        return Response(VersionSerializer(find_version(name, number, user=user_of(request))).data)


class VersionArchiveView(APIView):
    required_actions: ClassVar[dict[str, str]] = {"POST": "version.archive"}

    @extend_schema(
        summary="Archive a version", request=ReasonSerializer, responses=VersionSerializer
    )
    @idempotent
    def post(self, request: Request, name: str, number: int) -> Response:
        body = ReasonSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        version = find_version(name, number, user=user_of(request))
        archive_version(
            version=version, reason=body.validated_data["reason"], actor=actor_of(request)
        )
        return Response(VersionSerializer(find_version(name, number, user=user_of(request))).data)


class VersionReportView(APIView):
    @extend_schema(summary="The validation report", responses=OpenApiTypes.OBJECT)
    def get(self, request: Request, name: str, number: int) -> Response:
        return Response(report_of(find_version(name, number, user=user_of(request))))


class ReportDiffView(APIView):
    @extend_schema(
        summary="The validation report beside that of another version, check by check",
        parameters=[
            OpenApiParameter(
                "against", int, description="A version's number; the one before when left out."
            )
        ],
        responses=OpenApiTypes.OBJECT,
    )
    def get(self, request: Request, name: str, number: int) -> Response:
        version = find_version(name, number, user=user_of(request))
        other = other_version(
            version, request.query_params.get("against", ""), user=user_of(request)
        )
        found = report_diff.diff(report_of(other), report_of(version))
        return Response({"before": other.number, "after": number, **found.to_json()})


class VersionConfigView(APIView):
    content_negotiation_class = AnyAccept

    @extend_schema(
        summary="The rendered config.pbtxt, as it is signed",
        responses={(200, "text/plain"): OpenApiTypes.STR},
    )
    def get(self, request: Request, name: str, number: int) -> HttpResponse:
        version = find_version(name, number, user=user_of(request))
        if version.config is None:
            raise NotFound(
                f"{version} has no configuration yet.",
                code="no_config",
                hint="It is rendered once the version is validated.",
            )
        return exact_bytes(
            read_bytes(version.config),
            content_type="text/plain; charset=utf-8",
            sha256=version.config.sha256,
            filename="config.pbtxt",
        )


class VersionFileView(APIView):
    content_negotiation_class = AnyAccept

    @extend_schema(
        summary="Download one of a version's files",
        parameters=[
            OpenApiParameter(
                "file",
                str,
                OpenApiParameter.PATH,
                description="source, code, onnx, onnx_data, config, report, sample, replay, or "
                "data:NAME for a file beside the source; a version's `files` lists what it has.",
            )
        ],
        responses={(200, "application/octet-stream"): OpenApiTypes.BINARY},
    )
    def get(self, request: Request, name: str, number: int, file: str) -> HttpResponseBase:
        return download(request, find_file(find_version(name, number, user=user_of(request)), file))


class ContractProposalView(APIView):
    @extend_schema(
        summary="A contract document to start from, by this version's interface and latency",
        responses=OpenApiTypes.OBJECT,
    )
    def get(self, request: Request, name: str, number: int) -> Response:
        return Response(propose_document(find_version(name, number, user=user_of(request))))
