"""Every error of the API as an RFC 9457 problem document, in one place."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.core.exceptions import ObjectDoesNotExist, PermissionDenied
from django.http import Http404
from rest_framework import exceptions, status
from rest_framework.response import Response
from rest_framework.views import exception_handler

from console.errors import CovenantError, FieldError, Unavailable

MEDIA_TYPE = "application/problem+json"


def problem(
    *, status_code: int, code: str, detail: str, hint: str = "", errors: list[FieldError] | None = None
) -> Response:
    """A problem document as a response."""
    body = {
        "type": f"urn:covenant:problem:{code}",
        "title": code.replace("_", " ").capitalize(),
        "status": status_code,
        "detail": detail,
        "code": code,
        "hint": hint,
        "errors": [{"pointer": e.pointer, "detail": e.detail} for e in errors or []],
    }
    return Response(body, status=status_code, content_type=MEDIA_TYPE)


def problem_response(exc: Exception, context: dict[str, Any]) -> Response | None:
    """DRF's exception handler: our own errors, DRF's and Django's, all in one form."""
    if isinstance(exc, CovenantError):
        response = problem(
            status_code=exc.status, code=exc.code, detail=exc.message, hint=exc.hint,
            errors=list(exc.errors),
        )
        if isinstance(exc, Unavailable):
            response["Retry-After"] = "2"
        return response
    if isinstance(exc, (Http404, ObjectDoesNotExist)):
        return problem(
            status_code=404, code="not_found", detail="There is no such thing here.",
            hint="Check the name or the number in the address.",
        )
    if isinstance(exc, PermissionDenied):
        return problem(status_code=403, code="not_allowed", detail=str(exc) or "Not allowed.")
    if isinstance(exc, exceptions.ValidationError):
        return problem(
            status_code=status.HTTP_422_UNPROCESSABLE_ENTITY, code="invalid_input",
            detail="Some fields are missing or not accepted.",
            hint="See errors: each names its field by a JSON pointer.",
            errors=list(_field_errors(exc.detail, "")),
        )
    if isinstance(exc, exceptions.APIException):
        plain = exception_handler(exc, context)
        codes = exc.get_codes()
        answer = problem(
            status_code=exc.status_code, code=codes if isinstance(codes, str) else exc.default_code,
            detail=str(exc.detail),
        )
        for header, value in (plain.headers.items() if plain else ()):
            if header.lower() in {"www-authenticate", "retry-after"}:
                answer[header] = value
        return answer
    return None


def _field_errors(detail: Any, pointer: str) -> Iterator[FieldError]:
    if isinstance(detail, dict):
        for name, inner in detail.items():
            step = "" if name == "non_field_errors" else "/" + _escape(str(name))
            yield from _field_errors(inner, pointer + step)
    elif isinstance(detail, list):
        for index, inner in enumerate(detail):
            nested = isinstance(inner, (dict, list))
            yield from _field_errors(inner, f"{pointer}/{index}" if nested else pointer)
    else:
        yield FieldError(pointer, str(detail))


def _escape(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
