"""`covenant export`: what other products take: dashboards, alert rules, objectives."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import click

from deployments.cli.client import USAGE, CliError
from deployments.cli.output import show
from deployments.rules.statistics import grafana

if TYPE_CHECKING:
    from deployments.cli.main import Session


OUT = click.option(
    "--out",
    "-o",
    type=click.Path(dir_okay=False, path_type=Path),
    default=None,
    help="File to write to; standard output without it.",
)


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


@export.command("prometheus-rules")
@click.option("--environment", default="")
@click.option("--model", default="")
@OUT
@click.pass_obj
def prometheus_rules(session: Session, environment: str, model: str, out: Path | None) -> None:
    """Recording and alert rules from the contracts that hold: burn rates by endpoint."""
    _write(session, "/exports/prometheus-rules/", environment, model, out)


@export.command("openslo")
@click.option("--environment", default="")
@click.option("--model", default="")
@OUT
@click.pass_obj
def openslo(session: Session, environment: str, model: str, out: Path | None) -> None:
    """Objectives of the contracts that hold, as OpenSLO v1 documents."""
    _write(session, "/exports/openslo/", environment, model, out)


@click.command("import-openslo")
@click.argument("model")
@click.argument(
    "path", metavar="FILE", type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
@click.option("--service", default="", help="Of which service, when the file has several.")
@click.option("--title", default="", help="Of the draft.")
@click.pass_obj
def import_openslo(session: Session, model: str, path: Path, service: str, title: str) -> None:
    """Start a draft of MODEL's next contract with the objectives of an OpenSLO file."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise CliError(f"{path} is no UTF-8 text.", exit_code=USAGE) from error
    made = session.client.post(
        f"/models/{model}/openslo/", {"openslo": text, "service": service, "title": title}
    )
    lines = [f"Draft “{made['title']}” ({made['draft']}):"]
    for one in made["objectives"]:
        limit = f" within {one['threshold_ms']:g} ms" if "threshold_ms" in one else ""
        lines.append(f"  {one['name']}: {one['target']:g} %{limit} over {one['window']}")
    lines += [f"  not read: {name}" for name in made["left_out"]]
    show(made, as_json=session.as_json, words="\n".join(lines))


def _write(session: Session, path: str, environment: str, model: str, out: Path | None) -> None:
    query = urlencode({"environment": environment, "model": model})
    text = session.client.content(f"{path}?{query}").decode()
    if out is None:
        show({"content": text}, as_json=session.as_json, words=text.rstrip("\n"))
        return
    out.write_text(text, encoding="utf-8")
    show({"files": [str(out)]}, as_json=session.as_json, words=f"Wrote {out}.")
