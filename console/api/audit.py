"""`/api/v1/audit/`"""

from __future__ import annotations

from datetime import UTC, datetime

from django.utils.dateparse import parse_date, parse_datetime
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.generics import ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from console.actors import require
from console.api.authentication import actor_of
from console.api.serializers import AuditEntrySerializer, ChainSerializer
from console.errors import FieldError, Invalid
from console.models import AuditEntry, AuditHead
from console.selectors.audit import AuditFilter, audit_entries
from console.services.audit import verify_chain


@extend_schema(
    summary="List the audit trail, newest first",
    parameters=[
        OpenApiParameter("actor", str, description="Username."),
        OpenApiParameter("action", str, description="What the action starts with."),
        OpenApiParameter("subject", str, description="What the subject starts with."),
        OpenApiParameter("from", str, description="RFC 3339 time or date, included."),
        OpenApiParameter("to", str, description="RFC 3339 time or date, not included."),
    ],
)
class AuditListView(ListAPIView[AuditEntry]):
    serializer_class = AuditEntrySerializer
    pagination_ordering: tuple[str, ...] = ("-sequence",)
    queryset = AuditEntry.objects.none()

    def list(self, request: Request, *args: object, **kwargs: object) -> Response:
        require(actor_of(request), "audit.read")
        asked = request.query_params
        wanted = AuditFilter(
            actor=asked.get("actor", ""),
            action=asked.get("action", ""),
            subject=asked.get("subject", ""),
            since=_time(asked.get("from", ""), "from"),
            until=_time(asked.get("to", ""), "to"),
        )
        self.pagination_ordering = wanted.ordering
        page = self.paginate_queryset(audit_entries(wanted, user=actor_of(request).user))
        return self.get_paginated_response(self.get_serializer(page, many=True).data)


class AuditVerifyView(APIView):
    @extend_schema(summary="Check the whole chain of the audit trail", responses=ChainSerializer)
    def get(self, request: Request) -> Response:
        require(actor_of(request), "audit.read")
        entries, faults = verify_chain()
        head = AuditHead.objects.filter(id=1).first()
        return Response(
            {
                "ok": not faults,
                "entries": entries,
                "head_digest": head.digest if head else "",
                "faults": [{"sequence": f.sequence, "detail": f.detail} for f in faults],
            }
        )


def _time(text: str, name: str) -> datetime | None:
    if not text:
        return None
    try:
        moment = parse_datetime(text)
        day = parse_date(text) if moment is None else None
    except ValueError:
        moment, day = None, None
    if moment is None and day is not None:
        moment = datetime(day.year, day.month, day.day, tzinfo=UTC)
    if moment is None:
        raise Invalid(
            f"“{text}” is not a time.",
            hint="Use RFC 3339, as in 2026-01-31T09:00:00Z.",
            errors=(FieldError(f"/{name}", "Not a time or date."),),
        )
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
