"""Every error of the API as an RFC 9457 problem document, in one place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from django.conf import settings
from django.core.exceptions import ObjectDoesNotExist, PermissionDenied
from django.http import Http404, HttpRequest, JsonResponse
from django.http.response import HttpResponseBase
from rest_framework import exceptions, status
from rest_framework.response import Response
from rest_framework.views import exception_handler

from console.errors import CovenantError, FieldError, TooMany, Unavailable
from console.rules.error_help import entries

R = TypeVar("R", bound=HttpResponseBase)

MEDIA_TYPE = "application/problem+json"
SIGN_IN = "Sign in, or send “Authorization: Token <token>”; tokens are made under Settings."
NOT_KNOWN = (exceptions.NotAuthenticated, exceptions.AuthenticationFailed)


def problem_body(
    *,
    status_code: int,
    code: str,
    detail: str,
    hint: str = "",
    errors: Iterable[FieldError] = (),
) -> dict[str, Any]:
    """The members of a problem document; `code` is stable, `errors` point into the input."""
    return {
        "type": type_of(code),
        "title": code.replace("_", " ").capitalize(),
        "status": status_code,
        "detail": detail,
        "code": code,
        "hint": hint,
        "errors": [{"pointer": error.pointer, "detail": error.detail} for error in errors],
    }


def type_of(code: str) -> str:
    """The address of the code's help page, as RFC 9457 wants `type` to be; a URN without one."""
    if code in entries():
        return f"{settings.CONFIG.base_url}/help/errors/{code}/"
    return f"urn:covenant:problem:{code}"


def problem(
    *,
    status_code: int,
    code: str,
    detail: str,
    hint: str = "",
    errors: Iterable[FieldError] = (),
) -> Response:
    """A problem document as the answer of an API view."""
    body = problem_body(status_code=status_code, code=code, detail=detail, hint=hint, errors=errors)
    return mark_refusal(Response(body, status=status_code, content_type=MEDIA_TYPE), code, detail)


def problem_page(
    *,
    status_code: int,
    code: str,
    detail: str,
    hint: str = "",
    errors: Iterable[FieldError] = (),
) -> JsonResponse:
    """A problem document as the answer of a plain Django view or middleware."""
    body = problem_body(status_code=status_code, code=code, detail=detail, hint=hint, errors=errors)
    return mark_refusal(
        JsonResponse(body, status=status_code, content_type=MEDIA_TYPE), code, detail
    )


def mark_refusal(response: R, code: str, detail: str) -> R:
    """The answer, with why it refuses, for the audit trail (console.audit_doors)."""
    response.problem_code, response.problem_detail = code, detail  # type: ignore[attr-defined]
    return response


def remember_refusal(request: HttpRequest, error: CovenantError) -> None:
    """For a view that tells a refusal in its own page: why, for the audit trail."""
    request.refusal = error  # type: ignore[attr-defined]


def problem_of(error: CovenantError) -> JsonResponse:
    """One of our own errors as the answer of a plain Django view."""
    response = problem_page(
        status_code=error.status,
        code=error.code,
        detail=error.message,
        hint=error.hint,
        errors=error.errors,
    )
    if wait := retry_after(error):
        response["Retry-After"] = str(wait)
    return response


def retry_after(error: CovenantError) -> int:
    """In how many seconds it makes sense to try again; 0 when it does not by itself."""
    if isinstance(error, TooMany):
        return error.retry_after
    return 2 if isinstance(error, Unavailable) else 0


def wants_problem(request: HttpRequest) -> bool:
    """Whether the caller is a program that reads problem documents, not a person's browser."""
    return request.path.startswith("/api/") or MEDIA_TYPE in request.headers.get("Accept", "")


def problem_response(exc: Exception, context: dict[str, Any]) -> Response | None:
    """DRF's exception handler: our own errors, DRF's and Django's, all in one form."""
    if isinstance(exc, CovenantError):
        return _of_covenant(exc)
    if isinstance(exc, (Http404, ObjectDoesNotExist)):
        return problem(
            status_code=404,
            code="not_found",
            detail="There is no such thing here.",
            hint="Check the name or the number in the address.",
        )
    if isinstance(exc, PermissionDenied):
        return problem(status_code=403, code="not_allowed", detail=str(exc) or "Not allowed.")
    if isinstance(exc, exceptions.ValidationError):
        return problem(
            status_code=status.HTTP_422_UNPROCESSABLE_ENTITY,
            code="invalid_input",
            detail="Some fields are missing or not accepted.",
            hint="See errors: each names its field by a JSON pointer.",
            errors=_field_errors(exc.detail, ""),
        )
    if isinstance(exc, exceptions.APIException):
        return _of_framework(exc, context)
    return None


def _of_covenant(error: CovenantError) -> Response:
    response = problem(
        status_code=error.status,
        code=error.code,
        detail=error.message,
        hint=error.hint,
        errors=error.errors,
    )
    if wait := retry_after(error):
        response["Retry-After"] = str(wait)
    return response


def _of_framework(error: exceptions.APIException, context: dict[str, Any]) -> Response:
    plain = exception_handler(error, context)
    codes = error.get_codes()
    answer = problem(
        status_code=plain.status_code if plain else error.status_code,
        code=codes if isinstance(codes, str) else error.default_code,
        detail=str(error.detail),
        hint=SIGN_IN if isinstance(error, NOT_KNOWN) else "",
    )
    for header, value in plain.headers.items() if plain else ():
        if header.lower() in {"www-authenticate", "retry-after"}:
            answer[header] = value
    return answer


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
