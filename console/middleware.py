"""What each request carries, and how an error that no view caught is explained."""

from __future__ import annotations

import logging
import re
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.utils.decorators import sync_and_async_middleware
from psycopg_pool import PoolTimeout

from console.errors import CovenantError

log = logging.getLogger(__name__)
REQUEST_ID = re.compile(r"^[A-Za-z0-9._-]{1,64}$")

GetResponse = Callable[[HttpRequest], Any]


@sync_and_async_middleware
def request_context(get_response: GetResponse) -> Callable[[HttpRequest], Any]:
    """Keep the caller's X-Request-ID or make one, and give it back with the answer."""

    def name(request: HttpRequest) -> str:
        given = request.headers.get("X-Request-ID", "")
        request_id = given if REQUEST_ID.match(given) else uuid.uuid4().hex
        request.request_id = request_id  # type: ignore[attr-defined]
        return request_id

    if iscoroutinefunction(get_response):

        async def handle(request: HttpRequest) -> HttpResponse:
            request_id = name(request)
            response: HttpResponse = await get_response(request)
            response["X-Request-ID"] = request_id
            return response

        return handle

    def handle_sync(request: HttpRequest) -> HttpResponse:
        request_id = name(request)
        response: HttpResponse = get_response(request)
        response["X-Request-ID"] = request_id
        return response

    return handle_sync


class explain_errors:  # noqa: N801 - named as the middleware it is listed as
    """Turn an error that a page did not handle into a page (or a problem document) that explains.

    A CovenantError keeps its status and hint; a database that is away is a 503 that says when to
    come back, since it recovers by itself.
    """

    async_capable = True
    sync_capable = True

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response
        if iscoroutinefunction(get_response):
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> HttpResponse | Awaitable[HttpResponse]:
        response: HttpResponse | Awaitable[HttpResponse] = self.get_response(request)
        return response

    def process_exception(
        self, request: HttpRequest, exception: Exception
    ) -> HttpResponse | None:
        if isinstance(exception, (OperationalError, InterfaceError, PoolTimeout)):
            log.warning("%s %s: the database is away: %s", request.method, request.path, exception)
            response = _explain(
                request,
                status=503,
                code="database_unavailable",
                message="The database is not reachable at the moment.",
                hint="Nothing was lost. Try again in a few seconds.",
            )
            response["Retry-After"] = "2"
            return response
        if isinstance(exception, CovenantError):
            return _explain(
                request,
                status=exception.status,
                code=exception.code,
                message=exception.message,
                hint=exception.hint,
            )
        return None


def _explain(
    request: HttpRequest, *, status: int, code: str, message: str, hint: str
) -> HttpResponse:
    if request.path.startswith("/api/"):
        return JsonResponse(
            {
                "type": "about:blank",
                "title": message,
                "status": status,
                "detail": message,
                "code": code,
                "hint": hint,
                "errors": [],
            },
            status=status,
            content_type="application/problem+json",
        )
    context = {"message": message, "hint": hint, "code": code, "status": status}
    return render(request, "errors/explained.html", context, status=status)
