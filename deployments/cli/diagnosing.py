"""`covenant diagnose`: why a version does not load on a node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from deployments.cli.client import GATE_FAILED, CliError
from deployments.cli.jobs import follow
from deployments.cli.output import show, table
from deployments.cli.prefixes import whole_id

if TYPE_CHECKING:
    from deployments.cli.main import Session

MARKS = {"bad": "✗", "warn": "!", "unknown": "?", "good": "✓"}


@click.group()
def diagnose() -> None:
    """Find out why a version does not load: five steps, run by the node's own worker."""


@diagnose.command("run")
@click.argument("model")
@click.argument("version", type=int)
@click.option("--node", default="", help="Where; left out: where it last failed or lies.")
@click.option("--no-load", is_flag=True, help="Do not load it once more under a name of its own.")
@click.pass_obj
def run(session: Session, model: str, version: int, node: str, no_load: bool) -> None:
    """Look into it and say what was found; exit code 4 when something keeps it from loading."""
    asked = session.client.post(
        "/diagnoses/",
        {"model": model, "version": version, "node": node, "try_load": not no_load},
    )
    follow(session, asked["job"])
    found = session.client.get(f"/diagnoses/{asked['id']}/")
    show(found, as_json=session.as_json, words=_words(found))
    if found["because"]:
        raise CliError(
            found["because"]["title"],
            exit_code=GATE_FAILED,
            hint=found["because"]["mend"],
            code=found["cause"],
        )


@diagnose.command("list")
@click.option("--state", default="", help="running, found, suspected, clean or failed.")
@click.option("--node", default="")
@click.option("--model", default="")
@click.pass_obj
def list_diagnoses(session: Session, state: str, node: str, model: str) -> None:
    """The newest diagnoses; a deploy that fails has one made by itself."""
    page = session.client.get("/diagnoses/", state=state, node=node, q=model)
    show(
        page,
        as_json=session.as_json,
        words=table(
            ("DIAGNOSIS", "VERSION", "NODE", "STATE", "CAUSE", "ASKED"),
            (
                (
                    one["id"],
                    f"{one['model']} v{one['version']}",
                    one["node"],
                    one["state"],
                    one["cause"] or "—",
                    one["requested_at"],
                )
                for one in page["results"]
            ),
        ),
    )


@diagnose.command("show")
@click.argument("diagnosis")
@click.pass_obj
def show_diagnosis(session: Session, diagnosis: str) -> None:
    """What the five steps found."""
    whole = whole_id(session.client, diagnosis, ("/diagnoses/",), of="diagnosis")
    found = session.client.get(f"/diagnoses/{whole}/")
    show(found, as_json=session.as_json, words=_words(found))


@click.command("memory-growth")
@click.pass_obj
def memory_growth(session: Session) -> None:
    """GPUs whose memory only grows; exit code 4 when there is one."""
    found = session.client.get("/memory-growth/")
    show(
        found,
        as_json=session.as_json,
        words=_no_leak(session)
        if not found["results"] and not session.as_json
        else table(
            ("GPU", "MIB PER HOUR", "SINCE", "FULL", "LOADED THERE"),
            (
                (
                    f"{one['node']} {one['device']}",
                    f"{one['bytes_per_hour'] / 2**20:.0f}",
                    one["since"],
                    one["full_at"] or "—",
                    ", ".join(one["versions"]) or "—",
                )
                for one in found["results"]
            ),
        ),
    )
    if found["results"]:
        raise CliError(
            f"{len(found['results'])} GPUs lose memory.",
            exit_code=GATE_FAILED,
            hint="Move the traffic to another node, then restart that Triton.",
            code="alert_gpu_memory_grows",
        )


def _no_leak(session: Session) -> str:
    """The empty state, as the page says it: no GPU at all, or none that loses memory."""
    nodes = session.client.get("/nodes/", limit="200")["results"]
    if not any(node["gpus"] for node in nodes):
        return (
            "No node has a GPU. When one with GPUs is registered, its memory is measured every "
            "few seconds, and a leak shows here before the GPU is full."
        )
    return "No GPU loses memory. A leak takes half an hour to be sure of."


def _words(found: dict[str, Any]) -> str:
    lines = [f"{found['model']} v{found['version']} on {found['node']}: {found['state']}"]
    for number, step in enumerate(found["steps"], start=1):
        lines.append(f"{number}. {step['title']}")
        for one in step["findings"]:
            lines.append(f"   {MARKS[one['verdict']]} {one['title']}")
            if one["mend"]:
                lines.append(f"     → {one['mend']}")
            if one["verdict"] == "bad" and one["evidence"]:
                lines += [f"       {line}" for line in one["evidence"].splitlines()[-6:]]
    return "\n".join(lines)
