"""`/api/v1/uploads/`: tus 1.0.0 with creation, checksum, termination and expiration.

https://tus.io/protocols/resumable-upload
"""

from __future__ import annotations

import base64
import binascii
import uuid
from typing import Any, ClassVar

from django.conf import settings
from django.utils.http import http_date
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import status
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from console.api.authentication import actor_of
from console.api.problems import problem
from console.errors import FieldError, Invalid
from models_registry.api.content import AnyAccept
from models_registry.api.serializers import UploadSerializer
from models_registry.models import Upload
from models_registry.services import uploads
from models_registry.services.upload_files import CHECKSUMS, Checksum

VERSION = "1.0.0"
CONTENT_TYPE = "application/offset+octet-stream"
EXTENSIONS = "creation,creation-with-upload,checksum,termination,expiration"
# More than a chunk in flight; beyond it the connection is closed rather than read to its end.
DRAIN_BYTES = 64 * 1024**2

TUS = OpenApiParameter("Tus-Resumable", str, OpenApiParameter.HEADER, required=True)
OFFSET = OpenApiParameter("Upload-Offset", int, OpenApiParameter.HEADER, required=True)
CHECKSUM = OpenApiParameter("Upload-Checksum", str, OpenApiParameter.HEADER)


class TusView(APIView):
    """The protocol's headers on every answer, and its version on every request."""

    content_negotiation_class = AnyAccept

    def get_permissions(self) -> Any:
        return [AllowAny()] if self.request.method == "OPTIONS" else super().get_permissions()

    def options(  # type: ignore[override] # DRF hands its own Request in
        self, request: Request, *args: object, **kwargs: object
    ) -> Response:
        headers = {
            "Tus-Version": VERSION,
            "Tus-Extension": EXTENSIONS,
            "Tus-Max-Size": str(settings.MAX_UPLOAD_BYTES),
            "Tus-Checksum-Algorithm": ",".join(CHECKSUMS),
        }
        return Response(status=status.HTTP_204_NO_CONTENT, headers=headers)

    def handle_exception(self, exc: Exception) -> Response:
        # A body that nobody reads would make the server cut the connection, answer and all.
        if self.request.method in ("POST", "PATCH"):
            _drain(self.request)
        return super().handle_exception(exc)

    def finalize_response(self, request: Request, response: Any, *args: Any, **kwargs: Any) -> Any:
        response = super().finalize_response(request, response, *args, **kwargs)
        response["Tus-Resumable"] = VERSION
        response["Cache-Control"] = "no-store"
        return response


class UploadListView(TusView):
    required_actions: ClassVar[dict[str, str]] = {"POST": "upload.create"}

    @extend_schema(
        summary="Begin an upload (tus creation)",
        parameters=[
            TUS,
            OpenApiParameter("Upload-Length", int, OpenApiParameter.HEADER, required=True),
            OpenApiParameter(
                "Upload-Metadata",
                str,
                OpenApiParameter.HEADER,
                description="filename, and optionally sha256, their values in base64.",
            ),
            CHECKSUM,
        ],
        request={CONTENT_TYPE: OpenApiTypes.BINARY},
        responses={201: UploadSerializer},
    )
    def post(self, request: Request) -> Response:
        if (wrong := _wrong_version(request)) is not None:
            return wrong
        metadata = _metadata(request.headers.get("Upload-Metadata", ""))
        upload = uploads.create_upload(
            filename=metadata.get("filename") or metadata.get("name") or "model",
            length=_number(request, "Upload-Length"),
            sha256=metadata.get("sha256", ""),
            actor=actor_of(request),
        )
        if _has_chunk(request):
            upload = _receive(request, upload.pk, 0)
        headers = {**_state(upload), "Location": f"/api/v1/uploads/{upload.pk}"}
        return Response(UploadSerializer(upload).data, status.HTTP_201_CREATED, headers=headers)


class UploadView(TusView):
    required_actions: ClassVar[dict[str, str]] = {
        "PATCH": "upload.create",
        "DELETE": "upload.create",
    }

    @extend_schema(summary="Show an upload", responses=UploadSerializer)
    def get(self, request: Request, upload_id: uuid.UUID) -> Response:
        upload = uploads.find_upload(upload_id=upload_id, actor=actor_of(request))
        return Response(UploadSerializer(upload).data, headers=_state(upload))

    @extend_schema(summary="Where to go on (tus)", parameters=[TUS], responses={200: None})
    def head(self, request: Request, upload_id: uuid.UUID) -> Response:
        if (wrong := _wrong_version(request)) is not None:
            return wrong
        upload = uploads.find_upload(upload_id=upload_id, actor=actor_of(request))
        name = base64.b64encode(upload.filename.encode()).decode()
        return Response(headers={**_state(upload), "Upload-Metadata": f"filename {name}"})

    @extend_schema(
        summary="Send bytes (tus)",
        parameters=[TUS, OFFSET, CHECKSUM],
        request={CONTENT_TYPE: OpenApiTypes.BINARY},
        responses={204: None},
    )
    def patch(self, request: Request, upload_id: uuid.UUID) -> Response:
        if (wrong := _wrong_version(request)) is not None:
            return wrong
        if not _has_chunk(request):
            return problem(
                status_code=status.HTTP_415_UNSUPPORTED_MEDIA_TYPE,
                code="wrong_content_type",
                detail=f"A chunk has the content type {CONTENT_TYPE}.",
                hint="Send the bytes as they are, with that content type.",
            )
        upload = _receive(request, upload_id, _number(request, "Upload-Offset"))
        return Response(status=status.HTTP_204_NO_CONTENT, headers=_state(upload))

    @extend_schema(summary="Give an upload up (tus)", parameters=[TUS], responses={204: None})
    def delete(self, request: Request, upload_id: uuid.UUID) -> Response:
        if (wrong := _wrong_version(request)) is not None:
            return wrong
        uploads.terminate_upload(upload_id=upload_id, actor=actor_of(request))
        return Response(status=status.HTTP_204_NO_CONTENT)


def _receive(request: Request, upload_id: uuid.UUID, offset: int) -> Upload:
    header = request.headers.get("Upload-Checksum", "")
    return uploads.receive(
        upload_id=upload_id,
        offset=offset,
        source=request._request,
        checksum=Checksum.parse(header) if header else None,
        actor=actor_of(request),
    )


def _state(upload: Upload) -> dict[str, str]:
    headers = {
        "Upload-Offset": str(upload.offset),
        "Upload-Length": str(upload.length),
        "Upload-Expires": http_date(upload.expires_at.timestamp()),
    }
    if upload.artifact is not None:
        headers["Upload-Sha256"] = upload.artifact.sha256
        headers["Upload-Format"] = upload.detected_format
    return headers


def _wrong_version(request: Request) -> Response | None:
    given = request.headers.get("Tus-Resumable", "")
    if given == VERSION:
        return None
    _drain(request)
    response = problem(
        status_code=status.HTTP_412_PRECONDITION_FAILED,
        code="tus_version",
        detail=f"This server speaks tus {VERSION}, the request says “{given[:20]}”.",
        hint=f"Send the header Tus-Resumable: {VERSION}.",
    )
    response["Tus-Version"] = VERSION
    return response


def _has_chunk(request: Request) -> bool:
    return (request.content_type or "").split(";")[0].strip() == CONTENT_TYPE


def _number(request: Request, header: str) -> int:
    given = request.headers.get(header, "")
    if not given.isascii() or not given.isdigit() or len(given) > 18:
        raise Invalid(
            f"The header {header} is missing or not a whole number.",
            code="bad_header",
            hint=f"Send {header} in bytes.",
            errors=(FieldError("", f"{header}: {given[:20] or 'missing'}"),),
        )
    return int(given)


def _metadata(header: str) -> dict[str, str]:
    """tus: `key base64,key base64`. Raises Invalid for what is not that."""
    found: dict[str, str] = {}
    for pair in filter(None, (part.strip() for part in header.split(","))):
        key, _, encoded = pair.partition(" ")
        try:
            found[key] = base64.b64decode(encoded, validate=True).decode("utf-8")
        except (binascii.Error, ValueError) as error:
            raise Invalid(
                f"Upload-Metadata: the value of {key[:40]} is not base64 of UTF-8 text.",
                code="bad_metadata",
                hint="Send filename and sha256, each followed by its value in base64.",
            ) from error
    return found


def _drain(request: Request) -> None:
    left = DRAIN_BYTES
    try:
        while left > 0 and (piece := request._request.read(65536)):
            left -= len(piece)
    except OSError:
        return
