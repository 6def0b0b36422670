"""What every door puts on record by itself, whatever its view does: denials and exports."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from asgiref.sync import iscoroutinefunction, sync_to_async
from django.db import DatabaseError
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils import timezone
from django.utils.decorators import sync_and_async_middleware

from console.actors import Actor
from console.api.authentication import token_of
from console.errors import CovenantError
from console.models import ApiToken, User
from console.rules import audit_occurrences as rules
from console.selectors.visibility import subject_of_address
from console.services.audit_occurrences import note

log = logging.getLogger(__name__)


@sync_and_async_middleware
def audit_doors(get_response: Callable[[HttpRequest], Any]) -> Callable[[HttpRequest], Any]:
    """Record what was refused, and what leaves as a file, before the answer goes out.

    In one place for pages and API alike, so that no new door can forget it.
    """
    if iscoroutinefunction(get_response):

        async def handle(request: HttpRequest) -> HttpResponseBase:
            response: HttpResponseBase = await get_response(request)
            if _concerns(request, response):
                await sync_to_async(_record)(request, response)
            return response

        return handle

    def handle_sync(request: HttpRequest) -> HttpResponseBase:
        response: HttpResponseBase = get_response(request)
        if _concerns(request, response):
            _record(request, response)
        return response

    return handle_sync


def _concerns(request: HttpRequest, response: HttpResponseBase) -> bool:
    return bool(_denial(request, response) or _is_export(request, response))


def _denial(request: HttpRequest, response: HttpResponseBase) -> str:
    error: CovenantError | None = getattr(request, "refusal", None)
    return rules.denial_action(
        status=error.status if error else response.status_code,
        code=error.code if error else getattr(response, "problem_code", ""),
        has_token="Authorization" in request.headers,
    )


def _is_export(request: HttpRequest, response: HttpResponseBase) -> bool:
    leaves = response.get("Content-Disposition", "").startswith("attachment")
    if not leaves or request.method != "GET" or response.status_code not in {200, 206}:
        return False
    return _address_name(request) not in rules.NO_EXPORTS


def _record(request: HttpRequest, response: HttpResponseBase) -> None:
    if action := _denial(request, response):
        try:
            _record_denial(request, response, action)
        except DatabaseError:
            # It was refused all the same; what cannot be recorded is at least in the log.
            log.exception("%s of %s was not recorded", action, request.path)
    else:
        # An export that cannot be put on record does not leave: the error is answered instead.
        _record_export(request, response)


def _record_denial(request: HttpRequest, response: HttpResponseBase, action: str) -> None:
    error: CovenantError | None = getattr(request, "refusal", None)
    code = error.code if error else getattr(response, "problem_code", "")
    subject = _subject(request)
    details: dict[str, Any] = {
        "method": request.method,
        "path": request.path[:200],
        "code": code or "not_allowed",
    }
    if action == rules.TOKEN_REFUSED:
        subject = _token_subject(request)
    note(
        actor=_actor(request),
        action=action,
        subject=subject,
        details=details,
        together=f"{request.method} {_address_name(request)}",
        now=timezone.now(),
        subject_url=request.path if request.method == "GET" and "/api/" not in request.path else "",
        reason=(error.message if error else getattr(response, "problem_detail", ""))[:500],
    )


def _record_export(request: HttpRequest, response: HttpResponseBase) -> None:
    name = _address_name(request)
    filename = response["Content-Disposition"].partition("filename=")[2].strip('"')
    details: dict[str, Any] = {"file": filename[:200]}
    if request.GET:
        details["query"] = {key: value[:200] for key, value in request.GET.items()}
    if length := response.get("Content-Length", ""):
        details["bytes"] = int(length)
    if digest := response.get("ETag", "").strip('"'):
        details["sha256"] = digest
    note(
        actor=_actor(request),
        action=rules.EXPORTS.get(name, rules.ANY_EXPORT),
        subject=_subject(request),
        details=details,
        together=request.get_full_path(),
        now=timezone.now(),
    )


def _actor(request: HttpRequest) -> Actor:
    """Who it was, and from which address; the installation stands for somebody unknown."""
    door = "api" if request.path.startswith("/api/") else "page"
    source = f"{door} {request.META.get('REMOTE_ADDR', '')}".strip()
    user = getattr(request, "user", None)
    known = user if isinstance(user, User) else Actor.system(source).user
    return Actor(user=known, source=source, request_id=getattr(request, "request_id", ""))


def _subject(request: HttpRequest) -> str:
    match = request.resolver_match
    return subject_of_address(request.path, match.kwargs if match else {})


def _address_name(request: HttpRequest) -> str:
    match = request.resolver_match
    return match.view_name if match else ""


def _token_subject(request: HttpRequest) -> str:
    """The token by the beginning that its list shows, when there is or was such a one."""
    clear = token_of(request.headers.get("Authorization", "")) or ""
    known = ApiToken.objects.filter(prefix=clear[:10]).values_list("prefix", flat=True).first()
    return f"token {known}" if known else "token unknown"
