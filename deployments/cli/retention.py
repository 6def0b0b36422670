"""`covenant retention`: how long counts are kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from rich.table import Table

from deployments.cli.client import USAGE, CliError
from deployments.cli.output import show, table
from deployments.rules.statistics.retention import FIELDS

if TYPE_CHECKING:
    from deployments.cli.main import Session

MIB = 1024 * 1024


@click.group()
def retention() -> None:
    """How long counts are kept, and the room they take."""


@retention.command("show")
@click.pass_obj
def show_retention(session: Session) -> None:
    """The policy in force."""
    found = session.client.get("/retention/")
    show(found, as_json=session.as_json, words=_words(found))


@retention.command("set")
@click.argument("changes", metavar="KIND=DAYS…", nargs=-1, required=True)
@click.option("--reason", default="")
@click.pass_obj
def set_retention(session: Session, changes: tuple[str, ...], reason: str) -> None:
    """Say how many days kinds are kept, as minutes=100 days=0; 0 is for ever."""
    found = session.client.get("/retention/")
    body: dict[str, Any] = {"reason": reason, **dict(map(_change, changes))}
    mark = f'"{found["revision"]}"'
    answer = session.client.put("/retention/", body, None, **{"If-Match": mark}).json()
    show(answer, as_json=session.as_json, words=_words(answer))


def _change(text: str) -> tuple[str, int]:
    kind, _, days = text.partition("=")
    field = kind if kind.endswith("_days") else f"{kind}_days"
    if field not in FIELDS or not days.isdecimal():
        known = ", ".join(name.removesuffix("_days") for name in FIELDS)
        raise CliError(
            f"{text!r} is not KIND=DAYS.", exit_code=USAGE, hint=f"The kinds are {known}."
        )
    return field, int(days)


def _words(found: dict[str, Any]) -> Table:
    rows = [
        (
            name.removesuffix("_days"),
            f"{found[name]} d" if found[name] else "for ever",
            f"{found['room'][name]['size_bytes'] / MIB:,.1f} MiB",
            f"{found['room'][name]['rows']:,}",
        )
        for name in FIELDS
    ]
    return table(("KIND", "KEPT", "ROOM", "ROWS"), rows)
