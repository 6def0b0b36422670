"""Keyset paging for lists on pages: as quick on the last page as on the first."""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar
from urllib.parse import urlencode

from django.core.exceptions import ValidationError
from django.db.models import Model, Q, QuerySet
from django.http import QueryDict

M = TypeVar("M", bound=Model)

PAGE_SIZE = 50


@dataclass(frozen=True, slots=True)
class Page(Generic[M]):
    """The rows of one page and the cursors of its neighbours (empty where there is none)."""

    rows: list[M]
    previous: str
    next: str

    def links(self, query: QueryDict) -> dict[str, str]:
        """`previous_url` and `next_url` that keep the rest of the query string."""
        kept = [
            (key, value) for key, values in query.lists() if key != "cursor" for value in values
        ]
        return {
            f"{name}_url": "?" + urlencode([*kept, ("cursor", cursor)]) if cursor else ""
            for name, cursor in (("previous", self.previous), ("next", self.next))
        }


def page_of(queryset: QuerySet[M], *, cursor: str = "", size: int = PAGE_SIZE) -> Page[M]:
    """One page of a queryset in its own order, which must end with a unique field (one query).

    A cursor that cannot be read gives the first page.
    """
    names = [str(name) for name in queryset.query.order_by]
    backwards, values = _read(cursor, len(names))
    rows_wanted = queryset
    if backwards:
        rows_wanted = rows_wanted.reverse()
    try:
        if values:
            rows_wanted = rows_wanted.filter(_beyond(names, values, backwards=backwards))
        rows = list(rows_wanted[: size + 1])
    except (ValidationError, ValueError):
        return page_of(queryset, size=size)
    has_more = len(rows) > size
    rows = rows[:size]
    if backwards:
        rows.reverse()
    has_previous = has_more if backwards else bool(values)
    has_next = has_more if not backwards else True
    return Page(
        rows=rows,
        previous=_write(rows[0], names, backwards=True) if rows and has_previous else "",
        next=_write(rows[-1], names, backwards=False) if rows and has_next else "",
    )


def _beyond(names: list[str], values: list[Any], *, backwards: bool) -> Q:
    """(a, b) after (x, y): a beyond x, or a = x and b beyond y; in the direction of each field."""
    condition = Q()
    same: dict[str, Any] = {}
    for name, value in zip(names, values, strict=True):
        field = name.lstrip("-")
        word = "lt" if name.startswith("-") != backwards else "gt"
        condition |= Q(**same, **{f"{field}__{word}": value})
        same[field] = value
    first = names[0]
    word = "lte" if first.startswith("-") != backwards else "gte"
    # Implied by the rest, but said, so that the first field's index bounds the search.
    return Q(**{f"{first.lstrip('-')}__{word}": values[0]}) & condition


def _write(row: Model, names: list[str], *, backwards: bool) -> str:
    values = [getattr(row, name.lstrip("-")) for name in names]
    texts = [v.isoformat() if isinstance(v, datetime) else str(v) for v in values]
    body = json.dumps(["p" if backwards else "n", *texts])
    return base64.urlsafe_b64encode(body.encode()).decode().rstrip("=")


def _read(cursor: str, count: int) -> tuple[bool, list[Any]]:
    if not cursor or len(cursor) > 500:
        return False, []
    try:
        body = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        way, *values = body
    except (binascii.Error, ValueError, TypeError):
        return False, []
    usable = way in {"n", "p"} and len(values) == count and all(isinstance(v, str) for v in values)
    return (way == "p", values) if usable else (False, [])
