"""Header rules, sticky header and mirror as callers write them, checked and in stored form."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from console.errors import FieldError, Invalid
from deployments.rules.traffic.splits import WHOLE

MOST_RULES = 50
MOST_TESTERS = 200

_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,80}\Z")


def parse_header(name: str) -> str:
    """A header's name in lower case. Raises Invalid."""
    if not _HEADER_NAME.match(name):
        raise Invalid(
            f"{name!r} is no name of a header.",
            code="invalid_header",
            errors=(FieldError("/sticky_header", "Use a header's name, such as x-user-id."),),
        )
    return name.lower()


def parse_header_rules(raw: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Rules `{header, value, version}`: such a request goes to that version. Raises Invalid."""
    _check_number(raw, "/header_rules", MOST_RULES)
    rules: list[dict[str, Any]] = []
    for index, rule in enumerate(raw):
        pointer = f"/header_rules/{index}"
        try:
            header, value, version = str(rule["header"]), str(rule["value"]), int(rule["version"])
        except (KeyError, TypeError, ValueError) as error:
            raise _bad_rule(pointer, "Give header, value and version.") from error
        if not _HEADER_NAME.match(header):
            raise _bad_rule(pointer, "The header's name is not valid.")
        if not value.isprintable() or not 0 < len(value) <= 256:
            raise _bad_rule(pointer, "The value has 1 to 256 printable characters.")
        rules.append({"header": header.lower(), "value": value, "version": version})
    return rules


def parse_testers(raw: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Testers `{caller, version}`: that value of the sticky header gets that version.

    Raises Invalid.
    """
    _check_number(raw, "/testers", MOST_TESTERS)
    testers: list[dict[str, Any]] = []
    for index, tester in enumerate(raw):
        pointer = f"/testers/{index}"
        try:
            caller, version = str(tester["caller"]), int(tester["version"])
        except (KeyError, TypeError, ValueError) as error:
            raise _bad_rule(pointer, "Give caller and version.") from error
        if not caller.isprintable() or not 0 < len(caller) <= 256:
            raise _bad_rule(pointer, "A caller has 1 to 256 printable characters.")
        if any(one["caller"] == caller for one in testers):
            raise _bad_rule(pointer, "This caller is named twice.")
        testers.append({"caller": caller, "version": version})
    return testers


def parse_mirror(raw: Mapping[str, Any]) -> dict[str, Any] | None:
    """A mirror `{version, percent}`; None (no mirror) for 0 percent. Raises Invalid."""
    try:
        version, points = int(raw["version"]), round(float(raw.get("percent", 100)) * 100)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise Invalid(
            "A mirror needs a version and a percent.",
            code="invalid_mirror",
            errors=(FieldError("/mirror", "Give version, and percent from 0 to 100."),),
        ) from error
    if not 0 <= points <= WHOLE:
        raise Invalid(
            "A mirror copies 0 to 100 % of the traffic.",
            code="invalid_mirror",
            errors=(FieldError("/mirror/percent", "From 0 to 100."),),
        )
    return {"version": version, "basis_points": points} if points else None


def _check_number(raw: Sequence[object], pointer: str, most: int) -> None:
    if len(raw) > most:
        raise _bad_rule(pointer, f"At most {most}.")


def _bad_rule(pointer: str, detail: str) -> Invalid:
    return Invalid(
        f"A routing rule cannot be used: {detail}",
        code="invalid_header_rule",
        errors=(FieldError(pointer, detail),),
    )
