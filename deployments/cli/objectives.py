"""`covenant objectives`, `covenant maintenance` and `covenant exclusions`."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from deployments.cli.client import USAGE, CliError
from deployments.cli.output import show, table
from deployments.cli.prefixes import whole_id
from deployments.rules.objectives.figures import minutes_left, reached, requests_left

if TYPE_CHECKING:
    from deployments.cli.main import Session

WINDOWS, EXCLUSIONS = ("/maintenance-windows/",), ("/exclusions/",)
MOMENT = click.DateTime(["%Y-%m-%dT%H:%MZ", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M"])


@click.command("objectives")
@click.argument("endpoint", metavar="ENVIRONMENT/MODEL")
@click.pass_obj
def objectives(session: Session, endpoint: str) -> None:
    """Error budgets in requests and minutes, and how fast they burn."""
    found = session.client.get(f"{_path(endpoint)}/objectives/")
    show(found, as_json=session.as_json, words="\n".join(_standing(one) for one in found))


@click.group()
def maintenance() -> None:
    """Time that all three seats set aside before it begins; times are UTC."""


@maintenance.command("list")
@click.option("--environment", default="")
@click.option("--model", default="")
@click.option("--state", default="", help="proposed, agreed or withdrawn.")
@click.pass_obj
def list_maintenance(session: Session, environment: str, model: str, state: str) -> None:
    """Maintenance windows, latest first."""
    _list(session, "/maintenance-windows/", environment, model, state)


@maintenance.command("propose")
@click.argument("endpoint", metavar="ENVIRONMENT/MODEL")
@click.option("--from", "start", type=MOMENT, required=True, help="As 2026-01-31T02:00, UTC.")
@click.option("--to", "end", type=MOMENT, required=True)
@click.option("--reason", required=True, help="What is done.")
@click.pass_obj
def propose_maintenance(
    session: Session, endpoint: str, start: datetime, end: datetime, reason: str
) -> None:
    """Ask the three seats; who sits in one agrees by proposing."""
    body = {"starts_at": _utc(start), "ends_at": _utc(end), "reason": reason}
    made = session.client.post(f"{_path(endpoint)}/maintenance-windows/", body)
    show(made, as_json=session.as_json, words=_words(made))


@maintenance.command("agree")
@click.argument("window")
@click.pass_obj
def agree_to_maintenance(session: Session, window: str) -> None:
    """Agree for the seat that you sit in."""
    window = whole_id(session.client, window, WINDOWS, of="maintenance window")
    _act(session, f"/maintenance-windows/{window}/agree/", {})


@maintenance.command("withdraw")
@click.argument("window")
@click.option("--reason", required=True)
@click.pass_obj
def withdraw_maintenance(session: Session, window: str, reason: str) -> None:
    """Take it back; one that runs ends now."""
    window = whole_id(session.client, window, WINDOWS, of="maintenance window")
    _act(session, f"/maintenance-windows/{window}/withdraw/", {"reason": reason})


@click.group()
def exclusions() -> None:
    """Time that is over and that all three seats took out of the count; times are UTC."""


@exclusions.command("list")
@click.option("--environment", default="")
@click.option("--model", default="")
@click.option("--state", default="", help="proposed, agreed or withdrawn.")
@click.pass_obj
def list_exclusions(session: Session, environment: str, model: str, state: str) -> None:
    """Exclusions, latest first."""
    _list(session, "/exclusions/", environment, model, state)


@exclusions.command("show")
@click.argument("exclusion")
@click.pass_obj
def show_exclusion(session: Session, exclusion: str) -> None:
    """One exclusion, and what the promise reads with that time and without it."""
    found = session.client.get(f"/exclusions/{exclusion}/")
    show(found, as_json=session.as_json, words=_words(found))


@exclusions.command("propose")
@click.argument("endpoint", metavar="ENVIRONMENT/MODEL")
@click.option("--from", "start", type=MOMENT, required=True, help="As 2026-01-31T02:00, UTC.")
@click.option("--to", "end", type=MOMENT, required=True)
@click.option("--reason", required=True, help="Why it should not count.")
@click.option("--evidence", required=True, help="What shows it: a report, a ticket, an address.")
@click.option("--incident", default=None, help="An incident of the endpoint.")
@click.pass_obj
def propose_exclusion(
    session: Session,
    endpoint: str,
    start: datetime,
    end: datetime,
    reason: str,
    evidence: str,
    incident: str | None,
) -> None:
    """Ask the three seats; who sits in one agrees by proposing."""
    if incident:
        incident = whole_id(session.client, incident, ("/incidents/",), of="incident")
    body = {
        "starts_at": _utc(start),
        "ends_at": _utc(end),
        "reason": reason,
        "evidence": evidence,
        "incident": incident,
    }
    made = session.client.post(f"{_path(endpoint)}/exclusions/", body)
    show(made, as_json=session.as_json, words=_words(made))


@exclusions.command("agree")
@click.argument("exclusion")
@click.pass_obj
def agree_to_exclusion(session: Session, exclusion: str) -> None:
    """Agree for the seat that you sit in."""
    exclusion = whole_id(session.client, exclusion, EXCLUSIONS, of="exclusion")
    _act(session, f"/exclusions/{exclusion}/agree/", {})


@exclusions.command("withdraw")
@click.argument("exclusion")
@click.option("--reason", required=True)
@click.pass_obj
def withdraw_exclusion(session: Session, exclusion: str, reason: str) -> None:
    """Take it back: the time counts again."""
    exclusion = whole_id(session.client, exclusion, EXCLUSIONS, of="exclusion")
    _act(session, f"/exclusions/{exclusion}/withdraw/", {"reason": reason})


def _path(endpoint: str) -> str:
    if endpoint.count("/") != 1:
        raise CliError(f"{endpoint!r} is not ENVIRONMENT/MODEL.", exit_code=USAGE)
    return f"/endpoints/{endpoint}"


def _utc(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M}:00Z"


def _act(session: Session, path: str, body: dict[str, str]) -> None:
    found = session.client.post(path, body)
    show(found, as_json=session.as_json, words=_words(found))


def _list(session: Session, path: str, environment: str, model: str, state: str) -> None:
    page = session.client.get(path, environment=environment, model=model, state=state)
    rows = (
        (
            one["id"],
            f"{one['environment']}/{one['model']}",
            one["starts_at"],
            one["ends_at"],
            one["state"],
            ", ".join(word["seat"] for word in one["agreements"]) or "—",
            one["reason"],
        )
        for one in page["results"]
    )
    columns = ("ID", "ENDPOINT", "FROM", "TO", "STATE", "AGREED", "WHY")
    show(page, as_json=session.as_json, words=table(columns, rows))


def _words(one: dict[str, Any]) -> str:
    agreed = ", ".join(word["seat"] for word in one["agreements"]) or "nobody yet"
    lines = [
        f"{one['id']}: {one['environment']}/{one['model']} from {one['starts_at']} "
        f"to {one['ends_at']} is {one['state']} (agreed: {agreed})."
    ]
    return "\n".join([*lines, *(_effect(effect) for effect in one.get("effects", []))])


def _effect(one: dict[str, Any]) -> str:
    target = one["target"]
    return (
        f"  {one['month'][:7]} {one['name']}: {reached(one['counted'], target)} "
        f"({one['counted_state']}) while it counts, {reached(one['left_out'], target)} "
        f"({one['left_out_state']}) once it is left out; promised are {target:g} %."
    )


def _standing(one: dict[str, Any]) -> str:
    attained = reached(one["attained"], one["target"])
    limit = "" if one["threshold_ms"] is None else f" within {one['threshold_ms']:g} ms"
    minutes = one["minutes"]
    lines = [
        f"{one['name']}: {one['target']:g} %{limit}, reached {attained}: {one['state']}",
        f"  requests: {requests_left(one['budget_left'], one['budget_total'])}",
        f"  minutes:  {minutes_left(minutes['left'], minutes['total'])} "
        f"({minutes['excluded']} left out, {minutes['unknown']} without requests)",
    ]
    for burn in one["burns"]:
        rates = [
            "—" if burn[name] is None else f"{burn[name]:.2f}×"
            for name in ("long_rate", "short_rate")
        ]
        lines.append(
            f"  {burn['severity']}: {rates[0]} over {burn['long_s'] / 3600:g} h and {rates[1]} "
            f"over {burn['short_s'] / 60:g} min, fires above {burn['factor']:g}×"
            + (" — FIRING" if burn["firing"] else "")
        )
    return "\n".join(lines)
