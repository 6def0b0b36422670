"""`/api/v1/endpoints/…/causes/`: what moved first at an endpoint, and the charts beside it."""

from __future__ import annotations

from typing import Any

from django.utils import timezone
from django.utils.translation import gettext as _
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from console.api.authentication import user_of
from console.errors import NotFound
from console.templatetags.console_formats import machine_time
from deployments.api.statistics import moment_of
from deployments.documents import cause_words
from deployments.documents.occurrence_words import said
from deployments.rules.causes.board import Mover
from deployments.rules.causes.quantities import KINDS, Signal
from deployments.rules.statistics import charts
from deployments.rules.statistics.charts import Grid
from deployments.selectors.causes.board import LATE, Board, board
from deployments.selectors.causes.occurrences import occurrences
from deployments.selectors.causes.quantities import signals_of
from deployments.selectors.traffic.endpoints import find_endpoint


class CausesView(APIView):
    @extend_schema(
        summary="What moved first at an endpoint, and what happened just before",
        description="Over a window up to now, or around a moment (from 30 min before it to 15 min "
        "after). `findings` are conclusions with their evidence; `steady` is what did not move.",
        parameters=[
            OpenApiParameter("window", str, enum=["15m", "1h", "6h", "24h"]),
            OpenApiParameter("at", OpenApiTypes.DATETIME),
        ],
        responses=OpenApiTypes.OBJECT,
    )
    def get(self, request: Request, environment: str, model: str) -> Response:
        found = board(
            environment,
            model,
            user=user_of(request),
            now=timezone.now(),
            window=request.query_params.get("window", "15m"),
            around=moment_of(request, "at"),
        )
        return Response(_document(found))


class CausesChartView(APIView):
    @extend_schema(
        operation_id="endpoints_causes_chart",
        summary="One quantity of the root-cause board, as a chart",
        parameters=[
            OpenApiParameter("from", OpenApiTypes.DATETIME, required=True),
            OpenApiParameter("to", OpenApiTypes.DATETIME, required=True),
        ],
        responses=OpenApiTypes.OBJECT,
    )
    def get(self, request: Request, environment: str, model: str, kind: str) -> Response:
        if kind not in KINDS:
            raise NotFound(f"The board has no {kind}.", hint=f"It has: {', '.join(KINDS)}.")
        endpoint = find_endpoint(environment, model, user=user_of(request))
        now = timezone.now()
        start = moment_of(request, "from") or now - LATE
        end = min(moment_of(request, "to") or now, now)
        grid, signals = signals_of(endpoint, start, end, only=kind)
        markers = [
            (one.at, said(one).title)
            for one in occurrences(endpoint, start, end)
            if grid.start <= one.at <= grid.end
        ]
        lines = [_line(one, grid) for one in signals]
        document = charts.chart(lines, markers=markers)
        document["span"] = [machine_time(grid.start), machine_time(grid.end)]
        return Response(document)


def _line(signal: Signal, grid: Grid) -> dict[str, Any]:
    """A line with its gaps: where nothing was measured nothing is drawn."""
    values = dict(signal.points)
    times = grid.times if signal.step_s == grid.step else list(values)
    shown = [values.get(at) for at in times]
    line: dict[str, Any] = {
        "name": f"v{signal.version}" if signal.version else signal.place or _("all"),
        "x": [machine_time(at) for at in times],
        "y": [None if value is None else round(value, 4) for value in shown],
    }
    return {**line, "version": signal.version} if signal.version else line


def _document(found: Board) -> dict[str, Any]:
    before = found.before
    return {
        "environment": found.endpoint.environment.name,
        "model": found.endpoint.model.name,
        "from": machine_time(found.start),
        "to": machine_time(found.end),
        "step": found.step_s,
        "summary": cause_words.sentences(found),
        "findings": [
            {"code": one.code, "text": one.text, "evidence": one.evidence, "advice": one.advice}
            for one in cause_words.meanings(found)
        ],
        "movers": [_mover(one) for one in found.case.movers],
        "steady": [
            {**_signal(one.signal), "level": round(one.level, 4)} for one in found.case.steady
        ],
        "over_at": found.case.over_at and machine_time(found.case.over_at),
        "before": None
        if before is None
        else {"at": machine_time(before.at), "kind": before.kind, "text": said(before).title},
        "events": [
            {"at": machine_time(one.at), "kind": one.kind, "text": said(one).title, "url": one.url}
            for one in found.happened
        ],
    }


def _mover(one: Mover) -> dict[str, Any]:
    return {
        **_signal(one.signal),
        "at": machine_time(one.move.at),
        "before": round(one.move.before, 4),
        "after": round(one.move.after, 4),
        "bad": one.is_bad,
        "text": cause_words.mover_text(one),
    }


def _signal(signal: Signal) -> dict[str, Any]:
    return {
        "signal": signal.kind.code,
        "layer": signal.kind.layer.value,
        "unit": signal.kind.unit,
        "version": signal.version or None,
        "place": signal.place,
        "step": signal.step_s,
    }
