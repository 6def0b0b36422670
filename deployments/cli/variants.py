"""`covenant optimise` and `covenant plan`: lighter variants and TensorRT plans of a version."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from deployments.cli.jobs import follow
from deployments.cli.output import note, show

if TYPE_CHECKING:
    from deployments.cli.main import Session


@click.command()
@click.argument("model")
@click.argument("version", type=int)
@click.option(
    "--as",
    "optimisation",
    required=True,
    type=click.Choice(["simplify", "graph", "fp16", "int8"]),
    help="How: simplify (onnxsim), graph (ONNX Runtime fusions), fp16, int8.",
)
@click.option(
    "--change-io", is_flag=True, help="FP16 only: inputs and outputs become FP16 as well."
)
@click.option("--notes", default="")
@click.option("--wait/--no-wait", default=True, help="Wait until it is made and validated.")
@click.pass_obj
def optimise(
    session: Session,
    model: str,
    version: int,
    optimisation: str,
    change_io: bool,
    notes: str,
    wait: bool,
) -> None:
    """Make a lighter variant of a validated version, as a new version of the model."""
    made = session.client.post(
        f"/models/{model}/versions/{version}/optimisations/",
        {"optimisation": optimisation, "keep_io": not change_io, "notes": notes},
    )
    number = made["number"]
    note(f"{model} v{number} is {optimisation} of v{version}")
    if wait:
        follow(session, made["job"])
        made = session.client.get(f"/models/{model}/versions/{number}/")
        if job := made.get("validate_job"):
            follow(session, job)
    made = session.client.get(f"/models/{model}/versions/{number}/")
    show(made, as_json=session.as_json, words=f"{model} v{number} is {made['state']}.")


@click.command()
@click.argument("model")
@click.argument("version", type=int)
@click.option("--precision", type=click.Choice(["fp32", "fp16", "int8"]), default="fp16")
@click.option("--workspace", default=1024, show_default=True, help="MiB.")
@click.option("--node", default="", help="The GPU node; the first ready one when left out.")
@click.option("--environment", default="", help="Take a node of this environment.")
@click.option("--wait/--no-wait", default=True, help="Wait until it is built.")
@click.pass_obj
def plan(
    session: Session,
    model: str,
    version: int,
    precision: str,
    workspace: int,
    node: str,
    environment: str,
    wait: bool,
) -> None:
    """Build a TensorRT plan of a validated version, or write down the command for it."""
    address = f"/models/{model}/versions/{version}/plans/"
    body = {
        "precision": precision,
        "workspace_mib": workspace,
        "node": node,
        "environment": environment,
    }
    asked = session.client.post(address, body)
    if wait and asked["job"]:
        follow(session, asked["job"], timeout=3700)
        rows = session.client.get(address)["results"]
        asked = next(row for row in rows if row["id"] == asked["id"])
    words = f"{asked['state']}: {asked['detail']}".rstrip(": ") + f"\n  {asked['command_line']}"
    show(asked, as_json=session.as_json, words=words)
