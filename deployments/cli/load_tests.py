"""`covenant load-test`: send load to a version where it is ready, and ask for the verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from deployments.cli.client import GATE_FAILED, CliError
from deployments.cli.jobs import follow
from deployments.cli.output import show

if TYPE_CHECKING:
    from deployments.cli.main import Session


@click.command("load-test")
@click.argument("model")
@click.argument("number", type=int)
@click.option("--env", "environment", default="staging", show_default=True)
@click.option(
    "--pattern", type=click.Choice(["pulse", "step", "mixed"]), default="step", show_default=True
)
@click.option("--rate", type=int, default=40, show_default=True, help="Requests a second, at most.")
@click.option("--seconds", type=int, default=15, show_default=True)
@click.option("--wait", is_flag=True, help="Wait for the verdict; exit with 4 when it failed.")
@click.pass_obj
def load_test(
    session: Session,
    model: str,
    number: int,
    environment: str,
    pattern: str,
    rate: int,
    seconds: int,
    wait: bool,
) -> None:
    """Load-test a version that is ready in an environment."""
    made = session.client.post(
        f"/models/{model}/versions/{number}/load-tests/",
        {"environment": environment, "pattern": pattern, "rate": rate, "seconds": seconds},
    )
    if not wait:
        words = f"Load test {made['id']} is {made['job_state']}. Follow it by --wait or its job "
        show(made, as_json=session.as_json, words=f"{words}{made['job']}.")
        return
    follow(session, made["job"])
    ended = session.client.get(f"/load-tests/{made['id']}/")
    show(ended, as_json=session.as_json, words=_words(ended))
    if not ended["passed"]:
        raise CliError(
            f"{model} v{number} did not pass its load test in {environment}.",
            exit_code=GATE_FAILED,
            code="load_test_failed",
            hint=f"See {session.client.url}/load-tests/{made['id']}/.",
        )


def _words(ended: dict[str, Any]) -> str:
    report = ended["report"]
    latency, requests = report["latency_ms"], report["requests"]
    named = (("p50", "p50"), ("p95", "p95"), ("p99", "p99"), ("p99.9", "p99_9"))
    percentiles = ", ".join(
        f"{name} {latency[key]:.1f} ms" for name, key in named if latency[key] is not None
    )
    knee = report["knee"]
    limit = "" if knee["rate"] is None else f"; holds up to {knee['rate']}/s"
    return (
        f"{report['sentence']}\n  {requests['sent']} of {requests['planned']} requests sent, "
        f"{requests['failed']} failed; {percentiles}{limit}"
    )
