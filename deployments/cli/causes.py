"""`covenant causes`: what moved first at an endpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import click

from deployments.cli.output import show

if TYPE_CHECKING:
    from deployments.cli.main import Session


@click.command("causes")
@click.argument("model")
@click.option("--env", "environment", default="production", show_default=True)
@click.option(
    "--window", type=click.Choice(["15m", "1h", "6h", "24h"]), default="15m", show_default=True
)
@click.option("--at", default="", help="Around this moment instead (RFC 3339).")
@click.pass_obj
def causes(session: Session, model: str, environment: str, window: str, at: str) -> None:
    """Say what moved first, what happened just before, and what it means."""
    query = urlencode({"window": window, **({"at": at} if at else {})})
    found = session.client.get(f"/endpoints/{environment}/{model}/causes/?{query}")
    show(found, as_json=session.as_json, words=_words(found))


def _words(found: dict[str, Any]) -> str:
    lines = [*found["summary"]]
    for one in found["findings"]:
        lines += ["", f"{one['text']}. {one['advice']}."]
        lines += [f"  - {part}" for part in one["evidence"]]
    if found["movers"]:
        lines += ["", "In order of time:"]
        lines += [f"  {one['at'][11:19]}  {one['text']}" for one in found["movers"]]
    return "\n".join(lines)
