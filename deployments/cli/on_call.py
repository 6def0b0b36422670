"""`covenant on-call`: who is called, taking over, schedules and escalations."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from deployments.cli.channels import FILE, read_json
from deployments.cli.output import show, table

if TYPE_CHECKING:
    from deployments.cli.main import Session


@click.group("on-call")
def on_call() -> None:
    """Who is called when something urgent fires."""


@on_call.command("now")
@click.pass_obj
def now(session: Session) -> None:
    """Who is on call, by each schedule; says where nobody would be reached."""
    found = session.client.get("/on-call/")
    rows = table(
        ("SCHEDULE", "ON CALL", "UNTIL", "THEN"),
        (
            (
                one["schedule"],
                _who(one["now"]),
                one["now"]["ends_at"],
                _who(one["next"]) if one["next"] else "—",
            )
            for one in found
        ),
    )
    faults = [
        f"{one['schedule']}: nobody is reached {fault['starts_at']} – {fault['ends_at']} "
        f"({_who(fault)})"
        for one in found
        for fault in one["faults"]
    ]
    show(found, as_json=session.as_json, words=rows)
    if faults and not session.as_json:
        click.echo("\n".join(["", *faults]))


@on_call.command("schedules")
@click.pass_obj
def list_schedules(session: Session) -> None:
    """The schedules; with --json as `set` takes them."""
    found = session.client.get("/on-call/schedules/")
    show(
        found,
        as_json=session.as_json,
        words=table(
            ("SCHEDULE", "TIME ZONE", "HOLDS FOR", "LAYERS"),
            (
                (
                    one["name"],
                    one["time_zone"],
                    one["team"] or one["covers"],
                    "; ".join(" → ".join(layer["people"]) for layer in one["layers"]),
                )
                for one in found
            ),
        ),
    )


@on_call.command("set")
@click.argument("schedule")
@click.option("--file", "path", type=FILE, required=True, help="JSON, as docs/on-call.md shows.")
@click.pass_obj
def set_schedule(session: Session, schedule: str, path: Path) -> None:
    """Make a schedule, or decide it anew."""
    found = session.client.put(f"/on-call/schedules/{schedule}/", read_json(path)).json()
    show(found, as_json=session.as_json, words=f"{schedule} is set.")


@on_call.command("remove")
@click.argument("schedule")
@click.pass_obj
def remove(session: Session, schedule: str) -> None:
    """Take a schedule away."""
    session.client.request("DELETE", f"/on-call/schedules/{schedule}/")
    show({"removed": schedule}, as_json=session.as_json, words=f"{schedule} is gone.")


@on_call.command("shifts")
@click.argument("schedule")
@click.option("--from", "start", default="", help="A moment; now by default.")
@click.option("--to", "end", default="", help="A moment; 28 days later by default.")
@click.pass_obj
def shifts(session: Session, schedule: str, start: str, end: str) -> None:
    """Who is on call in the weeks to come."""
    query = {key: value for key, value in (("from", start), ("to", end)) if value}
    found = session.client.get(f"/on-call/schedules/{schedule}/shifts/", **query)
    show(
        found,
        as_json=session.as_json,
        words=table(
            ("FROM", "UNTIL", "ON CALL", "BY"),
            ((one["starts_at"], one["ends_at"], _who(one), one["by"]) for one in found),
        ),
    )


@on_call.command("take-over")
@click.argument("schedule")
@click.option("--until", required=True, help="A moment, as in 2026-03-01T09:00:00Z.")
@click.option("--from", "start", default="", help="A moment; now by default.")
@click.option("--person", default="", help="Somebody else than you.")
@click.option("--reason", default="")
@click.pass_obj
def take_over(
    session: Session, schedule: str, until: str, start: str, person: str, reason: str
) -> None:
    """Be on call yourself, whatever the schedule says."""
    body: dict[str, Any] = {"ends_at": until, "person": person, "reason": reason}
    if start:
        body["starts_at"] = start
    made = session.client.post(f"/on-call/schedules/{schedule}/overrides/", body)
    words = f"{made['person']} is on call from {made['starts_at']} until {made['ends_at']}."
    show(made, as_json=session.as_json, words=f"{words} Takeover {made['id']}.")


@on_call.command("give-back")
@click.argument("takeover", type=int)
@click.pass_obj
def give_back(session: Session, takeover: int) -> None:
    """The schedule holds again."""
    session.client.request("DELETE", f"/on-call/overrides/{takeover}/")
    show({"ended": takeover}, as_json=session.as_json, words="The schedule holds again.")


@on_call.command("escalations")
@click.pass_obj
def escalations(session: Session) -> None:
    """Who is told next when nobody acknowledges."""
    found = session.client.get("/escalations/")
    lines = [
        f"{one['name']}: "
        + ", ".join(
            f"after {step['after_minutes']} min {step['target']} {step['name']}".strip()
            for step in one["steps"]
        )
        + (f"; all again {one['repeats']} times" if one["repeats"] else "")
        for one in found
    ]
    show(found, as_json=session.as_json, words="\n".join(lines))


@on_call.command("set-escalation")
@click.argument("name")
@click.option("--file", "path", type=FILE, required=True, help="JSON with steps and repeats.")
@click.pass_obj
def set_escalation(session: Session, name: str, path: Path) -> None:
    """Make an escalation, or decide it anew."""
    found = session.client.put(f"/escalations/{name}/", read_json(path)).json()
    show(found, as_json=session.as_json, words=f"{name} is set.")


@on_call.command("remove-escalation")
@click.argument("name")
@click.pass_obj
def remove_escalation(session: Session, name: str) -> None:
    """Take an escalation away."""
    session.client.request("DELETE", f"/escalations/{name}/")
    show({"removed": name}, as_json=session.as_json, words=f"{name} is gone.")


def _who(shift: dict[str, Any]) -> str:
    if not shift["person"]:
        return "nobody"
    told = shift["person"] + (" (takes over)" if shift["by"] == "override" else "")
    return told if shift["reachable"] else f"{told}, who has no mail address or has left"
