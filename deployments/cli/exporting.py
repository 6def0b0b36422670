"""`covenant export`: what other products take: dashboards for Grafana."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from deployments.cli.output import show
from deployments.rules.statistics import grafana

if TYPE_CHECKING:
    from deployments.cli.main import Session


@click.group()
def export() -> None:
    """Files for other products."""


@export.command("grafana-dashboards")
@click.option(
    "--out",
    "-o",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("grafana"),
    show_default=True,
    help="Folder to write to; files of the same names are replaced.",
)
@click.pass_obj
def grafana_dashboards(session: Session, out: Path) -> None:
    """Dashboards of endpoints, machines and root causes; needs no server."""
    out.mkdir(parents=True, exist_ok=True)
    written = []
    for name, document in grafana.files().items():
        (out / name).write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
        written.append(str(out / name))
    show(
        {"files": written},
        as_json=session.as_json,
        words="\n".join(f"Wrote {one}." for one in written),
    )
