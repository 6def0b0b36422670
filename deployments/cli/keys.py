"""`covenant keys`: make, enrol, replace, revoke and export signing keys."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from console.rules.key_life import fingerprint
from console.rules.key_rotation import sign_rotation
from console.rules.signing_keys import public_key_of
from deployments.cli.client import CliError
from deployments.cli.keys_file import create_key_file, open_key
from deployments.cli.output import note, show, table

if TYPE_CHECKING:
    from deployments.cli.main import Session

KINDS = ("lost", "compromised", "replaced", "left", "other")
DAYS = click.IntRange(1, 730)
PASSWORD = click.option(
    "--password", envvar="COVENANT_PASSWORD", default="", help="Asked for when needed."
)
CODE = click.option("--code", default="", help="The code of your authenticator app, instead.")


@click.group()
def keys() -> None:
    """Your signing keys."""


@keys.command("create")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--enrol", default="", metavar="NAME", help="Enrol it at once under this name.")
@click.option("--days", type=DAYS, help="Until it expires; 730 when left out.")
@PASSWORD
@CODE
@click.pass_obj
def create_key(
    session: Session, file: Path, enrol: str, days: int | None, password: str, code: str
) -> None:
    """Make an Ed25519 key in a file that only you can open."""
    public = public_key_of(create_key_file(file))
    data: dict[str, Any] = {"keyid": public.key_id, "file": str(file), "public_key": public.pem}
    if enrol:
        body = {"name": enrol, "public_key": public.pem, "days": days}
        data["enrolled"] = _enrol(session, body, password, code)
    words = f"Key {fingerprint(public.key_id)}\n{public.pem}"
    show(data, as_json=session.as_json, words=words)


@keys.command("enrol")
@click.argument("file", type=click.Path(exists=True, path_type=Path))
@click.option("--name", required=True, help="Where the key lives, as in “laptop”.")
@click.option("--days", type=DAYS, help="Until it expires; 730 when left out.")
@PASSWORD
@CODE
@click.pass_obj
def enrol_key(
    session: Session, file: Path, name: str, days: int | None, password: str, code: str
) -> None:
    """Enrol the public half of a key file that you made before."""
    public = public_key_of(open_key(file))
    body = {"name": name, "public_key": public.pem, "days": days}
    key = _enrol(session, body, password, code)
    show(key, as_json=session.as_json, words=_words(key, "is enrolled"))


@keys.command("rotate")
@click.argument("old", type=click.Path(exists=True, path_type=Path))
@click.argument("new", type=click.Path(path_type=Path))
@click.option("--name", default="", help="Of the new key; as the old one's file when left out.")
@click.option("--days", type=DAYS, help="Until the new key expires; 730 when left out.")
@click.pass_obj
def rotate_key(session: Session, old: Path, new: Path, name: str, days: int | None) -> None:
    """Make a new key in the place of the one in OLD, which signs for it and is revoked.

    What the old key signed stays valid. When the old file is gone, use `keys create --enrol` and
    revoke the old key as lost.
    """
    old_key = open_key(old)
    owner = session.client.get("/me/")["username"]
    new_key = create_key_file(new)
    public = public_key_of(new_key)
    key = _enrol(
        session,
        {
            "name": name or new.stem,
            "public_key": public.pem,
            "days": days,
            "replaces": public_key_of(old_key).key_id,
            "rotation": sign_rotation(owner=owner, old=old_key, new=new_key).to_dict(),
        },
    )
    show(key, as_json=session.as_json, words=_words(key, f"took the place of the one in {old}"))


@keys.command("list")
@click.pass_obj
def list_keys(session: Session) -> None:
    """Your enrolled keys."""
    page = session.client.get("/keys/")
    show(
        page,
        as_json=session.as_json,
        words=table(
            ("ID", "NAME", "KEY", "KIND", "STATE", "EXPIRES", "LAST USED"),
            (
                (
                    k["id"],
                    k["name"],
                    k["keyid"][:12],
                    k["origin"],
                    k["revocation"] or k["state"],
                    (k["expires_at"] or "never")[:10],
                    (k["last_used_at"] or "never")[:10],
                )
                for k in page["results"]
            ),
        ),
    )


@keys.command("revoke")
@click.argument("key_id")
@click.option("--reason", required=True)
@click.option("--kind", type=click.Choice(KINDS), default="other", show_default=True)
@click.option(
    "--doubted-from",
    metavar="TIME",
    help="Of a compromised key: what it signed since (2026-05-01T12:00:00Z) no longer counts.",
)
@click.option("--yes", is_flag=True, help="Do not show what it does and ask.")
@click.pass_obj
def revoke_key(
    session: Session, key_id: str, reason: str, kind: str, doubted_from: str | None, yes: bool
) -> None:
    """Revoke a key, by its number or key id: it signs nothing new."""
    if not yes:
        _ask(session, key_id, doubted_from)
    body = {"reason": reason, "kind": kind, "doubted_from": doubted_from}
    key = session.client.post(f"/keys/{key_id}/revoke/", body)
    show(key, as_json=session.as_json, words=f"Key {key['keyid'][:16]}… is revoked.")


@keys.command("export")
@click.option("--format", "kind", type=click.Choice(("jwks", "pem")), default="jwks")
@click.option("--person", default="", metavar="USERNAME", help="Only this person's keys.")
@click.option("--output", "-o", type=click.Path(path_type=Path), help="A file; else printed.")
@click.pass_obj
def export_keys(session: Session, kind: str, person: str, output: Path | None) -> None:
    """Public keys for verifiers: `covenant verify --keys` takes them as JWKS."""
    asked = {"format": kind, **({"person": person} if person else {})}
    data = session.client.request("GET", "/keys/export/", params=asked).content
    if output is None:
        click.echo(data.decode("utf-8"), nl=False)
        return
    output.write_bytes(data)
    show({"file": str(output)}, as_json=session.as_json, words=f"Wrote {output}.")


def _ask(session: Session, key_id: str, doubted_from: str | None) -> None:
    """Show what stands by the key, and ask; a program that cannot answer passes --yes."""
    asked = {"doubted_from": doubted_from} if doubted_from else {}
    answer = session.client.request("GET", f"/keys/{key_id}/effect/", params=asked).json()
    for effect in answer:
        after = effect["outcome"].replace("_", " ")
        note(f"  {effect['kind']:9} {effect['name']}: {after}")
    if not answer:
        note("  Nothing that is in force, approved or live stands by its signature.")
    click.confirm("Revoke the key?", abort=True, err=True)


def _enrol(
    session: Session, body: dict[str, Any], password: str = "", code: str = ""
) -> dict[str, Any]:
    """Send the key; the password is asked for when the server wants one and none was given."""
    proof = {name: value for name, value in (("password", password), ("code", code)) if value}
    made: dict[str, Any]
    try:
        made = session.client.post("/keys/", {"origin": "cli", **body, **proof})
    except CliError as error:
        if error.code != "confirmation_needed" or proof:
            raise
        password = click.prompt("Your password, once more", hide_input=True, err=True)
        made = session.client.post("/keys/", {"origin": "cli", **body, "password": password})
    return made


def _words(key: dict[str, Any], what: str) -> str:
    until = f", until {key['expires_at'][:10]}" if key["expires_at"] else ""
    return f"Key {key['name']} {what}{until}.\n{fingerprint(key['keyid'])}"
