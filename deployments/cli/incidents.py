"""`covenant incidents` and `covenant rollback-policy`: what went wrong, and what acts by itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from deployments.cli.client import USAGE, CliError
from deployments.cli.output import show, table
from deployments.cli.prefixes import whole_id

if TYPE_CHECKING:
    from deployments.cli.main import Session


@click.group()
def incidents() -> None:
    """Disturbances of endpoints."""


@incidents.command("list")
@click.option("--state", default="unresolved", help="unresolved, open, …, or all.")
@click.option("--environment", default="")
@click.option("--severity", default="", help="P1 or P2.")
@click.pass_obj
def list_incidents(session: Session, state: str, environment: str, severity: str) -> None:
    """Those that nobody has resolved yet, or of another state."""
    wanted = {
        "state": "" if state == "all" else state,
        "environment": environment,
        "severity": severity,
    }
    page = session.client.get("/incidents/", **wanted)
    show(
        page,
        as_json=session.as_json,
        words=table(
            ("INCIDENT", "ENDPOINT", "SEVERITY", "STATE", "LEVEL", "SINCE", "WHAT"),
            (
                (
                    one["id"],
                    f"{one['environment']}/{one['model']}",
                    one["severity"],
                    one["state"],
                    f"L{one['level']}" if one["level"] else "—",
                    one["started_at"],
                    one["title"],
                )
                for one in page["results"]
            ),
        ),
    )


@incidents.command("show")
@click.argument("incident")
@click.option("--before", default="", help="A moment: the lines of the timeline before it.")
@click.pass_obj
def show_incident(session: Session, incident: str, before: str) -> None:
    """An incident with what machines and people did, in order; the newest 200 lines."""
    query = {"before": before} if before else {}
    found = session.client.get(f"/incidents/{_incident(session, incident)}/", **query)
    show(found, as_json=session.as_json, words=_words(found))


@incidents.command("ack")
@click.argument("incident")
@click.pass_obj
def acknowledge(session: Session, incident: str) -> None:
    """Say that you see to it."""
    found = session.client.post(f"/incidents/{_incident(session, incident)}/acknowledge/", {})
    words = f"{found['acknowledged_by']} sees to it."
    show(found, as_json=session.as_json, words=words)


@incidents.command("resolve")
@click.argument("incident")
@click.option("--summary", required=True, help="What it was and what was done.")
@click.pass_obj
def resolve(session: Session, incident: str, summary: str) -> None:
    """Close it; those on call are called no more."""
    found = session.client.post(
        f"/incidents/{_incident(session, incident)}/resolve/", {"summary": summary}
    )
    show(found, as_json=session.as_json, words="Resolved.")


@incidents.command("comment")
@click.argument("incident")
@click.argument("text")
@click.pass_obj
def comment(session: Session, incident: str, text: str) -> None:
    """Write a line into the timeline."""
    found = session.client.post(
        f"/incidents/{_incident(session, incident)}/comments/", {"text": text}
    )
    show(found, as_json=session.as_json, words="Written.")


@click.group("rollback-policy")
def rollback_policy() -> None:
    """When an endpoint goes down the rollback levels by itself."""


@rollback_policy.command("show")
@click.argument("endpoint", metavar="ENVIRONMENT/MODEL")
@click.pass_obj
def show_policy(session: Session, endpoint: str) -> None:
    """The policy in force and where the endpoint stands."""
    found = session.client.get(_path(endpoint))
    show(found, as_json=session.as_json, words=_policy_words(endpoint, found))


@rollback_policy.command("set")
@click.argument("endpoint", metavar="ENVIRONMENT/MODEL")
@click.option("--automatic/--off", default=None, help="Act by itself, or do nothing by itself.")
@click.option(
    "--file",
    "path",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="JSON with the fields to set; the others have their defaults.",
)
@click.option("--reason", default="")
@click.pass_obj
def set_policy(
    session: Session, endpoint: str, automatic: bool | None, path: Path | None, reason: str
) -> None:
    """Decide it anew; what is not named stays as it is."""
    found = session.client.get(_path(endpoint))
    try:
        document = json.loads(path.read_text(encoding="utf-8")) if path else found["document"]
    except ValueError as error:
        raise CliError(f"{path} is no JSON: {error}.", exit_code=USAGE) from error
    answer = session.client.put(
        _path(endpoint),
        {
            "automatic": found["automatic"] if automatic is None else automatic,
            "document": document,
            "reason": reason,
        },
        None,
        **{"If-Match": f'"{found["revision"]}"'},
    ).json()
    show(answer, as_json=session.as_json, words=_policy_words(endpoint, answer))


def _incident(session: Session, given: str) -> str:
    return whole_id(session.client, given, ("/incidents/",), of="incident")


def _path(endpoint: str) -> str:
    if endpoint.count("/") != 1:
        raise CliError(f"{endpoint!r} is not ENVIRONMENT/MODEL.", exit_code=USAGE)
    return f"/endpoints/{endpoint}/rollback-policy/"


def _words(found: dict[str, Any]) -> str:
    lines = [
        f"{found['severity']} {found['environment']}/{found['model']}: {found['title']} "
        f"({found['state']}, highest level {found['level']})"
    ]
    if found["earlier"]:
        lines.append(f"(there is more: --before {found['earlier']})")
    for line in found["timeline"]:
        took = f", in effect after {line['took_ms']:g} ms" if line["took_ms"] is not None else ""
        said = line["message"] or ", ".join(line["people"])
        lines.append(f"{line['at']}  {line['kind']}  {line['actor']}  {said}{took}")
    if found["summary"]:
        lines.append(f"Summary: {found['summary']}")
    return "\n".join(lines)


def _policy_words(endpoint: str, found: dict[str, Any]) -> str:
    by = f"revision {found['revision']}" if found["revision"] else "the environment's default"
    state = "by itself" if found["automatic"] else "by hand alone"
    fields = "\n".join(f"  {name}: {value}" for name, value in found["document"].items())
    return (
        f"{endpoint} goes down the rollback levels {state} ({by}).\n"
        f"Now: {found['phase']}, level {found['level']}.\n{fields}"
    )
