"""The one family of errors that a person or a caller may see.

Each says what happened, to what, and what to do next. Doors (pages, API, CLI, jobs) turn
them into a message, an RFC 9457 problem document, an exit code or a failed job in one place each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class FieldError:
    """One fault in one place of the input; `pointer` is an RFC 6901 JSON pointer."""

    pointer: str
    detail: str


class CovenantError(Exception):
    """Base of every explained error.

    `message` is a full sentence, `code` a stable snake_case word that callers may branch on,
    `hint` the next step for the person who reads it.
    """

    status: ClassVar[int] = 400
    default_code: ClassVar[str] = "error"

    def __init__(
        self,
        message: str,
        *,
        code: str = "",
        hint: str = "",
        errors: tuple[FieldError, ...] = (),
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or self.default_code
        self.hint = hint
        self.errors = errors


class Invalid(CovenantError):
    """The input is wrong and stays wrong: never retried."""

    status = 422
    default_code = "invalid_input"


class NotAllowed(CovenantError):
    """The actor is known and may not do this."""

    status = 403
    default_code = "not_allowed"


class NotFound(CovenantError):
    """There is no such thing, or the actor may not know of it."""

    status = 404
    default_code = "not_found"


class Conflict(CovenantError):
    """The thing is not in a state that permits this."""

    status = 409
    default_code = "conflict"


class TooLarge(CovenantError):
    """There are more bytes than are taken here."""

    status = 413
    default_code = "body_too_large"


class Stale(CovenantError):
    """Somebody changed the thing since the caller read it (a failed precondition)."""

    status = 412
    default_code = "stale_revision"


class TooMany(CovenantError):
    """Too many attempts in too short a time; `retry_after` is in how many seconds to come back."""

    status = 429
    default_code = "too_many_attempts"

    def __init__(self, message: str, *, retry_after: int, code: str = "", hint: str = "") -> None:
        super().__init__(message, code=code, hint=hint)
        self.retry_after = retry_after


class Unavailable(CovenantError):
    """An outside system did not do its part; `retryable` says whether trying again makes sense."""

    status = 503
    default_code = "unavailable"

    def __init__(
        self,
        message: str,
        *,
        code: str = "",
        hint: str = "",
        errors: tuple[FieldError, ...] = (),
        retryable: bool = True,
    ) -> None:
        super().__init__(message, code=code, hint=hint, errors=errors)
        self.retryable = retryable


class NotAcknowledged(Unavailable):
    """The change is stored, but not every gateway has said that it applied it in time."""

    status = 504
    default_code = "not_acknowledged"
