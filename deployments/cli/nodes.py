"""`covenant nodes`: what runs where, and whether it is what was signed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from deployments.cli.client import GATE_FAILED, CliError
from deployments.cli.jobs import follow
from deployments.cli.output import note, show, table

if TYPE_CHECKING:
    from deployments.cli.main import Session


_LEVELS = {"good": "", "warn": "watch", "bad": "act"}


def _of(thing: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    return sorted(thing["figures"].items())


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


@nodes.command("show")
@click.argument("node")
@click.pass_obj
def show_node(session: Session, node: str) -> None:
    """What was last measured of a node's GPUs, its host, and the versions on it."""
    found = session.client.get(f"/nodes/{node}/machine/")
    if session.as_json:
        show(found, as_json=True, words="")
        return
    for source, why in found["faults"].items():
        note(f"{source}: {why}")
    rows = [(gpu["device"], name, one) for gpu in found["gpus"] for name, one in _of(gpu)]
    rows += [("host", name, one) for name, one in sorted(found["host"].items())]
    rows += [
        (f"{version['triton_model']} v{version['version']}", name, one)
        for version in found["versions"]
        for name, one in _of(version)
    ]
    if not found["gpus"]:
        note(f"No GPU is measured on {node}. {found['why_no_gpus']}".strip())
    cells = (
        (of, name, f"{one['value']:,.4g}", one["unit"], _LEVELS[one["level"]])
        for of, name, one in rows
    )
    show(found, as_json=False, words=table(("OF", "SERIES", "VALUE", "UNIT", ""), cells))


@nodes.command("register")
@click.argument("node")
@click.option("--http", "http_address", required=True, metavar="HOST:PORT", help="Triton's HTTP.")
@click.option("--grpc", "grpc_address", required=True, metavar="HOST:PORT", help="Triton's gRPC.")
@click.option("--repository", required=True, help="The model repository, as its worker sees it.")
@click.option("--environment", "environments", multiple=True, required=True)
@click.option("--metrics", "metrics_address", default="", help="Triton's /metrics, HOST:PORT.")
@click.option("--dcgm", "dcgm_address", default="", help="A DCGM exporter, HOST:PORT.")
@click.option("--host-metrics", "host_metrics_address", default="", help="A node exporter.")
@click.option("--gpu", "gpus", type=int, multiple=True, help="Number of a GPU that it uses.")
@click.option("--label", "labels", multiple=True, metavar="NAME=VALUE")
@click.pass_obj
def register_node(
    session: Session,
    /,
    node: str,
    environments: tuple[str, ...],
    gpus: tuple[int, ...],
    labels: tuple[str, ...],
    **given: str,
) -> None:
    """Register a node, or say anew how one is reached and where its numbers are read."""
    pairs = [one.partition("=") for one in labels]
    if any(not sign or not name for name, sign, _ in pairs):
        raise click.BadParameter("Use NAME=VALUE.", param_hint="--label")
    body = {
        "name": node,
        "environments": list(environments),
        "gpus": list(gpus),
        "labels": {name: value for name, _, value in pairs},
        **given,
    }
    made = session.client.post("/nodes/", body)
    show(made, as_json=session.as_json, words=f"{made['name']} is registered ({made['state']}).")


@nodes.command("gpu-fields")
@click.pass_obj
def gpu_fields(session: Session) -> None:
    """The fields that are measured of GPUs, with the values from when on to watch and to act."""
    found = session.client.get("/gpu-fields/")
    cells = (
        (one["number"], one["dcgm"], one["series"], one["unit"], one["warn"], one["bad"])
        for one in found["results"]
    )
    show(
        found,
        as_json=session.as_json,
        words=table(("NO", "DCGM", "SERIES", "UNIT", "WATCH", "ACT"), cells),
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
