"""`covenant gateways`: which gateways there are, what they said, and what they can do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from deployments.cli.client import USAGE, CliError
from deployments.cli.output import show, table

if TYPE_CHECKING:
    from deployments.cli.main import Session


@click.group()
def gateways() -> None:
    """Gateways: Envoy, Kong, and the Kubernetes Gateway API."""


@gateways.command("list")
@click.pass_obj
def list_gateways(session: Session) -> None:
    """The gateways, and whether they act on what is wanted."""
    page = session.client.get("/gateways/")
    rows = (
        (
            one["name"],
            one["adapter"],
            "connected" if one["connected"] else "away",
            ", ".join(place["environment"] for place in one["listeners"]),
            one["acknowledged_at"] or "never",
            one["last_refusal"][:60],
        )
        for one in page["results"]
    )
    columns = ("GATEWAY", "PRODUCT", "STATE", "ENVIRONMENTS", "ACKNOWLEDGED", "LAST REFUSAL")
    show(page, as_json=session.as_json, words=table(columns, rows))


@gateways.command("show")
@click.argument("gateway")
@click.pass_obj
def show_gateway(session: Session, gateway: str) -> None:
    """One gateway, and what it can do of what Covenant asks."""
    found = session.client.get(f"/gateways/{gateway}/")
    rows = ((one["name"], one["level"], one["words"]) for one in found["capabilities"])
    words = table(("CAPABILITY", "LEVEL", "WHAT IS MISSING"), rows)
    show(found, as_json=session.as_json, words=words)


@gateways.command("certificate")
@click.argument("gateway")
@click.argument("environment")
@click.argument("certificate_file", default="")
@click.argument("key_file", default="")
@click.option("--reason", default="")
@click.pass_obj
def set_certificate(
    session: Session,
    gateway: str,
    environment: str,
    certificate_file: str,
    key_file: str,
    reason: str,
) -> None:
    """Have a listener speak TLS with these files of the control's machine; without them, HTTP."""
    body = {"certificate_file": certificate_file, "key_file": key_file, "reason": reason}
    path = f"/gateways/{gateway}/certificates/{environment}/"
    found = session.client.put(path, body).json()
    show(found, as_json=session.as_json, words=f"{environment}: {found['public_url']}")


@gateways.command("add")
@click.argument("gateway")
@click.argument("admin_url", metavar="ADMIN_URL")
@click.option("--product", type=click.Choice(["envoy", "kong", "kubernetes"]), default="envoy")
@click.option(
    "--listen",
    multiple=True,
    required=True,
    metavar="ENVIRONMENT=HOST:PORT[,URL]",
    help="Where it takes calls for an environment, and how callers reach that; may be repeated.",
)
@click.option(
    "--options",
    "file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="What its product needs besides, as a JSON file (see docs/gateways.md).",
)
@click.pass_obj
def add_gateway(
    session: Session,
    gateway: str,
    admin_url: str,
    product: str,
    listen: tuple[str, ...],
    file: Path | None,
) -> None:
    """Register a gateway, or register it anew."""
    body = {
        "name": gateway,
        "adapter": product,
        "admin_url": admin_url,
        "options": _options(file),
        "listeners": [_listener(one) for one in listen],
    }
    made = session.client.post("/gateways/", body)
    show(made, as_json=session.as_json, words=f"{gateway} is registered.")


@gateways.command("remove")
@click.argument("gateway")
@click.option("--reason", required=True)
@click.pass_obj
def remove_gateway(session: Session, gateway: str, reason: str) -> None:
    """Forget a gateway; it serves on with what it has."""
    session.client.request("DELETE", f"/gateways/{gateway}/", json={"reason": reason})
    show({"removed": gateway}, as_json=session.as_json, words=f"{gateway} is forgotten.")


@gateways.command("export")
@click.argument("gateway")
@click.option("--out", "-o", type=click.Path(path_type=Path), default=None)
@click.pass_obj
def export_gateway(session: Session, gateway: str, out: Path | None) -> None:
    """What a gateway should have, as its own tools take it: kong.yaml, or manifests."""
    data = session.client.content(f"/gateways/{gateway}/export/")
    if out is None and not session.as_json:
        click.echo(data.decode(), nl=False)
        return
    target = out or Path(f"{gateway}.yaml")
    target.write_bytes(data)
    show(
        {"file": str(target), "bytes": len(data)},
        as_json=session.as_json,
        words=f"Wrote {target}.",
    )


def _options(file: Path | None) -> Any:
    if file is None:
        return {}
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise CliError(f"{file} is no JSON: {error}.", exit_code=USAGE) from error


def _listener(text: str) -> dict[str, Any]:
    environment, _, rest = text.partition("=")
    place, _, url = rest.partition(",")
    address, _, port = place.rpartition(":")
    if not environment or not address or not port.isdecimal():
        raise CliError(
            f"{text!r} says not where it listens.",
            exit_code=USAGE,
            hint="Write --listen production=10.0.0.5:8000,https://models.example.com",
        )
    listener = {"environment": environment, "address": address.strip("[]"), "port": int(port)}
    return {**listener, "public_url": url} if url else listener
