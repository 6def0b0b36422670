"""`covenant try`: send a sample to a version where it is ready, and read its answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from deployments.cli.client import GATE_FAILED, USAGE, CliError
from deployments.cli.output import show

if TYPE_CHECKING:
    from deployments.cli.main import Session

SHOWN_VALUES = 8


@click.command("try")
@click.argument("model")
@click.argument("number", type=int)
@click.option("--env", "environment", default="staging", show_default=True)
@click.option(
    "--input",
    "file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A v2 inference request as JSON; left out: the recorded sample.",
)
@click.pass_obj
def try_version(
    session: Session, model: str, number: int, environment: str, file: Path | None
) -> None:
    """Send a sample to a version; exit with 4 when the recorded answer is not met."""
    body: dict[str, Any] = {"environment": environment}
    if file is not None:
        body["request"] = _read(file)
    trial = session.client.post(f"/models/{model}/versions/{number}/try/", body)
    show(trial, as_json=session.as_json, words=_words(trial))
    comparison = trial["comparison"]
    if comparison and not comparison["within"]:
        raise CliError(
            f"{model} v{number} does not answer as it was recorded: {comparison['detail']}.",
            exit_code=GATE_FAILED,
            code="answer_differs",
            hint="It was validated with another answer: see what changed on that node.",
        )


def _read(file: Path) -> Any:
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise CliError(
            f"{file} holds no JSON: {error}.",
            exit_code=USAGE,
            hint='Write {"inputs": [{"name", "datatype", "shape", "data"}]}.',
        ) from error


def _words(trial: dict[str, Any]) -> str:
    lines = [
        f"Version {trial['model_version']} answered in {trial['duration_ms']:.1f} ms "
        f"({trial['who']} in {trial['environment']}, request {trial['request_id']})."
    ]
    for output in trial["outputs"]:
        data = output["data"]
        values = ", ".join(str(value) for value in data[:SHOWN_VALUES])
        more = f", … {len(data) - SHOWN_VALUES} more" if len(data) > SHOWN_VALUES else ""
        lines.append(f"  {output['name']} {output['datatype']} {output['shape']}: {values}{more}")
    comparison = trial["comparison"]
    if comparison and comparison["within"]:
        lines.append(
            f"  As recorded: the largest difference is {comparison['largest']:.3g} "
            f"(atol {comparison['atol']:g}, rtol {comparison['rtol']:g})."
        )
    return "\n".join(lines)
