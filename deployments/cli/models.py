"""`covenant models` and `covenant push`: register a model, bring a checkpoint."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from deployments.cli.client import USAGE, CliError
from deployments.cli.jobs import follow
from deployments.cli.output import note, show, table

if TYPE_CHECKING:
    from deployments.cli.main import Session


@click.group()
def models() -> None:
    """Models, their seats and versions."""


@models.command("list")
@click.option("--query", "-q", default="")
@click.pass_obj
def list_models(session: Session, query: str) -> None:
    """Registered models."""
    page = session.client.get("/models/", q=query)
    show(
        page,
        as_json=session.as_json,
        words=table(
            ("MODEL", "OWNER", "VERSIONS", "DESCRIPTION"),
            (
                (m["name"], m["owner"], m["last_version_number"], m["description"])
                for m in page["results"]
            ),
        ),
    )


@models.command("create")
@click.argument("name")
@click.option("--description", default="")
@click.option("--risk", type=click.Choice(["low", "medium", "high"]), default="medium")
@click.option(
    "--seat",
    "seats",
    multiple=True,
    metavar="SEAT=USER",
    help="data_scientist, sre or business_owner; once for each.",
)
@click.option("--team", help="The team that owns it.")
@click.option(
    "--visibility",
    type=click.Choice(["everybody", "team"]),
    default="everybody",
    help="team: only its team, seats and owner know of it.",
)
@click.pass_obj
def create_model(
    session: Session,
    name: str,
    description: str,
    risk: str,
    seats: tuple[str, ...],
    team: str | None,
    visibility: str,
) -> None:
    """Register a model and say who sits in its seats."""
    body = {
        "name": name,
        "description": description,
        "risk_class": risk,
        "seats": dict(_pairs(seats, "--seat")),
        "team": team,
        "visibility": visibility,
    }
    model = session.client.post("/models/", body)
    show(model, as_json=session.as_json, words=f"Registered {model['name']}.")


@models.command("visibility")
@click.argument("name")
@click.argument("who", type=click.Choice(["everybody", "team"]))
@click.pass_obj
def set_visibility(session: Session, name: str, who: str) -> None:
    """Say who may know of a model: everybody, or its team, seats and owner alone."""
    model = session.client.request("PATCH", f"/models/{name}/", json={"visibility": who}).json()
    show(model, as_json=session.as_json, words=f"{name} is seen by: {model['visibility']}.")


@models.command("show")
@click.argument("name")
@click.pass_obj
def show_model(session: Session, name: str) -> None:
    """One model."""
    model = session.client.get(f"/models/{name}/")
    seats = ", ".join(f"{seat}: {user or 'nobody'}" for seat, user in model["seats"].items())
    show(
        model,
        as_json=session.as_json,
        words=f"{model['name']}  {model['description']}\n  seats: {seats}",
    )


@click.command()
@click.argument("name")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--input",
    "inputs",
    multiple=True,
    metavar="NAME:DTYPE:DIMS",
    help="For example features:FP32:batch,10; a name stands for a free dimension.",
)
@click.option(
    "--output",
    "outputs",
    multiple=True,
    metavar="NAME:DTYPE:DIMS",
    help="In the model's order; without it a framework's own names stay, as in output_0.",
)
@click.option(
    "--code",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The module's source (.py, or a zip or tar of a package) for a state dict.",
)
@click.option(
    "--data",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A file that the .onnx file keeps its weights in; once for each, under its own name.",
)
@click.option(
    "--sample",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="One real set of inputs, as .npz or JSON: the model is tried and warmed up with it.",
)
@click.option("--module", default="", help="file.py:ClassName, for a state dict.")
@click.option("--arguments", default="{}", help="The module's keyword arguments as JSON.")
@click.option(
    "--class",
    "model_class",
    default="tabular",
    type=click.Choice(["tabular", "cnn", "transformer", "multimodal"]),
)
@click.option("--opset", default=17, show_default=True)
@click.option(
    "--target",
    default="",
    metavar="RELEASE",
    help="Triton release that has to load it, as in 24.10; the site's own by default.",
)
@click.option("--notes", default="")
@click.option("--wait/--no-wait", default=True, help="Wait for export and validation.")
@click.pass_obj
def push(
    session: Session,
    name: str,
    file: Path,
    inputs: tuple[str, ...],
    outputs: tuple[str, ...],
    code: Path | None,
    data: tuple[Path, ...],
    sample: Path | None,
    module: str,
    arguments: str,
    model_class: str,
    opset: int,
    target: str,
    notes: str,
    wait: bool,
) -> None:
    """Upload a checkpoint as the next version of a model, export and validate it."""
    body: dict[str, Any] = {
        "upload": upload_file(session, file),
        "inputs": [_parse_tensor(one, "--input") for one in inputs],
        "outputs": [_parse_tensor(one, "--output") for one in outputs],
        "model_class": model_class,
        "opset": opset,
        "target": target,
        "notes": notes,
        "module_entry": module,
        "module_arguments": parse_arguments(arguments),
    }
    if data:
        body["data_uploads"] = [upload_file(session, path) for path in data]
    if code:
        body["code_upload"] = upload_file(session, code)
    if sample:
        body["sample_upload"] = upload_file(session, sample)
    created = session.client.post(f"/models/{name}/versions/", body)
    number = created["number"]
    note(f"{name} v{number}")
    if wait:
        follow(session, created["job"])
        version = session.client.get(f"/models/{name}/versions/{number}/")
        if job := version.get("validate_job"):
            follow(session, job)
    version = session.client.get(f"/models/{name}/versions/{number}/")
    show(version, as_json=session.as_json, words=f"{name} v{number} is {version['state']}.")


def upload_file(session: Session, path: Path) -> str:
    """Upload a file and give the upload's id; says on standard error what goes up."""
    with path.open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    note(f"Uploading {path.name} ({path.stat().st_size:,} bytes, sha256 {sha256[:12]}…)")
    upload = session.client.upload(path, sha256=sha256)
    return str(upload["id"])


def _parse_tensor(text: str, option: str) -> dict[str, Any]:
    parts = text.rsplit(":", 2)
    if len(parts) != 3:
        raise CliError(
            f"{option} {text} is not NAME:DTYPE:DIMS.",
            exit_code=USAGE,
            hint="For example features:FP32:batch,10.",
        )
    name, dtype, dims = parts
    return {
        "name": name,
        "dtype": dtype,
        "dims": [int(d) if d.lstrip("-").isdigit() else d for d in dims.split(",") if d],
    }


def parse_arguments(text: str) -> dict[str, Any]:
    """A JSON object as it was typed. Raises CliError (usage) for anything else."""
    try:
        value = json.loads(text)
    except ValueError as error:
        raise CliError(f"--arguments is not JSON: {error}.", exit_code=USAGE) from error
    if not isinstance(value, dict):
        raise CliError("--arguments must be a JSON object.", exit_code=USAGE)
    return value


def _pairs(values: tuple[str, ...], option: str) -> list[tuple[str, str]]:
    result = []
    for value in values:
        left, equals, right = value.partition("=")
        if not equals or not left or not right:
            raise CliError(f"{option} {value} is not NAME=VALUE.", exit_code=USAGE)
        result.append((left, right))
    return result
