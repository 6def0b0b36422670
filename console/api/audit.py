"""`/api/v1/audit/`: the trail, its checks, its checkpoints and its export."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, ClassVar

from django.http import StreamingHttpResponse
from django.utils.dateparse import parse_date, parse_datetime
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.generics import ListAPIView
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from console.actors import require
from console.api.audit_serializers import ChainSerializer, CheckpointSerializer
from console.api.authentication import actor_of
from console.api.serializers import AuditEntrySerializer, JobSerializer
from console.api.streams import streamed_file
from console.errors import Conflict, FieldError, Invalid
from console.models import AuditCheckpoint, AuditEntry, AuditHead
from console.selectors.audit import AuditFilter, audit_entries, checkpoints
from console.services.audit_checks import (
    AT_ONCE,
    checkpoint_now,
    request_verification,
    verify_chain,
)
from console.services.audit_exports import FORMATS, export

FILTERS = [
    OpenApiParameter("actor", str, description="Username."),
    OpenApiParameter("action", str, description="What the action starts with."),
    OpenApiParameter("subject", str, description="What the subject starts with."),
    OpenApiParameter("outcome", str, enum=["denied"], description="Only what was refused."),
    OpenApiParameter("request_id", str, description="X-Request-ID of the request."),
    OpenApiParameter("from", str, description="RFC 3339 time or date, included."),
    OpenApiParameter("to", str, description="RFC 3339 time or date, not included."),
]


@extend_schema(summary="List the audit trail, newest first", parameters=FILTERS)
class AuditListView(ListAPIView[AuditEntry]):
    serializer_class = AuditEntrySerializer
    pagination_ordering: tuple[str, ...] = ("-sequence",)
    queryset = AuditEntry.objects.none()

    def list(self, request: Request, *args: object, **kwargs: object) -> Response:
        require(actor_of(request), "audit.read")
        wanted = read_filter(request.query_params)
        self.pagination_ordering = wanted.ordering
        page = self.paginate_queryset(audit_entries(wanted, user=actor_of(request).user))
        return self.get_paginated_response(self.get_serializer(page, many=True).data)


class AuditVerifyView(APIView):
    required_actions: ClassVar[dict[str, str]] = {"GET": "audit.read", "POST": "audit.read"}

    @extend_schema(
        summary="Check the chain now: all of a short one, else since its last checkpoint",
        responses=ChainSerializer,
    )
    def get(self, request: Request) -> Response:
        require(actor_of(request), "audit.read")
        head = AuditHead.objects.filter(id=1).first() or AuditHead()
        report = verify_chain(full=head.sequence - head.kept_after <= AT_ONCE)
        return Response(ChainSerializer(report.to_json()).data)

    @extend_schema(
        summary="Ask for a check of the whole chain, as a job whose result is the same report",
        request=None,
        responses={202: JobSerializer},
    )
    def post(self, request: Request) -> Response:
        job = request_verification(actor=actor_of(request))
        return Response(JobSerializer(job).data, status=202)


class AuditCheckpointsView(ListAPIView[AuditCheckpoint]):
    required_actions: ClassVar[dict[str, str]] = {"GET": "audit.read", "POST": "audit.manage"}
    serializer_class = CheckpointSerializer
    pagination_ordering: tuple[str, ...] = ("-sequence",)
    queryset = AuditCheckpoint.objects.none()

    @extend_schema(summary="List the signed checkpoints, newest first")
    def get(self, request: Request, *args: object, **kwargs: object) -> Response:
        page = self.paginate_queryset(checkpoints())
        return self.get_paginated_response(CheckpointSerializer(page, many=True).data)

    @extend_schema(
        summary="Sign how the chain stands now", request=None, responses={201: CheckpointSerializer}
    )
    def post(self, request: Request) -> Response:
        made = checkpoint_now(actor=actor_of(request))
        if made is None:
            raise Conflict(
                "Nothing was written since the last checkpoint.",
                code="nothing_to_sign",
                hint="The last one vouches for all that there is.",
            )
        return Response(CheckpointSerializer(made).data, status=201)


class AnyAccept(BaseContentNegotiation):
    """A file has the form that was asked for, whatever the caller says that it accepts."""

    def select_parser(self, request: Request, parsers: Any) -> Any:
        return parsers[0]

    def select_renderer(
        self, request: Request, renderers: Any, format_suffix: str | None = None
    ) -> Any:
        return renderers[0], renderers[0].media_type


class AuditExportView(APIView):
    content_negotiation_class = AnyAccept
    required_actions: ClassVar[dict[str, str]] = {"GET": "audit.export"}

    @extend_schema(
        summary="The trail as a file, oldest first; the export is an entry itself",
        parameters=[
            *FILTERS,
            OpenApiParameter("as", str, enum=list(FORMATS), description="jsonl by default."),
            OpenApiParameter("gz", bool, description="Compressed by gzip."),
            OpenApiParameter("bom", bool, description="CSV with a byte order mark, for Excel."),
        ],
        responses={
            (200, "application/x-ndjson"): OpenApiTypes.STR,
            (200, "text/csv"): OpenApiTypes.STR,
        },
    )
    def get(self, request: Request) -> StreamingHttpResponse:
        asked = request.query_params
        form = asked.get("as", "jsonl")
        if form not in FORMATS:
            raise Invalid(
                f"“{form[:40]}” is no form of an export.",
                code="unknown_format",
                hint=f"Forms are {', '.join(FORMATS)}.",
                errors=(FieldError("/as", "Not known."),),
            )
        file = export(
            wanted=read_filter(asked),
            form=form,
            gz=is_yes(asked.get("gz", "")),
            bom=is_yes(asked.get("bom", "")),
            actor=actor_of(request),
        )
        return streamed_file(
            request._request, file.chunks, name=file.name, content_type=file.content_type
        )


def read_filter(asked: Mapping[str, str]) -> AuditFilter:
    """The filter of a query string; raises Invalid for a time that is none."""
    return AuditFilter(
        actor=asked.get("actor", ""),
        action=asked.get("action", ""),
        subject=asked.get("subject", ""),
        outcome=asked.get("outcome", ""),
        request_id=asked.get("request_id", ""),
        since=_time(asked.get("from", ""), "from"),
        until=_time(asked.get("to", ""), "to"),
    )


def is_yes(text: str) -> bool:
    """Whether a parameter says yes."""
    return text.lower() in {"1", "true", "yes", "on"}


def _time(text: str, name: str) -> datetime | None:
    if not text:
        return None
    try:
        # A plus sign that was not escaped arrives as a space.
        moment = parse_datetime(text.replace(" ", "+"))
        day = parse_date(text) if moment is None else None
        if moment is None and day is not None:
            moment = datetime(day.year, day.month, day.day, tzinfo=UTC)
        if moment is not None:
            # In UTC: the database knows no offset of 16 hours or more.
            moment = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        moment = None
    if moment is None:
        raise Invalid(
            f"“{text}” is not a time.",
            hint="Use RFC 3339, as in 2026-01-31T09:00:00Z.",
            errors=(FieldError(f"/{name}", "Not a time or date."),),
        )
    return moment
