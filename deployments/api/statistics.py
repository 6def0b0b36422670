"""`/api/v1/endpoints/…/stats/` and `…/charts/`: what was counted."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.utils import timezone
from django.utils.dateparse import parse_datetime
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from console.api.authentication import user_of
from console.errors import FieldError, Invalid
from deployments.selectors.statistics.series import chart, statistics
from deployments.selectors.traffic.endpoints import find_endpoint


class StatsView(APIView):
    @extend_schema(
        summary="Series per version: counts by meaning, quantiles, queue, compute, batch size",
        parameters=[
            OpenApiParameter("from", OpenApiTypes.DATETIME, description="An hour ago without it."),
            OpenApiParameter("to", OpenApiTypes.DATETIME, description="Now without it."),
            OpenApiParameter("step", int, description="Seconds; chosen to fit without it."),
        ],
        responses=OpenApiTypes.OBJECT,
    )
    def get(self, request: Request, environment: str, model: str) -> Response:
        endpoint = find_endpoint(environment, model, user=user_of(request))
        end = moment_of(request, "to") or timezone.now()
        start = moment_of(request, "from") or end - timedelta(hours=1)
        return Response(statistics(endpoint, start=start, end=end, step=_step(request)))


class ChartView(APIView):
    @extend_schema(
        summary="One chart of the endpoint's page",
        parameters=[
            OpenApiParameter("window", str, description="15m, 1h, 6h, 24h, 7d, 28d."),
            OpenApiParameter("from", OpenApiTypes.DATETIME, description="In place of `window`."),
            OpenApiParameter("to", OpenApiTypes.DATETIME, description="Now without it."),
            OpenApiParameter("versions", str, description="These alone, as 3,4; all without it."),
        ],
        responses=OpenApiTypes.OBJECT,
    )
    def get(self, request: Request, environment: str, model: str, name: str) -> Response:
        window = request.query_params.get("window", "15m")
        return Response(
            chart(
                find_endpoint(environment, model, user=user_of(request)),
                name,
                window=window,
                now=moment_of(request, "to") or timezone.now(),
                start=moment_of(request, "from"),
                versions=_versions(request),
            )
        )


def moment_of(request: Request, name: str) -> datetime | None:
    """A time in the query, None when it is left out. Raises Invalid."""
    text = request.query_params.get(name, "")
    if not text:
        return None
    try:
        # A plus sign that was not escaped arrives as a space.
        moment = parse_datetime(text.replace(" ", "+"))
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None or not 1970 < moment.year < 9999:
        raise Invalid(
            f"{name} is no time: {text[:40]!r}.",
            code="invalid_time",
            hint="Write it as 2026-01-31T12:00:00Z.",
            errors=(FieldError(f"/{name}", "Use RFC 3339 with a time zone."),),
        )
    return moment


def _versions(request: Request) -> list[int]:
    text = request.query_params.get("versions", "")
    numbers = text.split(",") if text else []
    if not all(one.isascii() and one.isdecimal() and len(one) < 10 for one in numbers[:100]):
        raise Invalid(
            f"versions are no numbers: {text[:40]!r}.",
            code="invalid_versions",
            errors=(FieldError("/versions", "Numbers with commas between them, as 3,4."),),
        )
    return [int(one) for one in numbers[:100]]


def _step(request: Request) -> int:
    text = request.query_params.get("step", "")
    if text and not (text.isascii() and text.isdecimal() and 0 < int(text[:6]) <= 86400):
        raise Invalid(
            f"step is no number of seconds: {text[:40]!r}.",
            code="invalid_step",
            errors=(FieldError("/step", "A whole number of seconds, at most a day."),),
        )
    return int(text or 0)
