"""`covenant callers`: programs that call models, and their keys."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from deployments.cli.client import USAGE, CliError
from deployments.cli.output import note, show, table

if TYPE_CHECKING:
    from deployments.cli.main import Session


@click.group()
def callers() -> None:
    """Callers of an environment, their keys, and token issuers."""


@callers.command("list")
@click.argument("environment")
@click.pass_obj
def list_callers(session: Session, environment: str) -> None:
    """The callers of an environment, with their keys that open something now."""
    page = session.client.get(f"/environments/{environment}/callers/", limit=200)
    show(
        page,
        as_json=session.as_json,
        words=table(("CALLER", "STATE", "KEYS", "CONTACT"), (_row(one) for one in page["results"])),
    )


@callers.command("create")
@click.argument("environment")
@click.argument("name")
@click.option("--description", default="")
@click.option("--contact", default="", help="Whom to ask about it.")
@click.pass_obj
def create(session: Session, environment: str, name: str, description: str, contact: str) -> None:
    """Register a caller; give it a key with `covenant callers key`."""
    made = session.client.post(
        f"/environments/{environment}/callers/",
        {"name": name, "description": description, "contact": contact},
    )
    show(made, as_json=session.as_json, words=f"{environment} knows the caller {name}.")


@callers.command("key")
@click.argument("environment")
@click.argument("name")
@click.option("--days", type=int, help="Days until it ends; 365 when left out.")
@click.option("--without-end", is_flag=True, help="A key that does not end.")
@click.pass_obj
def key(session: Session, environment: str, name: str, days: int | None, without_end: bool) -> None:
    """Make an API key; its text is printed this once, alone, on standard output."""
    if days is not None and without_end:
        raise CliError("Give --days or --without-end, not both.", exit_code=USAGE)
    body: dict[str, Any] = {} if days is None else {"expires_in_days": days}
    if without_end:
        body = {"expires_in_days": None}
    made = session.client.post(f"/environments/{environment}/callers/{name}/keys/", body)
    note("Send it as x-api-key. It is kept nowhere: who loses it makes another.")
    show(made, as_json=session.as_json, words=made["key"])


@callers.command("revoke")
@click.argument("environment")
@click.argument("name")
@click.argument("prefix")
@click.pass_obj
def revoke(session: Session, environment: str, name: str, prefix: str) -> None:
    """Revoke a key, by the prefix that the list shows."""
    path = f"/environments/{environment}/callers/{name}/keys/{prefix}/"
    gone = session.client.request("DELETE", path).json()
    show(gone, as_json=session.as_json, words=f"{prefix} opens nothing any more.")


@callers.command("block")
@click.argument("environment")
@click.argument("name")
@click.option("--reason", default="")
@click.pass_obj
def block(session: Session, environment: str, name: str, reason: str) -> None:
    """Let a caller in nowhere, whichever key or token it brings."""
    _switch(session, environment, name, "block", reason)


@callers.command("unblock")
@click.argument("environment")
@click.argument("name")
@click.option("--reason", default="")
@click.pass_obj
def unblock(session: Session, environment: str, name: str, reason: str) -> None:
    """Let a blocked caller in again."""
    _switch(session, environment, name, "unblock", reason)


@callers.command("issuers")
@click.argument("environment")
@click.pass_obj
def issuers(session: Session, environment: str) -> None:
    """The token issuers of an environment."""
    page = session.client.get(f"/environments/{environment}/token-issuers/", limit=200)
    rows = (
        (
            one["name"],
            one["issuer"],
            ", ".join(one["audiences"]),
            one["caller_claim"],
            len(one["jwks"].get("keys", [])),
            one["fetched_at"] or "",
        )
        for one in page["results"]
    )
    columns = ("NAME", "ISSUER", "AUDIENCES", "CALLER IN", "KEYS", "FETCHED")
    show(page, as_json=session.as_json, words=table(columns, rows))


@callers.command("set-issuer")
@click.argument("environment")
@click.argument("name")
@click.option("--issuer", required=True, help="What stands in the tokens' iss.")
@click.option("--audience", "audiences", multiple=True, required=True)
@click.option("--caller-claim", default="sub", help="The claim that names the caller.")
@click.option("--jwks", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--jwks-url", default="", help="Fetched now, and each minute from then on.")
@click.pass_obj
def set_issuer(
    session: Session,
    environment: str,
    name: str,
    issuer: str,
    audiences: tuple[str, ...],
    caller_claim: str,
    jwks: Path | None,
    jwks_url: str,
) -> None:
    """Register a token issuer, or change its registration."""
    body: dict[str, Any] = {
        "issuer": issuer,
        "audiences": list(audiences),
        "caller_claim": caller_claim,
        "jwks_url": jwks_url,
    }
    if jwks is not None:
        try:
            body["jwks"] = json.loads(jwks.read_text(encoding="utf-8"))
        except ValueError as error:
            raise CliError(f"{jwks} is no JSON: {error}.", exit_code=USAGE) from error
    path = f"/environments/{environment}/token-issuers/{name}/"
    made = session.client.put(path, body).json()
    count = len(made["jwks"]["keys"])
    show(made, as_json=session.as_json, words=f"{name}: {count} signing keys are known.")


def _switch(session: Session, environment: str, name: str, act: str, reason: str) -> None:
    path = f"/environments/{environment}/callers/{name}/{act}/"
    changed = session.client.post(path, {"reason": reason})
    state = "is blocked" if changed["blocked_at"] else "may call again"
    show(changed, as_json=session.as_json, words=f"{name} {state} in {environment}.")


def _row(caller: dict[str, Any]) -> tuple[str, str, str, str]:
    usable = [one["prefix"] for one in caller["keys"] if one["usable"]]
    state = "blocked" if caller["blocked_at"] else "active"
    return caller["name"], state, ", ".join(usable), caller["contact"]
