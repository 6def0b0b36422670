"""`covenant jobs`: follow, cancel and retry; and the waiting that other commands share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from deployments.cli.client import GATE_FAILED, CliError
from deployments.cli.output import note, show, table
from deployments.cli.prefixes import whole_id

if TYPE_CHECKING:
    from deployments.cli.main import Session


def follow(session: Session, job_id: str, *, timeout: float = 900) -> dict[str, Any]:
    """Wait for the job, print its steps, and raise CliError (exit code 4) unless it succeeded."""
    job = session.client.wait_for_job(
        job_id,
        timeout=timeout,
        on_change=lambda j: note(f"  {j['kind']:9} {j['progress'] * 100:3.0f} %  {j['step']}"),
    )
    if job["state"] != "succeeded":
        raise CliError(
            f"{job['kind']} of {job['subject']} {job['state']}: {job['error']['message']}",
            exit_code=GATE_FAILED,
            hint=job["error"]["hint"],
            code=job["error"]["code"],
        )
    return job


@click.group()
def jobs() -> None:
    """Long actions."""


@jobs.command("list")
@click.option("--state", default="")
@click.option("--kind", default="")
@click.pass_obj
def list_jobs(session: Session, state: str, kind: str) -> None:
    """The newest jobs."""
    page = session.client.get("/jobs/", state=state, kind=kind)
    show(
        page,
        as_json=session.as_json,
        words=table(
            ("JOB", "KIND", "SUBJECT", "STATE", "STEP"),
            ((j["id"], j["kind"], j["subject"], j["state"], j["step"]) for j in page["results"]),
        ),
    )


@jobs.command("show")
@click.argument("job_id")
@click.option("--wait", is_flag=True, help="Wait until it has ended.")
@click.pass_obj
def show_job(session: Session, job_id: str, wait: bool) -> None:
    """One job with its log."""
    job_id = _job(session, job_id)
    if wait:
        follow(session, job_id)
    job = session.client.get(f"/jobs/{job_id}/")
    lines = "\n".join(f"  {line['at']} {line['level']:7} {line['text']}" for line in job["lines"])
    show(
        job,
        as_json=session.as_json,
        words=f"{job['kind']} {job['subject']}: {job['state']} (attempt {job['attempt']})\n{lines}",
    )


@jobs.command("cancel")
@click.argument("job_id")
@click.pass_obj
def cancel_job(session: Session, job_id: str) -> None:
    """Ask a job to stop."""
    job = session.client.post(f"/jobs/{_job(session, job_id)}/cancel/")
    show(job, as_json=session.as_json, words=f"{job['kind']} {job['subject']}: {job['state']}")


@jobs.command("retry")
@click.argument("job_id")
@click.pass_obj
def retry_job(session: Session, job_id: str) -> None:
    """Put an ended job back into its queue."""
    job = session.client.post(f"/jobs/{_job(session, job_id)}/retry/")
    show(job, as_json=session.as_json, words=f"{job['kind']} {job['subject']}: {job['state']}")


def _job(session: Session, given: str) -> str:
    return whole_id(session.client, given, ("/jobs/",), of="job")
