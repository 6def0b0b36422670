"""What the CLI prints: words for people, JSON for programs."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Sequence
from typing import Any, Final

import click
from rich.console import Console
from rich.measure import Measurement
from rich.table import Column, Table
from rich.text import Text

_WHOLE: Final = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
    r"|\d{4}-\d{2}-\d{2}T[\d:.]+(Z|[+-]\d{2}:\d{2})",
    re.IGNORECASE,
)
"""Ids and moments: half of one is of no use, and nobody can copy one that is folded."""

READABLE: Final = 12
"""Characters that a column of words keeps at least, before a row is told in lines."""
UNLIMITED: Final = 1_000_000
GAP: Final = 2


def show(data: Any, *, as_json: bool, words: str | Table) -> None:
    """Print `data` as JSON or `words` for a person."""
    if as_json:
        click.echo(json.dumps(data, indent=2, ensure_ascii=False))
    elif isinstance(words, str):
        click.echo(words)
    elif sys.stdout.isatty():
        _to_terminal(words)
    else:
        _to_pipe(words)


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Table:
    """A plain table; cells are text as it stands, never markup.

    Ids and moments are never cut or folded, in no width (see `show`).
    """
    result = Table(box=None, pad_edge=False, padding=(0, GAP // 2), header_style="bold")
    cells = [["" if cell is None else " ".join(str(cell).split()) for cell in row] for row in rows]
    for place, column in enumerate(columns):
        whole = any(_WHOLE.fullmatch(row[place]) for row in cells)
        result.add_column(column, no_wrap=whole, overflow="fold")
    for row in cells:
        result.add_row(*(Text(cell) for cell in row))
    return result


def note(text: str) -> None:
    """A line about progress, on standard error so that JSON stays clean."""
    click.echo(text, err=True)


def _to_pipe(words: Table) -> None:
    """A row is a line, however long: the next program, or a person's `grep`, counts on it."""
    console = Console(width=UNLIMITED, color_system=None)
    with console.capture() as printed:
        console.print(words)
    for line in printed.get().splitlines():
        click.echo(line.rstrip())


def _to_terminal(words: Table) -> None:
    """Words are folded to the terminal's width; rows that do not fit even so are told in lines."""
    console = Console()
    if _least(console, words) <= console.width:
        console.print(words)
        return
    names = [str(column.header) for column in words.columns]
    width = max(map(len, names))
    for number, row in enumerate(zip(*(column.cells for column in words.columns), strict=True)):
        if number:
            click.echo()
        for name, cell in zip(names, row, strict=True):
            click.echo(f"{name:<{width}}  {cell}".rstrip())


def _least(console: Console, words: Table) -> int:
    """The width in which every id and moment is whole and words can still be read."""

    def of(column: Column) -> int:
        measured = [
            Measurement.get(console, console.options.update(width=UNLIMITED), cell).maximum
            for cell in (column.header, *column.cells)
        ]
        return max(measured) if column.no_wrap else min(max(measured), READABLE)

    return sum(of(column) for column in words.columns) + GAP * (len(words.columns) - 1)
