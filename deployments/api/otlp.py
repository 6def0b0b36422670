"""`/otlp/v1/metrics`: metrics by the OpenTelemetry protocol over HTTP, in protobuf or JSON.

https://opentelemetry.io/docs/specs/otlp/#otlphttp
"""

from __future__ import annotations

from typing import ClassVar

from django.http import HttpResponse
from django.http.response import HttpResponseBase
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.views import APIView

from console.api.authentication import actor_of
from console.errors import CovenantError, TooLarge
from deployments.adapters import otlp
from deployments.services.telemetry.intake import take_points
from models_registry.api.content import AnyAccept

# google.rpc.Code, as a sender's library reads them.
_INVALID, _DENIED, _EXHAUSTED = 3, 7, 8


class OtlpMetricsView(APIView):
    """Takes an ExportMetricsServiceRequest, and says of how many points nothing came."""

    content_negotiation_class = AnyAccept
    required_actions: ClassVar[dict[str, str]] = {"POST": "telemetry.send"}

    @extend_schema(exclude=True)
    def post(self, request: Request) -> HttpResponseBase:
        content_type = request.content_type.partition(";")[0].strip().lower()
        answered = otlp.JSON if content_type == otlp.JSON else otlp.PROTOBUF
        try:
            points = otlp.read(
                _body(request),
                content_type=content_type,
                encoding=request.headers.get("Content-Encoding", "").strip().lower(),
            )
            taken = take_points(points=points, actor=actor_of(request))
        except CovenantError as error:
            return _refusal(error, answered)
        body = otlp.response(rejected=taken.rejected, message=taken.message, content_type=answered)
        return HttpResponse(body, content_type=answered)


def _body(request: Request) -> bytes:
    stream = request._request  # the parsers of the API read JSON of its own alone
    body: bytes = stream.read(otlp.MOST_BYTES + 1)
    if len(body) > otlp.MOST_BYTES:
        raise TooLarge(
            f"The request has more than {otlp.MOST_BYTES // 1024**2} MiB.",
            code="otlp_too_large",
            hint="Send fewer data points at once, or gzip them.",
        )
    return body


def _refusal(error: CovenantError, answered: str) -> HttpResponse:
    code = {403: _DENIED, 413: _EXHAUSTED}.get(error.status, _INVALID)
    # Senders take 400 as final and try others again; 422 they do not know.
    status = 400 if error.status == 422 else error.status
    words = f"{error.message} {error.hint}".strip()
    body = otlp.status(code=code, message=words, content_type=answered)
    return HttpResponse(body, status=status, content_type=answered)
