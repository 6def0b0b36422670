"""`covenant batching`: what to change in the batching of an endpoint's versions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from deployments.cli.deploying import endpoint_path
from deployments.cli.output import show

if TYPE_CHECKING:
    from deployments.cli.main import Session


@click.command("batching")
@click.argument("endpoint", metavar="ENVIRONMENT/MODEL")
@click.option("--from", "start", default="", help="RFC 3339; an hour ago without it.")
@click.option("--to", "end", default="", help="RFC 3339; now without it.")
@click.pass_obj
def batching(session: Session, endpoint: str, start: str, end: str) -> None:
    """What to change, why, and what it will do; out of what was counted."""
    span = {name: value for name, value in (("from", start), ("to", end)) if value}
    found = session.client.get(f"/endpoints/{endpoint_path(endpoint)}/batching/", **span)
    show(found, as_json=session.as_json, words=_words(found))


def _words(found: dict[str, Any]) -> str:
    if not found["versions"]:
        return "No version was asked in this span."
    lines = []
    for one in found["versions"]:
        lines.append(
            f"v{one['version']}: {one['requests_per_second']:.1f} requests/s, "
            f"{one['batch_efficiency']:.2f} rows in an execution, {one['load']:.1f} at once, "
            f"queue {one['queue_ms']:.2f} ms, compute {one['compute_ms']:.2f} ms"
        )
        for advice in one["advice"]:
            change = f" ({advice['setting']}: {advice['now']} → {advice['wanted']})"
            lines.append(f"  {advice['title']}{change if advice['setting'] else ''}")
            lines.append(f"    Why: {advice['why']}")
            if advice["effect"]:
                lines.append(f"    Then: {advice['effect']}")
    return "\n".join(lines)
