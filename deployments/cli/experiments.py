"""`covenant experiment` and `covenant compare`: two versions by outcomes, and by their answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import click

from deployments.cli.output import show

if TYPE_CHECKING:
    from deployments.cli.main import Session


@click.group()
def experiment() -> None:
    """Compare two versions by what their answers lead to."""


@experiment.command("start")
@click.argument("model")
@click.option("--env", "environment", default="production", show_default=True)
@click.option("--name", required=True)
@click.option("--outcome", required=True, help="The name that callers report, such as purchase.")
@click.option("--baseline", type=int, required=True)
@click.option("--candidate", type=int, required=True)
@click.option("--margin", type=float, default=1.0, show_default=True, help="Percentage points.")
@click.option("--confidence", type=float, default=95.0, show_default=True, help="Percent.")
@click.option(
    "--window", default="10m", show_default=True, help="How long an outcome counts: 30s, 10m, 24h."
)
@click.option(
    "--take-off/--keep",
    default=True,
    show_default=True,
    help="Whether a candidate that is shown to be worse loses its traffic.",
)
@click.pass_obj
def start(session: Session, /, model: str, environment: str, **wanted: Any) -> None:
    """Begin to count the outcomes of two versions that are ready."""
    made = session.client.post(f"/endpoints/{environment}/{model}/experiments/", wanted)
    words = (
        f"Experiment {made['id']} runs: v{made['candidate']} against v{made['baseline']} by "
        f"{made['outcome']}.\nReport outcomes to POST /v1/outcomes at the gateway of {environment}."
    )
    show(made, as_json=session.as_json, words=words)


@experiment.command("list")
@click.argument("model")
@click.option("--env", "environment", default="production", show_default=True)
@click.pass_obj
def list_(session: Session, model: str, environment: str) -> None:
    """An endpoint's experiments, newest first."""
    page = session.client.get(f"/endpoints/{environment}/{model}/experiments/")
    lines = [
        f"{one['id']}  {one['state']:<9}  v{one['baseline']} → v{one['candidate']}  "
        f"{one['outcome']}  {one['name']}"
        for one in page["results"]
    ]
    show(page, as_json=session.as_json, words="\n".join(lines) or "No experiment yet.")


@experiment.command("show")
@click.argument("model")
@click.argument("experiment_id")
@click.option("--env", "environment", default="production", show_default=True)
@click.pass_obj
def show_(session: Session, model: str, experiment_id: str, environment: str) -> None:
    """What an experiment says so far; it may be asked at any time."""
    found = session.client.get(f"/endpoints/{environment}/{model}/experiments/{experiment_id}/")
    show(found, as_json=session.as_json, words=_words(found))


@experiment.command("stop")
@click.argument("model")
@click.argument("experiment_id")
@click.option("--env", "environment", default="production", show_default=True)
@click.option("--reason", default="")
@click.pass_obj
def stop(session: Session, model: str, experiment_id: str, environment: str, reason: str) -> None:
    """End an experiment; the traffic stays as it is."""
    ended = session.client.post(
        f"/endpoints/{environment}/{model}/experiments/{experiment_id}/stop/", {"reason": reason}
    )
    show(ended, as_json=session.as_json, words=_words(ended))


@click.command()
@click.argument("model")
@click.option("--env", "environment", default="production", show_default=True)
@click.option("--baseline", type=int, default=None, help="The pair that is compared without it.")
@click.option("--candidate", type=int, default=None)
@click.option("--from", "since", default="", help="A time; an hour ago without it.")
@click.option("--to", "until", default="", help="A time; now without it.")
@click.pass_obj
def compare(
    session: Session,
    model: str,
    environment: str,
    baseline: int | None,
    candidate: int | None,
    since: str,
    until: str,
) -> None:
    """How far two versions' answers to the same requests differ."""
    wanted = {"baseline": baseline, "candidate": candidate, "from": since, "to": until}
    query = urlencode({name: value for name, value in wanted.items() if value})
    found = session.client.get(f"/endpoints/{environment}/{model}/comparison/?{query}")
    show(found, as_json=session.as_json, words=_compared(found))


def _words(found: dict[str, Any]) -> str:
    lines = [f"{found['name']} ({found['state']}): {found['verdict']}"]
    lines += [
        f"  v{one['version']}: {one['converted']} of {one['answered']} answers"
        f"{_interval(one['conversion'], ' %')}; {one['waiting']} not yet counted"
        for one in found["versions"]
    ]
    if found["difference"]:
        lines.append(f"  difference{_interval(found['difference'], ' points')}")
    if found["message"]:
        lines.append(f"  {found['message']}")
    return "\n".join(lines)


def _interval(found: dict[str, float] | None, unit: str) -> str:
    if found is None:
        return ""
    return f": {found['value']:.2f}{unit} ({found['low']:.2f} to {found['high']:.2f})"


def _compared(found: dict[str, Any]) -> str:
    share = found["differing_share"]
    lines = [
        f"v{found['candidate']} against v{found['baseline']}: {found['compared']} of "
        f"{found['sampled']} sampled requests compared, "
        f"{'—' if share is None else f'{100 * share:.2f} %'} differ; broke the contract: "
        f"{found['baseline_faults']} and {found['candidate_faults']}"
    ]
    for one in found["outputs"]:
        most = one["max_difference"]
        lines.append(
            f"  {one['name']}: {one['differing_rows']} of {one['rows']} rows differ, at most by "
            f"{'—' if most is None else f'{most:.6g}'}"
            f"{_faults(one['candidate_faults'])}"
        )
    return "\n".join(lines)


def _faults(kinds: dict[str, int]) -> str:
    said = ", ".join(f"{kind} {count}" for kind, count in sorted(kinds.items()))
    return f"; candidate's faults: {said}" if said else ""
