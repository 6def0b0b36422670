"""`covenant nodes`: what runs where, and whether it is what was signed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from deployments.cli.client import GATE_FAILED, CliError
from deployments.cli.jobs import follow
from deployments.cli.output import note, show, table

if TYPE_CHECKING:
    from deployments.cli.main import Session


@click.group()
def nodes() -> None:
    """GPU nodes."""


@nodes.command("list")
@click.pass_obj
def list_nodes(session: Session) -> None:
    """The nodes and their state."""
    page = session.client.get("/nodes/")
    show(
        page,
        as_json=session.as_json,
        words=table(
            ("NODE", "STATE", "TRITON", "ENVIRONMENTS"),
            (
                (n["name"], n["state"], n["triton_version"], ", ".join(n["environments"]))
                for n in page["results"]
            ),
        ),
    )


@nodes.command("verify")
@click.argument("node")
@click.pass_obj
def verify_node(session: Session, node: str) -> None:
    """Compare what a node has live with what was signed; exit code 4 when it differs."""
    asked = session.client.post(f"/nodes/{node}/verify/", {})
    job = follow(session, asked["id"])
    result = job["result"]
    show(
        job,
        as_json=session.as_json,
        words=f"{result['verified'] - len(result['drifted'])} of {result['verified']} placements "
        "are as they were signed.",
    )
    if result["drifted"]:
        raise CliError(
            "Not as signed: " + ", ".join(result["drifted"]) + ".",
            exit_code=GATE_FAILED,
            hint=f"See the node's page, or: covenant jobs show {job['id']}",
            code="drift",
        )


@nodes.command("signature")
@click.argument("deployment")
@click.argument("node")
@click.option("--out", "-o", type=click.Path(path_type=Path), default=Path("model.sig"))
@click.pass_obj
def signature(session: Session, deployment: str, node: str, out: Path) -> None:
    """Fetch the model-signing signature of a deployed folder, and the key to check it with."""
    bundle = session.client.get(f"/deployments/{deployment}/signatures/{node}/")
    placed = session.client.get(f"/deployments/{deployment}/")["placements"]
    signer = next(one["folder_signed_by"] for one in placed if one["node"] == node)
    keys = session.client.get("/installation-keys/")["results"]
    key = next(one for one in keys if one["keyid"] == signer)
    public = out.with_suffix(".pem")
    out.write_text(json.dumps(bundle))
    public.write_text(key["public_key_pem"])
    note(
        f"model_signing verify key --signature {out} --public_key {public} "
        "--ignore_unsigned_files FOLDER"
    )
    show(
        {"signature": str(out), "public_key": str(public), "keyid": signer},
        as_json=session.as_json,
        words=f"Wrote {out} and {public}.",
    )
