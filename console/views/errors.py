"""Pages for what Django itself refuses, and for errors that no view handled."""

from __future__ import annotations

import sys
from typing import Any

from django.core.exceptions import RequestDataTooBig
from django.db import DataError, InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.template.loader import render_to_string
from django.utils.translation import gettext

from console.api.problems import mark_refusal, problem_of, problem_page, retry_after, wants_problem
from console.errors import CovenantError, Invalid, NotAllowed, TooLarge, Unavailable


def explained(exception: BaseException | None) -> CovenantError | None:
    """The explanation of an error that has one: our own, the framework's or the database's."""
    if isinstance(exception, CovenantError):
        return exception
    if isinstance(exception, (OperationalError, InterfaceError)):
        return Unavailable(
            "The database is not reachable at the moment.",
            code="database_unavailable",
            hint="Nothing was lost, and traffic to models goes on. Try again in a few seconds.",
        )
    if isinstance(exception, RequestDataTooBig):
        return TooLarge(
            "The body is larger than what is taken in one request.",
            hint="Files go through /api/v1/uploads/.",
        )
    if isinstance(exception, DataError):
        # A NUL in a text, a number beyond what a column holds: never right a second time.
        return Invalid(
            "A value in the request cannot be stored or looked for.",
            code="impossible_value",
            hint="Look for control characters and for very large numbers.",
        )
    return None


def explain(request: HttpRequest, error: CovenantError) -> HttpResponse:
    """The error as a problem document for programs, as a page for people."""
    if wants_problem(request) or request.headers.get("HX-Request"):
        return problem_of(error)
    name = error.status if error.status in {403, 404, 503} else "explained"
    response = _page(request, f"errors/{name}.html", status=error.status, error=error)
    if wait := retry_after(error):
        response["Retry-After"] = str(wait)
    return response


def bad_request(request: HttpRequest, exception: Any = None) -> HttpResponse:
    if wants_problem(request):
        return problem_page(status_code=400, code="bad_request", detail="This was not understood.")
    return _page(request, "errors/400.html", status=400)


def forbidden(request: HttpRequest, exception: Any = None) -> HttpResponse:
    if wants_problem(request):
        return problem_page(
            status_code=403, code="not_allowed", detail=str(exception or "") or "Not allowed."
        )
    return _page(request, "errors/403.html", status=403)


def csrf_failed(request: HttpRequest, reason: str = "") -> HttpResponse:
    if wants_problem(request):
        return problem_page(status_code=403, code="csrf_failed", detail=reason)
    error = NotAllowed(
        gettext("This form is out of date."),
        code="csrf_failed",
        hint=gettext("Go back, reload the page and send it again."),
    )
    return _page(request, "errors/403.html", status=403, error=error)


def not_found(request: HttpRequest, exception: Any = None) -> HttpResponse:
    if wants_problem(request):
        return problem_page(
            status_code=404, code="not_found", detail=f"There is nothing at {request.path}."
        )
    return _page(request, "errors/404.html", status=404)


def server_error(request: HttpRequest) -> HttpResponse:
    """Called within the handling of what was raised, also by a middleware."""
    if error := explained(sys.exc_info()[1]):
        return explain(request, error)
    if wants_problem(request):
        return problem_page(
            status_code=500,
            code="internal_error",
            detail="Something went wrong inside Covenant.",
            hint=f"Give the reference {_reference(request)} to your platform admin.",
        )
    return _page(request, "errors/500.html", status=500)


def _page(
    request: HttpRequest, template: str, *, status: int, error: CovenantError | None = None
) -> HttpResponse:
    context: dict[str, Any] = {"status": status}
    if error:
        context |= {"message": error.message, "hint": error.hint, "code": error.code}
    if status < 500:
        page = render(request, template, context, status=status)
        return mark_refusal(page, error.code, error.message) if error else page
    # Without the request itself: session and user may be what is broken.
    context["request"] = {
        "request_id": _reference(request),
        "get_full_path": request.get_full_path(),
    }
    return HttpResponse(render_to_string(template, context), status=status)


def _reference(request: HttpRequest) -> str:
    return str(getattr(request, "request_id", ""))
