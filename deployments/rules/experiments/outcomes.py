"""What callers report of the answers they got: read strictly, with the place of every fault."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from console.errors import FieldError, Invalid

MOST = 1000
LONGEST_ID = 100
NAME = re.compile(r"[a-z][a-z0-9_.-]{0,59}\Z")
_FIELDS = {"request_id", "name", "value", "at"}


@dataclass(frozen=True, slots=True)
class ReportedOutcome:
    """An answer, by its request id, led to `name`; a `value` of 0 says that it did not."""

    request_id: str
    name: str
    value: float = 1.0
    at: datetime | None = None


class Reception(StrEnum):
    """What became of one reported outcome."""

    ACCEPTED = "accepted"
    DUPLICATE = "duplicate"
    """The same name was reported of this request before; the first report counts."""
    UNKNOWN = "unknown"
    """No running experiment answered a request of this id, or its time is over."""
    LATE = "late"
    """It happened after the time in which an outcome counts."""
    OTHER = "other_name"
    """The experiment counts outcomes of another name."""
    ENDED = "ended"


def parse_outcomes(body: bytes) -> list[ReportedOutcome]:
    """One outcome or a list of at most 1000. Raises Invalid with a pointer for each fault."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Invalid("The body is no JSON.", code="invalid_input") from error
    single = isinstance(document, dict)
    items = [document] if single else document
    if not isinstance(items, list) or not items or len(items) > MOST:
        raise Invalid(
            f"Send one outcome, or a list of 1 to {MOST}.",
            code="invalid_input",
            errors=(FieldError("", f"An object, or a list of 1 to {MOST} objects."),),
        )
    faults: list[FieldError] = []
    found = [_outcome(one, "" if single else f"/{i}", faults) for i, one in enumerate(items)]
    if faults:
        raise Invalid(
            "Some outcomes cannot be read; none was taken.",
            code="invalid_input",
            hint='Send {"request_id": "…", "name": "purchase"}, with value and at as needed.',
            errors=tuple(faults[:100]),
        )
    return [one for one in found if one is not None]


def _outcome(one: Any, place: str, faults: list[FieldError]) -> ReportedOutcome | None:
    before = len(faults)
    if not isinstance(one, Mapping):
        faults.append(FieldError(place, "This is no object."))
        return None
    faults += [
        FieldError(f"{place}/{_escaped(name)}", "There is no such field.")
        for name in one
        if name not in _FIELDS
    ]
    request_id, name, value = one.get("request_id"), one.get("name"), one.get("value", 1.0)
    if not isinstance(request_id, str) or not 0 < len(request_id) <= LONGEST_ID:
        faults.append(FieldError(f"{place}/request_id", f"A text of 1 to {LONGEST_ID} characters."))
    if not isinstance(name, str) or not NAME.match(name):
        faults.append(
            FieldError(f"{place}/name", "Small letters, digits, _ . and -, a letter first.")
        )
    if isinstance(value, bool) or not isinstance(value, int | float) or not _is_finite(value):
        faults.append(FieldError(f"{place}/value", "A number."))
    at = _moment(one.get("at"), place, faults)
    if len(faults) > before:
        return None
    return ReportedOutcome(str(request_id), str(name), float(value), at)


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(float(value))
    except OverflowError:
        return False


def _moment(text: object, place: str, faults: list[FieldError]) -> datetime | None:
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None or not 1970 < moment.year < 9999:
        faults.append(FieldError(f"{place}/at", "RFC 3339 with a time zone."))
        return None
    return moment


def _escaped(name: object) -> str:
    return str(name)[:60].replace("~", "~0").replace("/", "~1")


def receive(
    outcome: ReportedOutcome, *, wanted: str | None, answered_at: float, window_s: float
) -> Reception | None:
    """Why an outcome of a known answer does not count; None when it does.

    `wanted` is the name that the experiment counts, None when it has ended.
    """
    if wanted is None:
        return Reception.ENDED
    if outcome.name != wanted:
        return Reception.OTHER
    if outcome.at is not None and outcome.at.timestamp() > answered_at + window_s:
        return Reception.LATE
    return None
