"""`/healthz`, `/readyz` and `/metrics`: for load balancers, supervisors and Prometheus."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from asgiref.sync import sync_to_async
from django.contrib.auth.decorators import login_not_required
from django.db import connections
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from prometheus_client import CONTENT_TYPE_LATEST

from console.api.authentication import token_of
from console.metrics import text_for
from console.models import User
from console.selectors.health import Part, check_database, check_migrations, check_redis
from console.services.tokens import authenticate_token

LONGEST_SECONDS = 2.0


@login_not_required
@require_safe
@never_cache
def alive(request: HttpRequest) -> HttpResponse:
    """The process answers; nothing else is looked at."""
    return HttpResponse("ok\n", content_type="text/plain")


@login_not_required
@require_safe
@never_cache
async def ready(request: HttpRequest) -> JsonResponse:
    """200 when this process can serve, else 503 with what fails."""
    parts = await asyncio.gather(
        _within_time("database", check_database),
        _within_time("redis", check_redis),
        _within_time("migrations", check_migrations),
    )
    good = all(part.ok for part in parts)
    body = {
        "ready": good,
        "checks": {part.name: {"ok": part.ok, "detail": part.detail} for part in parts},
    }
    headers = {} if good else {"Retry-After": "2"}
    return JsonResponse(body, status=200 if good else 503, headers=headers)


@login_not_required
@require_safe
@never_cache
def metrics(request: HttpRequest) -> HttpResponse:
    """Prometheus text of this process, and the jobs that wait or run.

    With an API token (`Authorization: Token …`, or `Bearer …`) also what its owner may see of
    endpoints, objectives, nodes and GPUs. A token that is not valid is refused, so that a wrong
    one is noticed.
    """
    clear = token_of(request.headers.get("Authorization", ""), keywords=("token", "bearer"))
    user: User | None = None
    if clear is not None:
        token = authenticate_token(clear, address=request.META.get("REMOTE_ADDR", ""))
        if token is None or "read" not in token.scopes:
            return HttpResponse(
                "This token is unknown, expired, revoked, or has not the scope read.\n",
                status=401,
                content_type="text/plain",
                headers={"WWW-Authenticate": "Token"},
            )
        user = token.user
    return HttpResponse(text_for(user), content_type=CONTENT_TYPE_LATEST)


async def _within_time(name: str, check: Callable[[], Part]) -> Part:
    def run() -> Part:
        try:
            return check()
        finally:
            connections.close_all()

    try:
        # In a thread of its own: a check that hangs must hold up neither the loop nor the answer.
        work = sync_to_async(run, thread_sensitive=False)()
        return await asyncio.wait_for(work, LONGEST_SECONDS)
    except TimeoutError:
        return Part(name, ok=False, detail=f"no answer within {LONGEST_SECONDS:.0f} s")
