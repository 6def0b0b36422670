"""What the CLI prints: words for people, JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text


def show(data: Any, *, as_json: bool, words: str | Table) -> None:
    """Print `data` as JSON or `words` for a person."""
    if as_json:
        click.echo(json.dumps(data, indent=2, ensure_ascii=False))
    elif isinstance(words, str):
        click.echo(words)
    else:
        Console().print(words)


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Table:
    """A plain table; cells are text as it stands, never markup."""
    result = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        result.add_column(column)
    for row in rows:
        result.add_row(*(Text("" if cell is None else str(cell)) for cell in row))
    return result


def note(text: str) -> None:
    """A line about progress, on standard error so that JSON stays clean."""
    click.echo(text, err=True)
