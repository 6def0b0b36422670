"""`covenant alert-rules`: what raises an alert."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from deployments.cli.client import USAGE, CliError
from deployments.cli.output import show, table

if TYPE_CHECKING:
    from deployments.cli.main import Session

SCOPE = ("environment", "model", "node")


@click.group("alert-rules")
def alert_rules() -> None:
    """When an alert is raised."""


@alert_rules.command("list")
@click.pass_obj
def list_rules(session: Session) -> None:
    """Every rule with its conditions."""
    page = session.client.get("/alert-rules/")
    rows = (
        (
            one["name"],
            one["severity"],
            "on" if one["enabled"] else "off",
            _conditions(one["document"]),
            _scope(one),
            one["fault"] or "",
        )
        for one in page["results"]
    )
    head = ("RULE", "SEVERITY", "STATE", "WHEN", "ABOUT", "FAULT")
    show(page, as_json=session.as_json, words=table(head, rows))


@alert_rules.command("show")
@click.argument("rule")
@click.pass_obj
def show_rule(session: Session, rule: str) -> None:
    """A rule with every field of its document."""
    found = session.client.get(f"/alert-rules/{rule}/")
    show(found, as_json=session.as_json, words=_words(found))


@alert_rules.command("set")
@click.argument("rule")
@click.option(
    "--file",
    "path",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="JSON of the document: conditions, window_s, for_s, …",
)
@click.option("--title", default=None)
@click.option("--severity", default=None, help="P1, P2 or P3.")
@click.option("--on/--off", "enabled", default=None)
@click.option("--environment", default=None)
@click.option("--model", default=None)
@click.option("--node", default=None)
@click.option("--reason", default="")
@click.option("--new", is_flag=True, help="Make a rule of this name.")
@click.pass_obj
def set_rule(
    session: Session, /, rule: str, path: Path | None, new: bool, reason: str, **given: Any
) -> None:
    """Decide a rule anew, or make one; what is not named stays as it is."""
    before: dict[str, Any] = {} if new else session.client.get(f"/alert-rules/{rule}/")
    if new and path is None:
        raise CliError("A new rule needs --file.", exit_code=USAGE)
    names = ("title", "severity", "enabled", *SCOPE)
    body = {name: before[name] for name in names if name in before}
    body |= {name: value for name, value in given.items() if value is not None}
    body["document"] = _read(path) if path else before["document"]
    body["reason"] = reason
    match = f'"{before["revision"]}"' if before else '"0"'
    found = session.client.put(f"/alert-rules/{rule}/", body, None, **{"If-Match": match}).json()
    show(found, as_json=session.as_json, words=_words(found))


@alert_rules.command("preview")
@click.option(
    "--file",
    "path",
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="JSON of the document.",
)
@click.option("--environment", default="")
@click.option("--model", default="")
@click.option("--node", default="")
@click.pass_obj
def preview(session: Session, /, path: Path, **scope: str) -> None:
    """When a rule would have fired in the last 24 hours; nothing is changed."""
    found = session.client.post("/alert-rule-preview/", {"document": _read(path), **scope})
    if found["why_not"]:
        words = f"That cannot be told from minutes ({found['why_not']})."
    else:
        lines = [
            f"It would have fired {len(found['fired'])} times "
            f"({found['looked_at']} of {found['there_are']} things looked at)."
        ]
        lines += [
            f"{one['fired_at']} – {one['resolved_at'] or 'still'}  {one['of']}  "
            f"worst {one['worst']:g}"
            for one in found["fired"]
        ]
        words = "\n".join(lines)
    show(found, as_json=session.as_json, words=words)


@alert_rules.command("restore")
@click.argument("rule")
@click.option("--reason", default="")
@click.pass_obj
def restore(session: Session, rule: str, reason: str) -> None:
    """Put a built-in rule back to what the product came with."""
    found = session.client.post(f"/alert-rules/{rule}/restore/", {"reason": reason})
    show(found, as_json=session.as_json, words=_words(found))


@alert_rules.command("remove")
@click.argument("rule")
@click.pass_obj
def remove(session: Session, rule: str) -> None:
    """Remove a rule that did not come with the product; its alerts are over."""
    session.client.request("DELETE", f"/alert-rules/{rule}/")
    show({"removed": rule}, as_json=session.as_json, words=f"{rule} is removed.")


@alert_rules.command("signals")
@click.pass_obj
def signals(session: Session) -> None:
    """What a rule can watch; every measured series is one by its name."""
    found = session.client.get("/alert-signals/")
    rows = ((one["name"], one["source"], one["unit"]) for one in found)
    show(found, as_json=session.as_json, words=table(("SIGNAL", "FROM", "UNIT"), rows))


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise CliError(f"{path} is no JSON: {error}.", exit_code=USAGE) from error


def _conditions(document: dict[str, Any]) -> str:
    return " and ".join(
        f"{one['signal']} {one['op']} {one['threshold']:g}"
        for one in document.get("conditions", [])
    )


def _scope(one: dict[str, Any]) -> str:
    if one["node"]:
        return str(one["node"])
    if not one["environment"] and not one["model"]:
        return "everything"
    return f"{one['environment'] or '*'}/{one['model'] or '*'}"


def _words(found: dict[str, Any]) -> str:
    fields = "\n".join(
        f"  {name}: {value}" for name, value in found["document"].items() if name != "conditions"
    )
    state = "on" if found["enabled"] else "off"
    return (
        f"{found['severity']} {found['name']} ({state}, revision {found['revision']}): "
        f"{found['title']}\n  {_conditions(found['document'])}\n  about {_scope(found)}\n{fields}"
    )
