"""`covenant release`, `covenant freeze`: ask, look, release against the policy, review; freezes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from console.rules import dsse, signing_keys
from deployments.cli import offline
from deployments.cli.client import GATE_FAILED, CliError
from deployments.cli.keys_file import open_key
from deployments.cli.output import note, show, table

if TYPE_CHECKING:
    from deployments.cli.main import Session


class AskByDefault(click.Group):
    """`covenant release MODEL NUMBER ENVIRONMENT` asks, without the word `ask`."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The subcommand, or `ask` for what names none."""
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            args = ["ask", *args]
        return super().resolve_command(ctx, args)


@click.group(cls=AskByDefault)
def release() -> None:
    """Releases: ask for one, see what it takes, release against the policy, review that.

    `covenant release MODEL NUMBER ENVIRONMENT` asks.
    """


@release.command()
@click.argument("model")
@click.argument("number", type=int)
@click.argument("environment")
@click.option("--note", "text", default="")
@click.option(
    "--break-glass",
    is_flag=True,
    help="Ask although a contract is missing; then `covenant release break-glass` has to follow.",
)
@click.pass_obj
def ask(
    session: Session, model: str, number: int, environment: str, text: str, break_glass: bool
) -> None:
    """Ask to release a version to an environment."""
    body = {"version": number, "environment": environment, "note": text}
    made = session.client.post(
        f"/models/{model}/releases/", {**body, **({"break_glass": True} if break_glass else {})}
    )
    show(
        made,
        as_json=session.as_json,
        words=f"Release {made['id']}: {made['state']}. {made.get('explanation', '')}".rstrip(),
    )


@release.command("show")
@click.argument("model")
@click.argument("release_id")
@click.option("--gate", is_flag=True, help="Exit with 4 while it may not be deployed.")
@click.pass_obj
def show_release(session: Session, model: str, release_id: str, gate: bool) -> None:
    """What a release takes, condition by condition."""
    found = session.client.get(f"/models/{model}/releases/{release_id}/")
    show(found, as_json=session.as_json, words=_words(found))
    if gate and not found["may_deploy"]:
        raise CliError(f"Release {release_id} may not be deployed.", exit_code=GATE_FAILED)


@release.command("list")
@click.option("--model", default="")
@click.option("--environment", default="")
@click.option("--state", default="")
@click.option(
    "--broken-glass",
    type=click.Choice(["yes", "no", "open"]),
    default=None,
    help="Released against the policy; open: nobody has looked into it.",
)
@click.pass_obj
def list_releases(
    session: Session, model: str, environment: str, state: str, broken_glass: str | None
) -> None:
    """Releases of all models, newest first."""
    wanted = {
        "model": model,
        "environment": environment,
        "state": state,
        "broken_glass": broken_glass or "",
    }
    page = session.client.get("/releases/", **{k: v for k, v in wanted.items() if v})
    rows = (
        (
            one["id"],
            f"{one['model']} v{one['version']}",
            one["environment"],
            one["state"],
            "break-glass" if one["break_glass"] else "policy",
            sum(not (c["met"] or c["waived"]) for c in one["conditions"]),
        )
        for one in page["results"]
    )
    columns = ("RELEASE", "VERSION", "ENVIRONMENT", "STATE", "BY", "MISSING")
    show(page, as_json=session.as_json, words=table(columns, rows))


@release.command("break-glass")
@click.argument("model")
@click.argument("release_id")
@click.option("--key", "key_path", required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--reason", required=True, help="What is broken, and why it cannot wait.")
@click.option("--password", envvar="COVENANT_PASSWORD", default="", help="Asked for when needed.")
@click.option("--code", default="", help="The code of your authenticator app, instead.")
@click.pass_obj
def break_glass(
    session: Session,
    model: str,
    release_id: str,
    key_path: Path,
    reason: str,
    password: str,
    code: str,
) -> None:
    """Release against the environment's policy. Signed, told to everybody, visible for good."""
    path = f"/models/{model}/releases/{release_id}"
    before = session.client.get(f"{path}/")
    for condition in before["conditions"]:
        if not condition["met"]:
            note(f"Past: {condition['sentence']}")
    payload = session.client.content(f"{path}/payload/")
    key = open_key(key_path)
    if not password and not code:
        password = click.prompt("Your password, once more", hide_input=True, err=True)
    envelope = offline.sign_payload(key, dsse.RELEASE_PAYLOAD_TYPE, payload)
    note(f"Signing with key {signing_keys.public_key_of(key).key_id[:12]}…")
    body: dict[str, Any] = {"envelope": envelope.to_dict(), "reason": reason}
    body |= {name: value for name, value in (("password", password), ("code", code)) if value}
    made = session.client.post(f"{path}/break-glass/", body)
    show(
        made,
        as_json=session.as_json,
        words=f"Release {release_id}: {made['state']}, against the policy. Somebody else has to "
        f"look into it until {made['break_glass']['review_due']}.",
    )


@release.command()
@click.argument("model")
@click.argument("release_id")
@click.option("--text", required=True, help="What you found, and what follows from it.")
@click.pass_obj
def review(session: Session, model: str, release_id: str, text: str) -> None:
    """Say what came of looking into a release against the policy."""
    made = session.client.post(f"/models/{model}/releases/{release_id}/review/", {"review": text})
    show(made, as_json=session.as_json, words=f"Release {release_id} is reviewed.")


@click.group()
def freeze() -> None:
    """Freeze windows: times in which nothing new is deployed."""


@freeze.command("list")
@click.argument("environment")
@click.pass_obj
def list_freezes(session: Session, environment: str) -> None:
    """An environment's freeze windows, newest first."""
    page = session.client.get(f"/environments/{environment}/freezes/")
    columns = ("ID", "NAME", "FROM", "UNTIL", "WEEKLY", "LIFTED", "REASON")
    rows = (
        (
            one["id"],
            one["name"],
            one["starts_at"],
            one["ends_at"],
            "yes" if one["weekly"] else "",
            one["lifted_at"],
            one["reason"],
        )
        for one in page["results"]
    )
    show(page, as_json=session.as_json, words=table(columns, rows))


@freeze.command("set")
@click.argument("environment")
@click.option("--name", required=True)
@click.option("--from", "starts_at", required=True, metavar="RFC3339")
@click.option("--until", "ends_at", required=True, metavar="RFC3339")
@click.option("--weekly", is_flag=True, help="Again every seven days.")
@click.option("--reason", required=True)
@click.pass_obj
def set_freeze(
    session: Session,
    environment: str,
    name: str,
    starts_at: str,
    ends_at: str,
    weekly: bool,
    reason: str,
) -> None:
    """Freeze an environment."""
    body = {
        "name": name,
        "starts_at": starts_at,
        "ends_at": ends_at,
        "weekly": weekly,
        "reason": reason,
    }
    made = session.client.post(f"/environments/{environment}/freezes/", body)
    words = f"Freeze {made['id']}: {environment} from {made['starts_at']} until {made['ends_at']}."
    show(made, as_json=session.as_json, words=words)


@freeze.command("lift")
@click.argument("environment")
@click.argument("freeze_id", type=int)
@click.option("--reason", required=True)
@click.pass_obj
def lift_freeze(session: Session, environment: str, freeze_id: int, reason: str) -> None:
    """End a freeze now, for good."""
    made = session.client.post(
        f"/environments/{environment}/freezes/{freeze_id}/lift/", {"reason": reason}
    )
    show(made, as_json=session.as_json, words=f"Freeze {freeze_id} is lifted.")


def _words(found: dict[str, Any]) -> str:
    lines = [f"{found['model']} v{found['version']} to {found['environment']}: {found['state']}"]
    for one in found["conditions"]:
        mark = "met" if one["met"] else "waived" if one["waived"] else "MISSING"
        lines.append(f"  {mark:8} {one['sentence']}")
    if found["approvals_lapse_at"]:
        lines.append(f"  The approvals count until {found['approvals_lapse_at']}.")
    if glass := found["break_glass"]:
        lines.append(f"  Released against the policy by {glass['person']}: {glass['reason']}")
        reviewed = glass["reviewed_by"]
        lines.append(
            f"  Reviewed by {reviewed}: {glass['review']}"
            if reviewed
            else f"  Not reviewed yet; due {glass['review_due']}."
        )
    return "\n".join(lines)
