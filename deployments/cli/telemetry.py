"""`covenant telemetry`: drift, entropy, what others send, and what versions were trained on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from deployments.cli.client import USAGE, CliError
from deployments.cli.output import show, table

if TYPE_CHECKING:
    from deployments.cli.main import Session

FEATURES = 10


@click.group()
def telemetry() -> None:
    """How far callers' data is from training, and how undecided a model answers."""


@telemetry.command("show")
@click.argument("endpoint", metavar="ENVIRONMENT/MODEL")
@click.pass_obj
def show_telemetry(session: Session, endpoint: str) -> None:
    """What is measured and how it stands, the worst features first."""
    found = session.client.get(_path(endpoint))
    show(found, as_json=session.as_json, words=_words(endpoint, found))


@telemetry.command("chart")
@click.argument("endpoint", metavar="ENVIRONMENT/MODEL")
@click.argument("name")
@click.option("--window", default="1h", help="1h, 6h, 24h, 7d, 28d.")
@click.option("--label", default="", help="A feature or output; * for all of them.")
@click.pass_obj
def chart(session: Session, endpoint: str, name: str, window: str, label: str) -> None:
    """The minutes of one series, as feature_drift_score."""
    path = f"{_path(endpoint)}charts/{name}/"
    found = session.client.get(path, window=window, label=label)
    rows = [
        (line["name"], at, f"{value:g}")
        for line in found["series"]
        for at, value in zip(line["x"], line["y"], strict=True)
        if value is not None
    ]
    show(found, as_json=session.as_json, words=table(("SERIES", "TIME", "VALUE"), rows))


@telemetry.command("set")
@click.argument("endpoint", metavar="ENVIRONMENT/MODEL")
@click.option("--on/--off", "measured", default=None, help="Measure it without a promise, or not.")
@click.option("--percent", type=float, help="Of the requests that are looked at.")
@click.option("--reason", default="")
@click.pass_obj
def set_telemetry(
    session: Session, endpoint: str, measured: bool | None, percent: float | None, reason: str
) -> None:
    """Choose what is measured; what the contract promises is measured in any case."""
    found = session.client.get(_path(endpoint))
    wanted = {
        "measured": found["measured"] if measured is None else measured,
        "percent": (found["percent"] or 5.0) if percent is None else percent,
        "reason": reason,
    }
    answer = session.client.put(
        _path(endpoint), wanted, None, **{"If-Match": f'"{found["revision"]}"'}
    ).json()
    show(answer, as_json=session.as_json, words=_words(endpoint, answer))


@telemetry.command("reference")
@click.argument("model")
@click.argument("version", type=int)
@click.argument("path", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--note", default="", help="Where it comes from.")
@click.pass_obj
def reference(session: Session, model: str, version: int, path: Path, note: str) -> None:
    """Record what a version was trained on: CSV with a line of names, or a v2 request as JSON."""
    upload = session.client.upload(path)
    found = session.client.post(
        f"/models/{model}/versions/{version}/reference-sample/",
        {"upload": upload["id"], "note": note},
    )
    words = (
        f"{found['rows']} rows of {len(found['features'])} features are recorded with "
        f"{model} v{version} ({found['sha256'][:12]})."
    )
    show(found, as_json=session.as_json, words=words)


def _path(endpoint: str) -> str:
    if endpoint.count("/") != 1:
        raise CliError(f"{endpoint!r} is not ENVIRONMENT/MODEL.", exit_code=USAGE)
    return f"/endpoints/{endpoint}/telemetry/"


def _words(endpoint: str, found: dict[str, Any]) -> str:
    why = "promised by the contract" if found["promised"] else "chosen"
    if not found["percent"]:
        lines = [f"{endpoint} is not measured: no contract promises it and nobody chose it."]
    else:
        limit = found["feature_drift_limit"]
        limits = f", drift is to stay below {limit:g}" if limit is not None else ""
        lines = [
            f"{endpoint}: {found['percent']:g} % of the requests are looked at ({why}{limits})."
        ]
    for one in found["versions"]:
        lines += ["", *_version_words(one)]
    if found["sent"]:
        rows = [
            (one["name"], one["label"], one["version"] or "—", f"{one['newest']:g}", one["at"])
            for one in found["sent"]
        ]
        lines += ["", *_aligned(("SENT", "LABEL", "VERSION", "NEWEST", "AT"), rows)]
    return "\n".join(lines)


def _version_words(one: dict[str, Any]) -> list[str]:
    figures = [
        f"{word} {one[name]['newest']:.3f}"
        for name, word in (("drift", "drift"), ("psi", "PSI"), ("entropy", "entropy"))
        if one[name] is not None
    ]
    said = ", ".join(figures) or "nothing measured yet"
    lines = [f"v{one['number']} ({one['percent']:g} % of the traffic): {said}"]
    if one["without_sample"]:
        lines.append("  no training sample: record one with `covenant telemetry reference`")
    rows = [
        (
            f"  {f['title']}",
            f"{f['score']:.3f}",
            f"{f['psi']:.3f}",
            f"{f['by_chance']:.3f}",
            f["rows"],
        )
        for f in one["features"][:FEATURES]
    ]
    if rows:
        lines += _aligned(("  FEATURE", "SCORE (KS)", "PSI", "BY CHANCE", "ROWS"), rows)
    return lines


def _aligned(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[str]:
    """Lines of a table between other words."""
    cells = [[str(cell) for cell in row] for row in [columns, *rows]]
    widths = [max(len(row[place]) for row in cells) for place in range(len(columns))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    ]
