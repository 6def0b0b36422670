"""`covenant rollout`: progressive rollouts from the command line."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from deployments.cli.client import GATE_FAILED, USAGE, CliError
from deployments.cli.deploying import endpoint_path
from deployments.cli.output import note, show, table
from deployments.cli.prefixes import whole_id

if TYPE_CHECKING:
    from deployments.cli.main import Session

ACTIVE = ("running", "paused")
COLUMNS = ("ENDPOINT", "VERSION", "STATE", "STEP", "SHARE %", "CAUSE", "ID")
EVERY_S = 1.0


@click.group()
def rollout() -> None:
    """Give a version traffic step by step, and take it back when it does not keep its promise."""


@rollout.command()
@click.argument("endpoint", metavar="ENVIRONMENT/MODEL")
@click.argument("version", type=int)
@click.option("--baseline", type=int, help="The version with most traffic when left out.")
@click.option(
    "--plan",
    "plan_path",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A plan in YAML or JSON; the contract's when left out.",
)
@click.option("--reason", required=True)
@click.option("--wait", is_flag=True, help="Until it has ended; 4 unless it was promoted.")
@click.pass_obj
def start(
    session: Session,
    endpoint: str,
    version: int,
    baseline: int | None,
    plan_path: Path | None,
    reason: str,
    wait: bool,
) -> None:
    """Start a rollout."""
    body: dict[str, Any] = {"version": version, "reason": reason}
    if baseline:
        body["baseline"] = baseline
    if plan_path:
        body["plan"] = plan_path.read_text(encoding="utf-8")
    made = session.client.post(f"/endpoints/{endpoint_path(endpoint)}/rollouts/", body)
    if wait:
        made = _until_ended(session, endpoint, made)
    show(made, as_json=session.as_json, words=_line(made))
    if wait and made["state"] != "promoted":
        raise CliError(
            f"The rollout of v{version} was not promoted: {made['message'] or made['cause']}",
            exit_code=GATE_FAILED,
            hint=f"See `covenant rollout show {endpoint} --id {made['id']}`.",
        )


@rollout.command("list")
@click.argument("endpoint", required=False, metavar="[ENVIRONMENT/MODEL]")
@click.option("--state", default="", help="active, ended, or one state.")
@click.pass_obj
def list_(session: Session, endpoint: str | None, state: str) -> None:
    """Rollouts, newest first."""
    path = f"/endpoints/{endpoint_path(endpoint)}/rollouts/" if endpoint else "/rollouts/"
    found = session.client.get(path, state=state)
    show(found, as_json=session.as_json, words=table(COLUMNS, map(_row, found["results"])))


@rollout.command("show")
@click.argument("endpoint", metavar="ENVIRONMENT/MODEL")
@click.option("--id", "rollout_id", default="", help="The newest one when left out.")
@click.option("--watch", is_flag=True, help="Follow it until it has ended.")
@click.pass_obj
def show_(session: Session, endpoint: str, rollout_id: str, watch: bool) -> None:
    """A rollout with its steps and its newest measurements."""
    found = _find(session, endpoint, rollout_id, active=False)
    if watch:
        found = _until_ended(session, endpoint, found)
    show(found, as_json=session.as_json, words=_steps(found))
    if not session.as_json:
        show(found, as_json=False, words=_measurements(found))
        click.echo(_line(found))


def _act(name: str, words: str, *, needs_reason: bool = False) -> click.Command:
    @click.command(name, help=words)
    @click.argument("endpoint", metavar="ENVIRONMENT/MODEL")
    @click.option("--id", "rollout_id", default="", help="The one under way when left out.")
    @click.option("--reason", required=needs_reason, default="" if not needs_reason else None)
    @click.pass_obj
    def act(session: Session, endpoint: str, rollout_id: str, reason: str) -> None:
        found = _find(session, endpoint, rollout_id, active=True)
        path = f"/endpoints/{endpoint_path(endpoint)}/rollouts/{found['id']}/{name}/"
        answer = session.client.post(path, {"reason": reason} if reason else {})
        show(answer, as_json=session.as_json, words=_line(answer))

    return act


for command in (
    _act("pause", "Begin no step until it is resumed."),
    _act("resume", "Let a paused rollout go on, or approve it."),
    _act("skip", "End the step under way, whatever it waits for."),
    _act("promote", "Give the version all traffic now.", needs_reason=True),
    _act("abort", "Take all traffic off the version now.", needs_reason=True),
):
    rollout.add_command(command)


def _find(session: Session, endpoint: str, rollout_id: str, *, active: bool) -> dict[str, Any]:
    path = f"/endpoints/{endpoint_path(endpoint)}/rollouts/"
    if not rollout_id:
        found = session.client.get(path, state="active" if active else "")["results"]
        if not found:
            words = "No rollout is under way" if active else "There was no rollout"
            raise CliError(f"{words} at {endpoint}.", exit_code=USAGE)
        rollout_id = found[0]["id"]
    rollout_id = whole_id(session.client, rollout_id, (path,), of="rollout")
    answer: dict[str, Any] = session.client.get(f"{path}{rollout_id}/")
    return answer


def _until_ended(session: Session, endpoint: str, found: dict[str, Any]) -> dict[str, Any]:
    """Say what changes until it has ended; gives it as it ended."""
    said = ""
    while True:
        line = _line(found)
        if line != said:
            note(line)
            said = line
        if found["state"] not in ACTIVE:
            return found
        time.sleep(EVERY_S)
        found = _find(session, endpoint, found["id"], active=False)


def _line(found: dict[str, Any]) -> str:
    where = f"{found['environment']}/{found['model']} v{found['version']}"
    step = f"step {found['step']} of {found['steps']}, {found['weight']:g} %"
    why = found["message"] or found["cause"]
    ways = " Go on with `covenant rollout resume`, skip, promote or abort."
    told = f". {why}" if why else ""
    return f"{where}: {found['state']}, {step}{told}{ways if found['state'] == 'paused' else ''}"


def _row(found: dict[str, Any]) -> tuple[Any, ...]:
    return (
        f"{found['environment']}/{found['model']}",
        f"v{found['version']}",
        found["state"],
        f"{found['step']}/{found['steps']}",
        f"{found['weight']:g}",
        found["cause"],
        found["id"],
    )


def _steps(found: dict[str, Any]) -> Any:
    def what(step: dict[str, Any]) -> str:
        if step["kind"] == "set_weight":
            return f"{step['percent']:g} %"
        if step["kind"] == "analyse":
            return ", ".join(step["metrics"])
        return "until approved" if step["seconds"] is None else f"{step['seconds']:g} s"

    rows = (
        (s["number"], s["kind"], what(s), s["state"], s["began_at"]) for s in found["plan_steps"]
    )
    return table(("STEP", "KIND", "WHAT", "STATE", "BEGAN"), rows)


def _measurements(found: dict[str, Any]) -> Any:
    newest = [
        (
            m["metric"],
            m["phase"],
            m["value"],
            m["baseline_value"],
            m["requests"],
            m["limit"],
            m["at"],
        )
        for run in found["analyses"]
        for m in run["measurements"][-3:]
    ]
    return table(("METRIC", "PHASE", "VALUE", "BASELINE", "REQUESTS", "LIMIT", "AT"), newest)
