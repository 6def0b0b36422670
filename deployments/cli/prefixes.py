"""Ids as people type them: whole, or by their first characters as git takes a commit's."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs, parse_qsl, urlsplit
from uuid import UUID

from deployments.cli.client import USAGE, CliError

if TYPE_CHECKING:
    from deployments.cli.client import Client

SHORTEST: Final = 8
PAGE: Final = "200"
MOST_PAGES: Final = 25
"""5 000 things of a list: who looks for an older one writes its whole id."""
NAMED: Final = 5
_BEGINNING: Final = re.compile(r"[0-9a-f-]+")


def whole_id(client: Client, given: str, lists: Iterable[str], *, of: str) -> str:
    """The id that `given` is or begins, among what the `lists` tell.

    `lists` are paths, with a query where they need one; those that the person may not see are left
    out. `of` names the thing (“alert”). A whole id is given back without a look: the server knows
    best whether it is there. CliError with exit code 2 for what is no id, is too short, begins
    none, or begins several.
    """
    wanted = given.strip().lower()
    try:
        return str(UUID(wanted))
    except ValueError:
        pass
    if not _BEGINNING.fullmatch(wanted) or len(wanted) > len(str(UUID(int=0))):
        raise CliError(f"{given!r} is no id of {_an(of)}.", exit_code=USAGE, code="no_id")
    if len(wanted) < SHORTEST:
        raise CliError(
            f"{given!r} is too short.",
            exit_code=USAGE,
            hint=f"Write the id, or at least its first {SHORTEST} characters.",
            code="id_too_short",
        )
    found = sorted(
        {one for address in lists for one in _ids(client, address) if one.startswith(wanted)}
    )
    if not found:
        raise CliError(
            f"No {of} that you may see has an id that begins with {given!r}.",
            exit_code=USAGE,
            hint=f"Looked for among the newest {int(PAGE) * MOST_PAGES}; list them, or write the "
            "whole id.",
            code="id_unknown",
        )
    if len(found) > 1:
        named = ", ".join(found[:NAMED]) + (", …" if len(found) > NAMED else "")
        raise CliError(
            f"{len(found)} ids begin with {given!r}: {named}.",
            exit_code=USAGE,
            hint="Write one more character, or the whole id.",
            code="id_ambiguous",
        )
    return found[0]


def _ids(client: Client, address: str) -> Iterator[str]:
    """The ids of a list, page after page; a list without pages is told whole."""
    path, _query, query = address.partition("?")
    wanted = {**dict(parse_qsl(query)), "limit": PAGE}
    for _ in range(MOST_PAGES):
        try:
            page: Any = client.get(path, **wanted)
        except CliError as refusal:
            if refusal.code != "not_allowed":
                raise
            return
        rows = page if isinstance(page, list) else page["results"]
        yield from (str(one["id"]) for one in rows)
        onward = None if isinstance(page, list) else page.get("next")
        if not onward:
            return
        wanted["cursor"] = parse_qs(urlsplit(onward).query)["cursor"][0]


def _an(thing: str) -> str:
    return f"an {thing}" if thing[0] in "aeiou" else f"a {thing}"
