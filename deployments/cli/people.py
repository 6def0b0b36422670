"""`covenant people` and `covenant teams`: who there is, inviting, going; and keyless sign-in."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from deployments.cli.client import USAGE, Client, CliError, Credentials
from deployments.cli.output import note, show, table

if TYPE_CHECKING:
    from deployments.cli.main import Session

MOST_TOKEN_BYTES = 16 * 1024


def exchange(url: str, path: Path, account: str) -> str:
    """A token of 15 minutes for the platform's own, which is read from a file."""
    try:
        with path.open("rb") as file:
            text = file.read(MOST_TOKEN_BYTES + 1).decode("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise CliError(
            f"The workload token cannot be read from {path}: {error}.",
            exit_code=USAGE,
            hint="Name the file into which your platform writes the job's token.",
        ) from error
    wanted = {"token": text, **({"account": account} if account else {})}
    return str(Client(Credentials(url, "")).post("/tokens/exchange/", wanted)["token"])


@click.group()
def people() -> None:
    """Who works here, and in which roles."""


@people.command("list")
@click.option("--role", default="")
@click.option("--team", default="")
@click.option("--state", type=click.Choice(["active", "deactivated", "all"]), default="active")
@click.pass_obj
def list_people(session: Session, role: str, team: str, state: str) -> None:
    """People with their roles, teams and seats."""
    page = session.client.get("/people/", role=role, team=team, state=state, limit="200")
    show(
        page,
        as_json=session.as_json,
        words=table(
            ("PERSON", "NAME", "ROLES", "TEAMS", "SEATS", "LAST SEEN"),
            (
                (
                    one["username"],
                    one["display_name"],
                    ", ".join(one["roles"]),
                    ", ".join(t["team"] for t in one["teams"]),
                    len(one["seats"]) or "",
                    one["last_seen"],
                )
                for one in page["results"]
            ),
        ),
    )


@people.command("invite")
@click.argument("email")
@click.option("--name", default="", help="Full name.")
@click.option("--username", default="", help="Made of the address when left out.")
@click.option("--role", "roles", multiple=True, help="For everything; may be given again.")
@click.option("--team", "teams", multiple=True, help="TEAM or TEAM=ROLE,ROLE; again for more.")
@click.option("--days", type=int, default=7, show_default=True)
@click.pass_obj
def invite(
    session: Session,
    email: str,
    name: str,
    username: str,
    roles: tuple[str, ...],
    teams: tuple[str, ...],
    days: int,
) -> None:
    """Invite somebody; prints the link, which is given this once."""
    wanted = {
        "email": email,
        "display_name": name,
        "username": username,
        "roles": list(roles),
        "teams": [_membership(one) for one in teams],
        "days": days,
    }
    made = session.client.post("/invitations/", wanted)
    if made["mail_fault"]:
        note(f"Not mailed: {made['mail_fault']}")
    show(made, as_json=session.as_json, words=made["link"])


@people.command("departure")
@click.argument("username")
@click.pass_obj
def departure(session: Session, username: str) -> None:
    """What a person carries, and who could carry it on."""
    found = session.client.get(f"/people/{username}/departure/")
    show(
        found,
        as_json=session.as_json,
        words=table(
            ("WHAT", "KEY", "SUGGESTED"),
            (
                (
                    one["subject"],
                    one["key"],
                    ", ".join(one["suggested"]) if one["needs_successor"] else "(is told)",
                )
                for one in found["duties"]
            ),
        )
        if found["duties"]
        else f"{username} carries nothing.",
    )


@people.command("deactivate")
@click.argument("username")
@click.option("--reason", required=True)
@click.option("--successor", "successors", multiple=True, help="KEY=USERNAME; see departure.")
@click.pass_obj
def deactivate(session: Session, username: str, reason: str, successors: tuple[str, ...]) -> None:
    """Take away all access and hand over seats and models: all of it or nothing."""
    named = dict(_pair(one, "KEY=USERNAME") for one in successors)
    done = session.client.post(
        f"/people/{username}/deactivate/", {"reason": reason, "successors": named}
    )
    show(
        done,
        as_json=session.as_json,
        words=f"{username} is deactivated: {len(done['handed_over'])} handed over, "
        f"{done['keys']} keys and {done['tokens']} tokens revoked, "
        f"{done['sessions']} sessions ended.",
    )


@click.group()
def teams() -> None:
    """Teams and their members."""


@teams.command("list")
@click.pass_obj
def list_teams(session: Session) -> None:
    """All teams."""
    page = session.client.get("/teams/", limit="200")
    show(
        page,
        as_json=session.as_json,
        words=table(
            ("TEAM", "NAME", "PEOPLE", "SERVICE ACCOUNTS"),
            (
                (one["slug"], one["name"], one["people"], one["service_accounts"])
                for one in page["results"]
            ),
        ),
    )


@teams.command("create")
@click.argument("name")
@click.option("--slug", default="", help="Made of the name when left out.")
@click.option("--description", default="")
@click.pass_obj
def create_team(session: Session, name: str, slug: str, description: str) -> None:
    """Make a team."""
    made = session.client.post("/teams/", {"name": name, "slug": slug, "description": description})
    show(made, as_json=session.as_json, words=f"The team {made['slug']} is made.")


@teams.command("members")
@click.argument("slug")
@click.pass_obj
def members(session: Session, slug: str) -> None:
    """A team's members with their roles in it."""
    found = session.client.get(f"/teams/{slug}/")
    show(
        found,
        as_json=session.as_json,
        words=table(
            ("PERSON", "NAME", "ROLES"),
            (
                (one["username"], one["display_name"], ", ".join(one["roles"]))
                for one in found["members"]
            ),
        ),
    )


@teams.command("set-member")
@click.argument("slug")
@click.argument("username")
@click.option("--role", "roles", multiple=True, help="In this team; may be given again.")
@click.pass_obj
def set_member(session: Session, slug: str, username: str, roles: tuple[str, ...]) -> None:
    """Take somebody in with exactly these roles, or change a member's."""
    found: dict[str, Any] = session.client.put(
        f"/teams/{slug}/members/{username}/", {"roles": list(roles)}
    ).json()
    show(
        found,
        as_json=session.as_json,
        words=f"{username} is in {slug}: {', '.join(roles) or 'no role'}.",
    )


@teams.command("remove-member")
@click.argument("slug")
@click.argument("username")
@click.option("--reason", default="")
@click.pass_obj
def remove_member(session: Session, slug: str, username: str, reason: str) -> None:
    """Take somebody out of a team."""
    answer = session.client.request(
        "DELETE", f"/teams/{slug}/members/{username}/", json={"reason": reason}
    )
    show(answer.json(), as_json=session.as_json, words=f"{username} is out of {slug}.")


def _membership(text: str) -> dict[str, Any]:
    slug, _, roles = text.partition("=")
    return {"team": slug, "roles": [role for role in roles.split(",") if role]}


def _pair(text: str, shape: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not separator or not value:
        raise click.BadParameter(f"{text!r} is not {shape}.")
    return key, value
