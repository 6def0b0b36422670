"""If-Match: the revision that a change replaces, so that two people do not overwrite each other."""

from __future__ import annotations

from drf_spectacular.utils import OpenApiParameter
from rest_framework.request import Request

from console.errors import Invalid

IF_MATCH = OpenApiParameter(
    "If-Match",
    str,
    location=OpenApiParameter.HEADER,
    required=True,
    description='The ETag of what was looked at, as "12"; * takes whatever is there.',
)


def revision_named(request: Request) -> int | None:
    """The revision that If-Match names; None for `*` or none at all. Raises Invalid."""
    given = request.headers.get("If-Match", "*").strip().removeprefix("W/").strip('"')
    if given == "*":
        return None
    if not given.isascii() or not given.isdecimal() or len(given) > 18:
        raise Invalid(
            f"If-Match names no revision: {given[:40]!r}.",
            code="invalid_precondition",
            hint='Send the ETag, as If-Match: "12".',
        )
    return int(given)
