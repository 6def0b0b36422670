"""`covenant sla`: whether promises are kept, their documents, links and reports by mail."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlencode, urlsplit

import click

from deployments.cli.client import GATE_FAILED, CliError
from deployments.cli.deploying import endpoint_path
from deployments.cli.output import show, table
from deployments.cli.prefixes import whole_id
from deployments.rules.objectives.figures import reached, requests_left, share_left

if TYPE_CHECKING:
    from deployments.cli.main import Session

LANG = click.option("--lang", type=click.Choice(["en", "zh-hans"]), default="en")
MONTH = click.option("--month", default="", metavar="YYYY-MM", help="The present month without it.")
OUT = click.option("--out", "-o", type=click.Path(path_type=Path), default=None)


class SlaGroup(click.Group):
    """`covenant sla ENVIRONMENT/MODEL` is `covenant sla show ENVIRONMENT/MODEL`."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and "/" in args[0]:
            args = ["show", *args]
        return super().resolve_command(ctx, args)


@click.group(cls=SlaGroup)
def sla() -> None:
    """Whether promises are kept. `covenant sla ENVIRONMENT/MODEL` shows one."""


@sla.command("show")
@click.argument("endpoint", metavar="ENVIRONMENT/MODEL")
@MONTH
@click.option("--gate", is_flag=True, help="Exit with 4 when a promise is broken.")
@click.pass_obj
def show_promise(session: Session, endpoint: str, month: str, gate: bool) -> None:
    """One promise over a month."""
    answer = session.client.get(f"/endpoints/{endpoint_path(endpoint)}/sla/", month=month)
    objectives = answer["objectives"]
    show(
        answer,
        as_json=session.as_json,
        words=table(
            ("OBJECTIVE", "TARGET", "ATTAINED", "BUDGET LEFT", "STATE"),
            (
                (
                    one["name"],
                    f"{one['target']:g} %",
                    reached(one["attained"], one["target"]),
                    requests_left(one["budget_left"], one["budget_total"]),
                    one["state"],
                )
                for one in objectives
            ),
        ),
    )
    if gate and any(o["state"] == "broken" for o in objectives):
        raise CliError(f"{endpoint} does not keep its promise.", exit_code=GATE_FAILED)


@sla.command("list")
@click.option("--environment", default="")
@click.option("--team", default="", help="A team's slug.")
@click.option("--state", default="", help="broken, at_risk, no_data or kept.")
@click.pass_obj
def list_promises(session: Session, environment: str, team: str, state: str) -> None:
    """All promises, the worst first, over their own windows."""
    page = session.client.get("/sla/", environment=environment, team=team, state=state)
    show(
        page,
        as_json=session.as_json,
        words=table(
            ("ENDPOINT", "TEAM", "STATE", "BUDGET LEFT", "REACHED"),
            (
                (
                    f"{one['environment']}/{one['model']}",
                    one["team"],
                    one["state"],
                    share_left(one["budget_left_share"]),
                    ", ".join(_reached(objective) for objective in one["objectives"]),
                )
                for one in page["results"]
            ),
        ),
    )


@sla.command("pdf")
@click.argument("endpoint", metavar="[ENVIRONMENT/MODEL]", default="")
@MONTH
@LANG
@OUT
@click.pass_obj
def pdf(session: Session, endpoint: str, month: str, lang: str, out: Path | None) -> None:
    """A month as PDF: of one promise, or of all of them."""
    _save(session, endpoint, "pdf", {"month": month, "lang": lang}, out)


@sla.command("csv")
@click.argument("endpoint", metavar="[ENVIRONMENT/MODEL]", default="")
@MONTH
@OUT
@click.pass_obj
def csv(session: Session, endpoint: str, month: str, out: Path | None) -> None:
    """A month as CSV: of one promise, or of all of them."""
    _save(session, endpoint, "csv", {"month": month}, out)


@sla.command("share")
@click.argument("endpoint", metavar="ENVIRONMENT/MODEL")
@click.option("--days", type=int, default=30, help="1 to 90; 30 without it.")
@click.option("--note", default="", help="For whom.")
@click.pass_obj
def share(session: Session, endpoint: str, days: int, note: str) -> None:
    """Make a link that shows one promise without an account; it is told this once."""
    found = session.client.post(
        f"/endpoints/{endpoint_path(endpoint)}/sla/shares/", {"days": days, "note": note}
    )
    show(found, as_json=session.as_json, words=f"{found['link']}\nuntil {found['expires_at']}")


@sla.command("shares")
@click.argument("endpoint", metavar="ENVIRONMENT/MODEL")
@click.pass_obj
def shares(session: Session, endpoint: str) -> None:
    """The links that show a promise."""
    found = session.client.get(f"/endpoints/{endpoint_path(endpoint)}/sla/shares/")
    show(
        found,
        as_json=session.as_json,
        words=table(
            ("LINK", "FOR", "STATE", "EXPIRES", "LAST OPENED", "TIMES"),
            (
                (
                    one["id"],
                    one["note"],
                    one["state"],
                    one["expires_at"],
                    one["last_used_at"] or "never",
                    one["uses"],
                )
                for one in found
            ),
        ),
    )


@sla.command("unshare")
@click.argument("link", metavar="LINK-ID")
@click.option("--reason", default="")
@click.pass_obj
def unshare(session: Session, link: str, reason: str) -> None:
    """Take a link back."""
    link = whole_id(session.client, link, _share_lists(session), of="link")
    found = session.client.post(f"/sla-shares/{link}/revoke/", {"reason": reason})
    show(found, as_json=session.as_json, words="It shows nothing any more.")


@sla.command("subscribe")
@click.argument("endpoint", metavar="[ENVIRONMENT/MODEL]", default="")
@click.option("--team", default="", help="All promises of a team, by its slug.")
@click.option("--environment", default="", help="All promises of an environment.")
@LANG
@click.pass_obj
def subscribe(session: Session, endpoint: str, team: str, environment: str, lang: str) -> None:
    """Have a report mailed to you on the 1st: of one promise, or of all of them."""
    body = {"team": team, "environment": environment, "language": lang}
    if endpoint:
        where, _slash, model = endpoint_path(endpoint).partition("/")
        body |= {"environment": where, "model": model}
    found = session.client.post("/sla-subscriptions/", body)
    words = f"Report {found['id']} comes on the 1st of each month."
    show(found, as_json=session.as_json, words=words)


@sla.command("subscriptions")
@click.pass_obj
def subscriptions(session: Session) -> None:
    """Your reports by mail."""
    found = session.client.get("/sla-subscriptions/")
    show(
        found,
        as_json=session.as_json,
        words=table(
            ("REPORT", "ABOUT", "LANGUAGE", "LAST MONTH", "SENT"),
            (
                (
                    one["id"],
                    _about(one),
                    one["language"],
                    one["last_month"] or "—",
                    one["last_sent_at"] or "not yet",
                )
                for one in found
            ),
        ),
    )


@sla.command("unsubscribe")
@click.argument("report", type=int)
@click.pass_obj
def unsubscribe(session: Session, report: int) -> None:
    """End a report by mail."""
    session.client.request("DELETE", f"/sla-subscriptions/{report}/")
    show({"ended": report}, as_json=session.as_json, words="It is not sent any more.")


@sla.command("send")
@click.argument("report", type=int)
@click.pass_obj
def send(session: Session, report: int) -> None:
    """Have the last whole month of a report sent at once."""
    found = session.client.post(f"/sla-subscriptions/{report}/send/", {})
    show(found, as_json=session.as_json, words=f"Job {found['job']} sends it.")


def _share_lists(session: Session) -> Iterator[str]:
    """Where the links of every promise are listed; asked for only when a whole id is missing."""
    query: dict[str, str] = {"limit": "200"}
    while True:
        page = session.client.get("/sla/", **query)
        for one in page["results"]:
            yield f"/endpoints/{one['environment']}/{one['model']}/sla/shares/"
        if not page["next"]:
            return
        query["cursor"] = parse_qs(urlsplit(page["next"]).query)["cursor"][0]


def _save(
    session: Session, endpoint: str, kind: str, query: dict[str, str], out: Path | None
) -> None:
    asked = {name: value for name, value in query.items() if value}
    path = f"/endpoints/{endpoint_path(endpoint)}/sla.{kind}" if endpoint else f"/sla.{kind}"
    data = session.client.content(f"{path}?{urlencode(asked)}" if asked else path)
    about = endpoint.replace("/", "-") if endpoint else "promises"
    target = out or Path("-".join(["sla", about, *asked.values()]) + f".{kind}")
    target.write_bytes(data)
    show(
        {"file": str(target), "bytes": len(data)},
        as_json=session.as_json,
        words=f"Wrote {target} ({len(data) / 1024:.0f} KiB).",
    )


def _reached(objective: dict[str, Any]) -> str:
    return f"{objective['name']} {reached(objective['attained'], objective['target'])}"


def _about(one: dict[str, Any]) -> str:
    if one["model"]:
        return f"{one['environment']}/{one['model']}"
    parts = [part for part in (one["team"], one["environment"]) if part]
    return f"all of {', '.join(parts)}" if parts else "all promises"
