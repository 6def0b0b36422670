"""`covenant fallback`: what answers while no model may, and which rule would."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from deployments.cli.client import USAGE, CliError
from deployments.cli.deploying import endpoint_path
from deployments.cli.output import show

if TYPE_CHECKING:
    from deployments.cli.main import Session


@click.group()
def fallback() -> None:
    """The rules and the fixed response of an endpoint's fallback."""


@fallback.command("show")
@click.argument("endpoint", metavar="ENVIRONMENT/MODEL")
@click.pass_obj
def show_fallback(session: Session, endpoint: str) -> None:
    """The rules in force, in their order, and how often each answered in the last hour."""
    found = session.client.get(f"/endpoints/{endpoint_path(endpoint)}/fallback/")
    show(found, as_json=session.as_json, words=_words(found))


@fallback.command("try")
@click.argument("endpoint", metavar="ENVIRONMENT/MODEL")
@click.option("--inputs", help='One row as JSON: {"amount": 12.5}.')
@click.option(
    "--file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A file with one row, or a list of rows, as JSON.",
)
@click.pass_obj
def try_fallback(session: Session, endpoint: str, inputs: str | None, file: Path | None) -> None:
    """Which rule would answer these rows; nothing is sent to a gateway."""
    if (inputs is None) == (file is None):
        raise CliError("Give either --inputs or --file.", exit_code=USAGE)
    given = _read(inputs if inputs is not None else file)
    rows = given if isinstance(given, list) else [given]
    path = f"/endpoints/{endpoint_path(endpoint)}/fallback/try/"
    trial = session.client.post(path, {"rows": rows})
    show(trial, as_json=session.as_json, words="\n".join(map(_row_words, trial["rows"])))


def _read(given: str | Path | None) -> Any:
    try:
        text = given.read_text(encoding="utf-8") if isinstance(given, Path) else str(given)
        return json.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        raise CliError(
            f"This is no JSON: {error}.",
            exit_code=USAGE,
            hint='Write a row as {"amount": 12.5, "country": "NL"}.',
        ) from error


def _words(found: dict[str, Any]) -> str:
    if found["revision"] is None:
        return "There is no contract in force, so there is no fallback."
    lines = [f"Contract revision {found['revision']}, mode {found['mode']}."]
    for number, rule in enumerate(found["rules"], start=1):
        lines.append(f"{number}. {rule['name']}: {rule['when']}")
        lines.append(f"   answers {json.dumps(rule['response'], ensure_ascii=False)}")
        lines.append(f"   {rule['answered']} rows in the last hour, {rule['unjudged']} unjudged")
    lines.append(f"Otherwise {json.dumps(found['response'], ensure_ascii=False)}")
    return "\n".join(lines)


def _row_words(row: dict[str, Any]) -> str:
    who = f"rule {row['rule']}" if row["rule"] else "the fixed response"
    unjudged = f" (could not be judged: {', '.join(row['unjudged'])})" if row["unjudged"] else ""
    return f"{who}: {json.dumps(row['response'], ensure_ascii=False)}{unjudged}"
