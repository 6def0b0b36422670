"""Cursor pagination for every list."""

from __future__ import annotations

from rest_framework.pagination import CursorPagination


class RecentFirstPagination(CursorPagination):
    """Newest first, at most 200 a page; views may name another stable order."""

    ordering = "-pk"
    page_size_query_param = "limit"
    max_page_size = 200
