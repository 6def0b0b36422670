"""`covenant access`: who may call an endpoint, and how often."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from deployments.cli.client import USAGE, CliError
from deployments.cli.output import show

if TYPE_CHECKING:
    from deployments.cli.main import Session


@click.group()
def access() -> None:
    """Access policies of endpoints."""


@access.command("show")
@click.argument("endpoint", metavar="ENVIRONMENT/MODEL")
@click.pass_obj
def show_policy(session: Session, endpoint: str) -> None:
    """The policy in force, as the document that `access set` takes."""
    found = session.client.get(_path(endpoint))
    show(found, as_json=session.as_json, words=_words(endpoint, found))


@access.command("set")
@click.argument("endpoint", metavar="ENVIRONMENT/MODEL")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--reason", required=True)
@click.option("--revision", type=int, help="Refuse when the policy has changed since.")
@click.pass_obj
def set_policy(
    session: Session, endpoint: str, file: Path, reason: str, revision: int | None
) -> None:
    """Put the policy in FILE (JSON) in force; what it leaves out has its default."""
    path = _path(endpoint)
    try:
        policy = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise CliError(f"{file} is no JSON: {error}.", exit_code=USAGE) from error
    base = session.client.get(path)["revision"] if revision is None else revision
    body = {"policy": policy, "reason": reason}
    answer = session.client.put(path, body, None, **{"If-Match": f'"{base}"'}).json()
    show(answer, as_json=session.as_json, words=_words(endpoint, answer))


def _path(endpoint: str) -> str:
    if endpoint.count("/") != 1:
        raise CliError(f"{endpoint!r} is not ENVIRONMENT/MODEL.", exit_code=USAGE)
    return f"/endpoints/{endpoint}/access/"


def _words(endpoint: str, found: dict[str, Any]) -> str:
    if not found["revision"]:
        return f"{endpoint} has no access policy: everybody who reaches the gateway may call it."
    text = json.dumps(found["policy"], indent=2, ensure_ascii=False)
    return f"{endpoint}, revision {found['revision']} by {found['changed_by']}:\n{text}"
