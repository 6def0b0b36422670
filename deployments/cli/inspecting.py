"""`covenant inspect`: what a checkpoint takes and gives, before it becomes a version."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from deployments.cli.models import parse_arguments, upload_file
from deployments.cli.output import note, show, table

if TYPE_CHECKING:
    from deployments.cli.main import Session


TRY_SECONDS = 120.0
"""The sandbox may take a minute, and wait for a slow machine."""


@click.command("inspect")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--code",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The module's source (.py, or a zip or tar of a package).",
)
@click.option(
    "--sample",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="One real set of inputs, as .npz or JSON.",
)
@click.option("--module", default="", help="file.py:ClassName, for a state dict.")
@click.option("--arguments", default="{}", help="The module's keyword arguments as JSON.")
@click.pass_obj
def inspect(
    session: Session,
    file: Path,
    code: Path | None,
    sample: Path | None,
    module: str,
    arguments: str,
) -> None:
    """Propose the inputs of a checkpoint: read from it, and tried out at several sizes."""
    body: dict[str, Any] = {"module_entry": module, "module_arguments": parse_arguments(arguments)}
    upload = upload_file(session, file)
    for name, path in (("code_upload", code), ("sample_upload", sample)):
        if path is not None:
            body[name] = upload_file(session, path)
    address = f"/uploads/{upload}/proposal/"
    found = session.client.request("POST", address, json=body, timeout=TRY_SECONDS).json()
    rows = [
        (side, one["name"], one["dtype"], ",".join(_axes(one)))
        for side in ("inputs", "outputs")
        for one in found[side]
    ]
    show(found, as_json=session.as_json, words=table(("", "NAME", "DTYPE", "DIMS"), rows))
    if not session.as_json:
        for sentence in found["notes"]:
            note(sentence)


def _axes(tensor: dict[str, Any]) -> list[str]:
    names = tensor["dims"] or [""] * len(tensor["shape"])
    return [name or str(size) for size, name in zip(tensor["shape"], names, strict=True)]
