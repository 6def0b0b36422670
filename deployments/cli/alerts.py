"""`covenant alerts` and `covenant silences`: what is wrong now, and what is kept quiet."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from deployments.cli.client import USAGE, CliError
from deployments.cli.output import show, table
from deployments.cli.prefixes import whole_id

if TYPE_CHECKING:
    from deployments.cli.main import Session

UNITS = {"m": 60, "h": 3600, "d": 86_400}


@click.group()
def alerts() -> None:
    """What the rules find wrong."""


@alerts.command("list")
@click.option("--state", default="unresolved", help="unresolved, firing, unacknowledged, …, all.")
@click.option("--severity", default="", help="P1, P2 or P3.")
@click.option("--environment", default="")
@click.option("--model", default="")
@click.option("--node", default="")
@click.option("--rule", default="")
@click.pass_obj
def list_alerts(session: Session, /, state: str, **wanted: str) -> None:
    """Those that are not over, or of another state."""
    page = session.client.get("/alerts/", state="" if state == "all" else state, **wanted)
    rows = (
        (
            one["id"],
            one["severity"],
            one["state"],
            _about(one),
            one["title"],
            one["started_at"],
        )
        for one in page["results"]
    )
    head = ("ALERT", "SEVERITY", "STATE", "OF", "WHAT", "SINCE")
    show(page, as_json=session.as_json, words=table(head, rows))


@alerts.command("show")
@click.argument("alert")
@click.pass_obj
def show_alert(session: Session, alert: str) -> None:
    """An alert with what was measured and what was done, in order."""
    found = session.client.get(f"/alerts/{_alert(session, alert)}/")
    show(found, as_json=session.as_json, words=_words(found))


@alerts.command("ack")
@click.argument("alert")
@click.option("--note", default="", help="What others should know.")
@click.pass_obj
def acknowledge(session: Session, alert: str, note: str) -> None:
    """Say that you see to it; nobody else is called for it."""
    found = session.client.post(f"/alerts/{_alert(session, alert)}/acknowledge/", {"note": note})
    show(found, as_json=session.as_json, words=f"{found['acknowledged_by']} sees to it.")


@alerts.command("comment")
@click.argument("alert")
@click.argument("text")
@click.pass_obj
def comment(session: Session, alert: str, text: str) -> None:
    """Write a line into the timeline."""
    found = session.client.post(f"/alerts/{_alert(session, alert)}/comments/", {"text": text})
    show(found, as_json=session.as_json, words="Written.")


@click.group()
def silences() -> None:
    """Alerts that are told to nobody for a while."""


@silences.command("list")
@click.option("--over", is_flag=True, help="Those that have ended.")
@click.pass_obj
def list_silences(session: Session, over: bool) -> None:
    """Those in force or to come."""
    page = session.client.get("/silences/", **({"over": "1"} if over else {}))
    rows = (
        (one["id"], _scope(one), one["ends_at"], one["author"], one["reason"])
        for one in page["results"]
    )
    head = ("SILENCE", "OF", "UNTIL", "BY", "REASON")
    show(page, as_json=session.as_json, words=table(head, rows))


@silences.command("create")
@click.option("--rule", default="")
@click.option("--severity", default="", help="P1, P2 or P3.")
@click.option("--environment", default="")
@click.option("--model", default="")
@click.option("--node", default="")
@click.option("--label", default="")
@click.option("--for", "lasts", default="1h", show_default=True, help="As 30m, 2h or 7d.")
@click.option("--reason", required=True)
@click.pass_obj
def create(session: Session, /, lasts: str, **given: str) -> None:
    """Keep alerts that match all that is named quiet; it ends by itself."""
    ends_at = datetime.now(UTC) + _span(lasts)
    found = session.client.post("/silences/", {**given, "ends_at": ends_at.isoformat()})
    words = f"{_scope(found)} is quiet until {found['ends_at']} ({found['id']})."
    show(found, as_json=session.as_json, words=words)


@silences.command("end")
@click.argument("silence")
@click.pass_obj
def end(session: Session, silence: str) -> None:
    """End one before its time."""
    whole = whole_id(session.client, silence, ("/silences/", "/silences/?over=1"), of="silence")
    found = session.client.post(f"/silences/{whole}/end/", {})
    show(found, as_json=session.as_json, words="It is over; what still fires is told.")


def _alert(session: Session, given: str) -> str:
    return whole_id(session.client, given, ("/alerts/",), of="alert")


def _span(text: str) -> timedelta:
    amount, unit = text[:-1], text[-1:]
    if unit not in UNITS or not amount.isdecimal() or not int(amount):
        raise CliError(f"{text!r} is no time span: write 30m, 2h or 7d.", exit_code=USAGE)
    return timedelta(seconds=int(amount) * UNITS[unit])


def _about(one: dict[str, Any]) -> str:
    parts = [f"{one['environment']}/{one['model']}"] if one["model"] else []
    parts += [f"v{one['version']}"] if one["version"] else []
    parts += [part for part in (one["node"], one["device"], one["label"]) if part]
    return " ".join(parts) or "installation"


def _measured(one: dict[str, Any]) -> str:
    if one["value"] is None:
        return "—"
    return f"{one['value']:g} {one['unit']} (limit {one['threshold']:g})".replace("  ", " ")


def _scope(one: dict[str, Any]) -> str:
    parts = [one["rule"] or "every rule"]
    if one["environment"] or one["model"]:
        parts.append(f"{one['environment'] or '*'}/{one['model'] or '*'}")
    parts += [part for part in (one["node"], one["severity"], one["label"]) if part]
    return " ".join(parts)


def _words(found: dict[str, Any]) -> str:
    lines = [
        f"{found['severity']} {_about(found)}: {found['title']} ({found['state']})",
        f"{found['signal']}: {_measured(found)}, by the rule {found['rule']}",
    ]
    if found["acknowledged_by"]:
        lines.append(f"{found['acknowledged_by']} sees to it.")
    if found["incident"]:
        lines.append(f"Incident {found['incident']}")
    for line in found["timeline"]:
        people = ", ".join(line["data"].get("people", []))
        said = line["message"] or people
        lines.append(f"{line['at']}  {line['kind']}  {line['actor']}  {said}".rstrip())
    return "\n".join(lines)
