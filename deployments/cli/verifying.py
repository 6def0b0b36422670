"""`covenant verify`: check a bundle with no server and no account.

Imports nothing that a verifier does not need, so that it runs where only
`deploy/requirements/verify.txt` is installed.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

import click

from console.errors import CovenantError
from deployments.cli import offline

GATE_FAILED = 4


@click.command()
@click.argument("file", type=click.File("rb"))
@click.option(
    "--trust", multiple=True, metavar="[SEAT=]KEYID", help="Only these keys count; repeatable."
)
@click.option(
    "--file",
    "named_files",
    multiple=True,
    type=(str, click.Path(exists=True, path_type=Path)),
    metavar="NAME PATH",
    help="Compare a file (onnx, onnx_data, config …) with what a release signed.",
)
@click.option(
    "--keys",
    "key_set",
    type=click.File("rb"),
    help="Exported public keys (JWKS): whose they are, and which were revoked since.",
)
@click.option("--json", "json_here", is_flag=True, help="Print JSON.")
@click.pass_context
def verify(
    context: click.Context,
    file: BinaryIO,
    trust: tuple[str, ...],
    named_files: tuple[tuple[str, Path], ...],
    key_set: BinaryIO | None,
    json_here: bool,
) -> None:
    """Verify a bundle offline: no server, no account. Exit code 4 when it does not hold."""
    try:
        offline.read_trust(trust)
    except CovenantError as error:
        raise click.UsageError(f"{error.message} {error.hint}".strip()) from error
    report = offline.verify(
        file.read(),
        trust=trust,
        files=dict(named_files),
        key_set=key_set.read() if key_set else None,
        now=datetime.now(UTC),
    )
    as_json = json_here or bool(getattr(context.find_root().obj, "as_json", False))
    if as_json:
        click.echo(json.dumps(offline.report_json(report), indent=2, ensure_ascii=False))
    else:
        click.echo(offline.report_words(report))
    if not report.ok:
        click.echo("covenant: The bundle does not hold.", err=True)
        context.exit(GATE_FAILED)


def main(arguments: list[str]) -> int:
    """Run `covenant verify` alone; gives the exit code. Errors are one message and a hint."""
    try:
        ended = verify.main(arguments, prog_name="covenant verify", standalone_mode=False)
    except click.exceptions.Exit as ending:
        return ending.exit_code
    except click.Abort:
        return 130
    except click.ClickException as error:
        error.show()
        return 2
    except CovenantError as error:
        click.echo(f"covenant: {error.message}", err=True)
        if error.hint:
            click.echo(f"  {error.hint}", err=True)
        return 1
    return int(ended or 0)
