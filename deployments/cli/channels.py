"""`covenant channels`: where alerts are sent, which alert goes where, and what was sent."""

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

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.group()
def channels() -> None:
    """Places that alerts are sent to."""


@channels.command("list")
@click.pass_obj
def list_channels(session: Session) -> None:
    """The channels and how they do."""
    found = session.client.get("/alert-channels/")
    show(
        found,
        as_json=session.as_json,
        words=table(
            ("CHANNEL", "KIND", "WHERE", "STATE", "LAST SENT"),
            (
                (
                    one["name"],
                    one["kind"],
                    one["address"],
                    _state(one),
                    one["last_sent_at"] or "—",
                )
                for one in found
            ),
        ),
    )


@channels.command("add")
@click.argument("name")
@click.option(
    "--kind",
    required=True,
    type=click.Choice(["email", "webhook", "slack", "feishu", "dingtalk", "pagerduty", "sms"]),
)
@click.option("--address", default="", help="Mail addresses, or an https address.")
@click.option("--secret-file", type=FILE, help="A file with the key that the receiver gave.")
@click.option("--option", "options", multiple=True, help="NAME=VALUE, as in to=+15550100.")
@click.option("--language", default="", help="en or zh-hans.")
@click.pass_obj
def add(
    session: Session,
    name: str,
    kind: str,
    address: str,
    secret_file: Path | None,
    options: tuple[str, ...],
    language: str,
) -> None:
    """Make a channel; a webhook's secret is printed this once."""
    made = session.client.post(
        "/alert-channels/",
        {
            "name": name,
            "kind": kind,
            "address": address,
            "secret": _secret(secret_file),
            "options": _options(options),
            "language": language,
        },
    )
    words = f"{name} is a channel now: `covenant channels test {name}` tries it."
    if made["secret"]:
        words += f"\nIts secret, shown this once: {made['secret']}"
    show(made, as_json=session.as_json, words=words)


@channels.command("change")
@click.argument("name")
@click.option("--address", default="")
@click.option("--secret-file", type=FILE)
@click.option("--option", "options", multiple=True, help="NAME=VALUE; all that it is to have.")
@click.option("--language", default=None)
@click.option("--on/--off", "enabled", default=None, help="Start or stop it.")
@click.option("--reason", default="")
@click.pass_obj
def change(
    session: Session,
    name: str,
    address: str,
    secret_file: Path | None,
    options: tuple[str, ...],
    language: str | None,
    enabled: bool | None,
    reason: str,
) -> None:
    """Change what is named; the rest stays."""
    wanted: dict[str, Any] = {"reason": reason}
    if address:
        wanted["address"] = address
    if secret_file:
        wanted["secret"] = _secret(secret_file)
    if options:
        wanted["options"] = _options(options)
    if language is not None:
        wanted["language"] = language
    if enabled is not None:
        wanted["enabled"] = enabled
    found = session.client.request("PATCH", f"/alert-channels/{name}/", json=wanted).json()
    show(found, as_json=session.as_json, words=f"{name}: {_state(found)}")


@channels.command("test")
@click.argument("name")
@click.pass_obj
def test(session: Session, name: str) -> None:
    """Send a message that says that it is a test, and print what was answered."""
    tried = session.client.post(f"/alert-channels/{name}/test/", {})
    lines = [
        f"{one['receiver']}: {one['state']} – {one['answer'] or one['error']}"
        + (f"\n  {one['hint']}" if one["hint"] else "")
        for one in tried
    ]
    show(tried, as_json=session.as_json, words="\n".join(lines))
    if any(one["state"] != "sent" for one in tried):
        raise CliError("The test did not arrive.", hint="See what was answered above.")


@channels.command("rotate")
@click.argument("name")
@click.pass_obj
def rotate(session: Session, name: str) -> None:
    """A new secret for a webhook, printed this once."""
    made = session.client.post(f"/alert-channels/{name}/secret/", {})
    show(made, as_json=session.as_json, words=f"The new secret, shown this once: {made['secret']}")


@channels.command("remove")
@click.argument("name")
@click.pass_obj
def remove(session: Session, name: str) -> None:
    """Send nothing there any more."""
    session.client.request("DELETE", f"/alert-channels/{name}/")
    show({"removed": name}, as_json=session.as_json, words=f"Nothing is sent to {name} any more.")


@channels.command("routes")
@click.pass_obj
def list_routes(session: Session) -> None:
    """Which alert goes where, in the order that they are looked at."""
    found = session.client.get("/alert-routes/")
    show(
        found,
        as_json=session.as_json,
        words=table(
            ("PLACE", "ROUTE", "TAKES", "CHANNELS", "PEOPLE", "ESCALATION"),
            (
                (
                    str(one["position"]),
                    one["name"] + ("" if one["enabled"] else " (off)"),
                    _takes(one),
                    ", ".join(one["channels"]) or "—",
                    one["people"],
                    one["policy"] or "—",
                )
                for one in found
            ),
        ),
    )


@channels.command("set-route")
@click.argument("name")
@click.option("--file", "path", type=FILE, required=True, help="JSON, as `routes --json` prints.")
@click.pass_obj
def set_route(session: Session, name: str, path: Path) -> None:
    """Make a route, or decide it anew."""
    found = session.client.put(f"/alert-routes/{name}/", read_json(path)).json()
    show(found, as_json=session.as_json, words=f"{name} takes {_takes(found)}.")


@channels.command("remove-route")
@click.argument("name")
@click.pass_obj
def remove_route(session: Session, name: str) -> None:
    """Take a route away."""
    session.client.request("DELETE", f"/alert-routes/{name}/")
    show({"removed": name}, as_json=session.as_json, words=f"The route {name} is gone.")


@channels.command("messages")
@click.option("--state", default="", help="waiting, sent, failed or skipped.")
@click.option("--channel", default="")
@click.option("--why", default="", help="firing, reminder, escalation, resolved or test.")
@click.pass_obj
def messages(session: Session, state: str, channel: str, why: str) -> None:
    """What was sent, the newest first."""
    page = session.client.get("/alert-deliveries/", state=state, channel=channel, why=why)
    show(
        page,
        as_json=session.as_json,
        words=table(
            ("MESSAGE", "WRITTEN", "WHY", "ABOUT", "TO", "STATE", "WHAT WAS ANSWERED"),
            (
                (
                    one["id"],
                    one["created_at"],
                    one["why"],
                    f"{one['severity']} {one['subject']}".strip(),
                    one["receiver"],
                    one["state"],
                    one["error"] or one["answer"],
                )
                for one in page["results"]
            ),
        ),
    )


@channels.command("retry")
@click.argument("message")
@click.pass_obj
def retry(session: Session, message: str) -> None:
    """Send a message that failed once more."""
    message = whole_id(session.client, message, ("/alert-deliveries/",), of="message")
    found = session.client.post(f"/alert-deliveries/{message}/retry/", {})
    show(found, as_json=session.as_json, words=f"It is sent to {found['receiver']} again.")


def read_json(path: Path) -> dict[str, Any]:
    """A JSON document without what the server alone says (its name and revision)."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise CliError(f"{path} is no JSON: {error}.", exit_code=USAGE) from error
    if not isinstance(found, dict):
        raise CliError(f"{path} is no JSON object.", exit_code=USAGE)
    return {key: value for key, value in found.items() if key != "name"}


def _secret(path: Path | None) -> str:
    return path.read_text(encoding="utf-8").strip() if path else ""


def _options(given: tuple[str, ...]) -> dict[str, str]:
    for one in given:
        if "=" not in one:
            raise CliError(f"{one!r} is not NAME=VALUE.", exit_code=USAGE)
    return dict(one.split("=", 1) for one in given)


def _state(one: dict[str, Any]) -> str:
    if not one["enabled"]:
        return "off"
    return f"failing: {one['last_error']}" if one["failures"] else "on"


def _takes(one: dict[str, Any]) -> str:
    names = ("environment", "model", "team", "rule_name", "label")
    parts = ["/".join(one["severities"]), *(f"{n}={one[n]}" for n in names if one[n])]
    return " ".join(part for part in parts if part) or "everything"
