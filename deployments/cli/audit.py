"""`covenant audit`: check the trail of a server, take it home as a file, check that without one."""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from console.errors import Invalid
from console.rules.audit_lines import FileReport, verify_lines
from console.rules.signing_keys import PublicKey, parse_public_key
from deployments.cli.client import GATE_FAILED, USAGE, CliError
from deployments.cli.jobs import follow
from deployments.cli.output import note, show

if TYPE_CHECKING:
    from deployments.cli.main import Session


@click.group()
def audit() -> None:
    """The audit trail."""


@audit.command("verify")
@click.argument(
    "file", required=False, type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
@click.option(
    "--key",
    "key_files",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The installation's public key (PEM or JWK), got another way than the file.",
)
@click.pass_obj
def verify(session: Session, file: Path | None, key_files: tuple[Path, ...]) -> None:
    """Check the server's whole chain, or FILE alone: no server, no account. Exit code 4: broken."""
    if file is None:
        job = follow(session, session.client.post("/audit/verify/")["id"])
        report = job["result"]
        words = f"{report['checked']} entries, {report['checkpoints']} signed checkpoints."
        faults = report["faults"]
    else:
        found = _verify_file(file, key_files)
        report, faults = found.to_json(), found.to_json()["faults"]
        words = _file_words(found)
    show(report, as_json=session.as_json, words=words)
    if faults:
        raise CliError(
            f"The chain does not hold: {_fault_words(faults)}",
            exit_code=GATE_FAILED,
            hint="Keep what you have, and tell your platform admin.",
        )
    note("The chain holds.")


@audit.command("export")
@click.option("-o", "--output", required=True, type=click.Path(dir_okay=False, path_type=Path))
@click.option("--as", "form", type=click.Choice(["jsonl", "csv"]), default="jsonl")
@click.option("--gz", is_flag=True, help="Compressed by gzip.")
@click.option("--bom", is_flag=True, help="CSV with a byte order mark, for Excel.")
@click.option("--actor", default="", help="A username.")
@click.option("--action", default="", help="What the action starts with.")
@click.option("--subject", default="", help="What the subject starts with.")
@click.option("--denied", is_flag=True, help="Only what was refused.")
@click.option("--from", "since", default="", help="A time or date (RFC 3339), included.")
@click.option("--to", "until", default="", help="A time or date (RFC 3339), not included.")
@click.pass_obj
def export(
    session: Session, /, output: Path, form: str, gz: bool, bom: bool, denied: bool, **filters: str
) -> None:
    """Write the trail to a file as it comes; unfiltered JSONL verifies without a server."""
    wanted = {
        "as": form,
        "gz": "1" if gz else "",
        "bom": "1" if bom else "",
        "outcome": "denied" if denied else "",
        "actor": filters["actor"],
        "action": filters["action"],
        "subject": filters["subject"],
        "from": filters["since"],
        "to": filters["until"],
    }
    params = {name: value for name, value in wanted.items() if value}
    size = session.client.save("/audit/export/", output, params)
    show(
        {"file": str(output), "bytes": size},
        as_json=session.as_json,
        words=f"{size} bytes in {output}.",
    )


def _verify_file(path: Path, key_files: tuple[Path, ...]) -> FileReport:
    keys = _keys(key_files)
    if not keys:
        note("Without --key no checkpoint can be checked: any is a fault.")
    try:
        with _opened(path) as lines:
            return verify_lines(lines, keys)
    except (OSError, EOFError, Invalid) as error:
        raise CliError(
            error.message if isinstance(error, Invalid) else f"{path} cannot be read: {error}.",
            exit_code=GATE_FAILED,
            hint=error.hint if isinstance(error, Invalid) else "Fetch it again.",
        ) from error


def _keys(files: tuple[Path, ...]) -> dict[str, PublicKey]:
    keys: dict[str, PublicKey] = {}
    for path in files:
        try:
            key = parse_public_key(path.read_bytes())
        except (OSError, Invalid) as error:
            raise CliError(f"{path} is no public key: {error}", exit_code=USAGE) from error
        keys[key.key_id] = key
    return keys


@contextmanager
def _opened(path: Path) -> Iterator[Iterable[bytes]]:
    with path.open("rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        if packed:
            with gzip.open(file) as unpacked:
                yield unpacked
        else:
            yield file


def _file_words(report: FileReport) -> str:
    words = f"{report.entries} entries, #{report.first} to #{report.last}"
    if report.filtered:
        return f"{words}; filtered, so each is checked by itself alone."
    return f"{words}; {report.checkpoints} checkpoints signed by the key given."


def _fault_words(faults: list[dict[str, Any]]) -> str:
    return "; ".join(f"#{fault['sequence']} {fault['kind']}: {fault['detail']}" for fault in faults)
