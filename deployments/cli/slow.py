"""`covenant slow`: where the time of an endpoint's slow requests went."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from deployments.cli.deploying import endpoint_path
from deployments.cli.output import show

if TYPE_CHECKING:
    from deployments.cli.main import Session

LEAST_MS = 0.005
"""What would be told as 0.00 ms is left out."""


@click.command("slow")
@click.argument("endpoint", metavar="ENVIRONMENT/MODEL")
@click.option("--from", "start", default="", help="RFC 3339; an hour ago without it.")
@click.option("--to", "end", default="", help="RFC 3339; now without it.")
@click.option("--version", default="", help="This version's alone.")
@click.option("--status", default="", help="Those with this status alone.")
@click.option("--request-id", default="", help="This X-Request-ID alone.")
@click.option("--csv", "out", type=click.Path(path_type=Path), default=None, metavar="FILE")
@click.pass_obj
def slow(
    session: Session,
    endpoint: str,
    start: str,
    end: str,
    version: str,
    status: str,
    request_id: str,
    out: Path | None,
) -> None:
    """Percentiles explained by stage, and the worst requests; by the gateways' access logs."""
    wanted = {
        "from": start,
        "to": end,
        "version": version,
        "status": status,
        "x_request_id": request_id,
    }
    wanted = {name: value for name, value in wanted.items() if value}
    path = f"/endpoints/{endpoint_path(endpoint)}/slow-requests"
    if out is not None:
        size = session.client.save(f"{path}.csv", out, wanted)
        show({"file": str(out), "bytes": size}, as_json=session.as_json, words=f"Wrote {out}.")
        return
    found = session.client.get(f"{path}/", **wanted)
    show(found, as_json=session.as_json, words=_words(found))


def _words(found: dict[str, Any]) -> str:
    missing = [one["gateway"] for one in found["logs"] if one["missing"]]
    lines = [f"{found['requests']} requests from {found['start']} to {found['end']}"]
    if missing:
        lines.append(f"The access log of {', '.join(missing)} is not seen by the server.")
    if not found["requests"]:
        return "\n".join(lines)
    names = found["stage_names"]
    for one in found["percentiles"]:
        stages = sorted(one["stages"].items(), key=lambda part: -part[1])
        lines.append(f"P{one['percent']:g}: {one['value_ms']:.2f} ms. {one['words']}")
        lines += [f"  {ms:9.2f} ms  {names[name]}" for name, ms in stages if ms >= LEAST_MS]
    lines.append("The slowest:")
    for one in found["worst"][:20]:
        version = f"v{one['version']}" if one["version"] else "no version"
        lines.append(
            f"  {one['total_ms']:9.2f} ms  {one['x_request_id']}  {one['status']} {version}, "
            f"mostly “{names[one['main']]}”, {one['at']}"
        )
    return "\n".join(lines)
