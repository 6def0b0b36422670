"""`covenant contract draft` and `covenant contract template`: writing a contract with others."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from deployments.cli.client import USAGE, CliError
from deployments.cli.output import show, table

if TYPE_CHECKING:
    from deployments.cli.main import Session


@click.group()
def draft() -> None:
    """A contract that is still being written: it may be wrong, and others write it too."""


@draft.command("list")
@click.argument("model")
@click.option(
    "--state", type=click.Choice(["open", "proposed", "discarded", "all"]), default="open"
)
@click.pass_obj
def list_drafts(session: Session, model: str, state: str) -> None:
    """Drafts of a model's contracts, changed last first."""
    page = session.client.get(f"/models/{model}/contracts/drafts/", state=state)
    show(
        page,
        as_json=session.as_json,
        words=table(
            ("ID", "TITLE", "STATE", "EDITION", "CHANGED BY", "CHANGED"),
            (
                (d["id"], d["title"], d["state"], d["edition"], d["changed_by"], d["changed_at"])
                for d in page["results"]
            ),
        ),
    )


@draft.command("show")
@click.argument("model")
@click.argument("draft_id", type=int)
@click.option(
    "--output", "-o", type=click.Path(path_type=Path), help="Write its text to a file to edit."
)
@click.pass_obj
def show_draft(session: Session, model: str, draft_id: int, output: Path | None) -> None:
    """A draft's text, its edition and what keeps it from being proposed."""
    found = session.client.get(f"/models/{model}/contracts/drafts/{draft_id}/")
    if output is not None:
        output.write_text(found["text"], encoding="utf-8")
        words = f"Wrote edition {found['edition']} of “{found['title']}” to {output}."
    else:
        words = f"{found['text']}\n{_standing(found)}"
    show(found, as_json=session.as_json, words=words)


@draft.command()
@click.argument("model")
@click.argument("file", type=click.File("rb"), required=False)
@click.option("--title", default="", help="What it is about.")
@click.option("--template", default="", help="A template's key (see `contract template list`).")
@click.option("--revision", type=int, help="A revision of the model's contract.")
@click.option("--version", type=int, help="The version whose report fills it.")
@click.pass_obj
def start(
    session: Session,
    model: str,
    file: BinaryIO | None,
    title: str,
    template: str,
    revision: int | None,
    version: int | None,
) -> None:
    """Start a draft from a file, a template, a revision, a version's report, or blank."""
    body: dict[str, Any] = {"title": title, "template": template}
    body |= {"revision": revision, "version": version}
    if file is not None:
        body = {"title": title, "text": _text(file)}
    made = session.client.post(f"/models/{model}/contracts/drafts/", body)
    show(
        made,
        as_json=session.as_json,
        words=f"Draft {made['id']} of {model}, “{made['title']}”, is started. {_standing(made)}",
    )


@draft.command()
@click.argument("model")
@click.argument("draft_id", type=int)
@click.argument("file", type=click.File("rb"))
@click.option("--edition", type=int, required=True, help="The edition that you changed.")
@click.option("--title", help="Another title.")
@click.pass_obj
def save(
    session: Session, model: str, draft_id: int, file: BinaryIO, edition: int, title: str | None
) -> None:
    """Save a draft's text; refused when somebody saved another edition since."""
    body = {"text": _text(file), **({"title": title} if title else {})}
    path = f"/models/{model}/contracts/drafts/{draft_id}/"
    saved = session.client.put(path, body, None, **{"If-Match": f'"{edition}"'}).json()
    show(
        saved,
        as_json=session.as_json,
        words=f"Saved as edition {saved['edition']}. {_standing(saved)}",
    )


@draft.command("propose")
@click.argument("model")
@click.argument("draft_id", type=int)
@click.option("--note", default="", help="What the three who sign should know.")
@click.option(
    "--acknowledge-breaking",
    is_flag=True,
    help="That it breaks callers of the contract that holds is meant.",
)
@click.pass_obj
def propose_draft(
    session: Session, model: str, draft_id: int, note: str, acknowledge_breaking: bool
) -> None:
    """Propose a draft: it becomes the next revision, once."""
    made = session.client.post(
        f"/models/{model}/contracts/drafts/{draft_id}/propose/",
        {"note": note, "acknowledge_breaking": acknowledge_breaking},
    )
    show(
        made,
        as_json=session.as_json,
        words=f"{model} contract {made['revision']} is proposed, digest {made['digest']}.",
    )


@draft.command()
@click.argument("model")
@click.argument("draft_id", type=int)
@click.option("--reason", default="")
@click.pass_obj
def discard(session: Session, model: str, draft_id: int, reason: str) -> None:
    """Put a draft away; its text can still be read."""
    path = f"/models/{model}/contracts/drafts/{draft_id}/"
    session.client.request("DELETE", path, params={"reason": reason})
    show({"discarded": draft_id}, as_json=session.as_json, words=f"Draft {draft_id} is discarded.")


@click.group()
def template() -> None:
    """Contracts to start from."""


@template.command("list")
@click.argument("model")
@click.pass_obj
def list_templates(session: Session, model: str) -> None:
    """Templates, those made for the model's risk class first."""
    found = session.client.get(f"/models/{model}/contract-templates/")
    show(
        found,
        as_json=session.as_json,
        words=table(
            ("KEY", "TITLE", "RISK CLASSES", "FITS"),
            (
                (t["key"], t["title"], ", ".join(t["risk_classes"]), "yes" if t["fits"] else "")
                for t in found
            ),
        ),
    )


@template.command("show")
@click.argument("model")
@click.argument("key")
@click.option("--version", type=int, help="Whose interface and figures fill it.")
@click.pass_obj
def show_template(session: Session, model: str, key: str, version: int | None) -> None:
    """A template's YAML, filled from a version of the model."""
    found = session.client.get(f"/models/{model}/contract-templates/{key}/", version=version)
    show(found, as_json=session.as_json, words=found["text"])


def _standing(found: dict[str, Any]) -> str:
    """What keeps the draft from being proposed, a line for each place."""
    if not found["faults"]:
        return "It is sound and can be proposed."
    lines = (
        f"  line {fault['line']}: {fault['pointer']} {fault['detail']}" for fault in found["faults"]
    )
    return "\n".join(("To mend before it can be proposed:", *lines))


def _text(file: BinaryIO) -> str:
    try:
        return file.read().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise CliError(
            f"The file is not UTF-8 text (byte {error.start}).",
            exit_code=USAGE,
            hint="Save it as UTF-8.",
        ) from error
