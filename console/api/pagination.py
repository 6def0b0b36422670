"""Cursor pagination for every list."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from rest_framework.exceptions import NotFound
from rest_framework.pagination import CursorPagination
from rest_framework.request import Request


class RecentFirstPagination(CursorPagination):
    """Newest first, at most 200 a page; a view may name another stable `pagination_ordering`."""

    ordering = "-pk"
    page_size_query_param = "limit"
    max_page_size = 200

    def paginate_queryset(self, queryset: Any, request: Request, view: Any = None) -> Any:
        """The page; a made-up cursor, whose place is not of the kind of the order, is not found."""
        try:
            return super().paginate_queryset(queryset, request, view)
        except (ValidationError, ValueError) as error:
            raise NotFound(self.invalid_cursor_message) from error

    def get_ordering(self, request: Request, queryset: QuerySet[Any], view: Any) -> tuple[str, ...]:
        ordering = getattr(view, "pagination_ordering", self.ordering)
        return (ordering,) if isinstance(ordering, str) else tuple(ordering)
