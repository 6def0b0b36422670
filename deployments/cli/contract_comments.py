"""`covenant contract comment`: what is said of a proposal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from deployments.cli.output import show

if TYPE_CHECKING:
    from deployments.cli.main import Session


@click.group()
def comment() -> None:
    """Comments on a proposal: list, add, answer, resolve, reopen."""


@comment.command("list")
@click.argument("model")
@click.argument("revision", type=int)
@click.pass_obj
def list_comments(session: Session, model: str, revision: int) -> None:
    """What was said, oldest first, each answer below its comment."""
    page = session.client.get(f"/models/{model}/contracts/{revision}/comments/", limit=200)
    said = page["results"]
    lines = []
    for one in (one for one in said if one["answers"] is None):
        lines.append(_line(one))
        lines.extend(f"    {_line(other)}" for other in said if other["answers"] == one["id"])
    show(page, as_json=session.as_json, words="\n".join(lines) or "Nobody has commented on it.")


@comment.command()
@click.argument("model")
@click.argument("revision", type=int)
@click.argument("text")
@click.option("--at", "pointer", default="", metavar="POINTER", help="As in /objectives/0.")
@click.option("--answers", type=int, help="The id of the comment that it replies to.")
@click.pass_obj
def add(
    session: Session, model: str, revision: int, text: str, pointer: str, answers: int | None
) -> None:
    """Comment on a proposal, on a clause of it, or answer a comment."""
    made = session.client.post(
        f"/models/{model}/contracts/{revision}/comments/",
        {"text": text, "pointer": pointer, "answers": answers},
    )
    show(made, as_json=session.as_json, words=f"Comment {made['id']} is there.")


@comment.command()
@click.argument("model")
@click.argument("revision", type=int)
@click.argument("comment_id", type=int)
@click.pass_obj
def resolve(session: Session, model: str, revision: int, comment_id: int) -> None:
    """A comment is dealt with."""
    _settle(session, model, revision, comment_id, "resolve")


@comment.command()
@click.argument("model")
@click.argument("revision", type=int)
@click.argument("comment_id", type=int)
@click.pass_obj
def reopen(session: Session, model: str, revision: int, comment_id: int) -> None:
    """A comment is not dealt with after all."""
    _settle(session, model, revision, comment_id, "reopen")


def _settle(session: Session, model: str, revision: int, comment_id: int, act: str) -> None:
    path = f"/models/{model}/contracts/{revision}/comments/{comment_id}/{act}/"
    settled = session.client.post(path)
    words = "is resolved" if settled["resolved_at"] else "is open"
    show(settled, as_json=session.as_json, words=f"Comment {comment_id} {words}.")


def _line(one: Mapping[str, Any]) -> str:
    place = f" on {one['pointer']}" if one["pointer"] and one["answers"] is None else ""
    done = f" [resolved by {one['resolved_by']}]" if one["resolved_at"] else ""
    return f"{one['id']}  {one['author']}{place}{done}: {one['text']}"
