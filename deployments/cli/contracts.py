"""`covenant contract` and `covenant keys`: propose, sign and verify promises."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from console.rules import dsse
from deployments.cli import offline
from deployments.cli.client import GATE_FAILED, CliError
from deployments.cli.contract_comments import comment
from deployments.cli.contract_drafts import draft, template
from deployments.cli.keys_file import open_key
from deployments.cli.output import show
from deployments.cli.verifying import verify

if TYPE_CHECKING:
    from deployments.cli.main import Session


@click.group()
def contract() -> None:
    """The promise: propose it, sign it, verify it."""


contract.add_command(comment)
contract.add_command(draft)
contract.add_command(template)


@contract.command()
@click.argument("model")
@click.argument("file", type=click.File("rb"))
@click.option("--note", "text", default="")
@click.option(
    "--acknowledge-breaking",
    is_flag=True,
    help="That it breaks callers of the contract that holds is meant.",
)
@click.pass_obj
def propose(
    session: Session, model: str, file: BinaryIO, text: str, acknowledge_breaking: bool
) -> None:
    """Propose a contract from a YAML or JSON file (- for standard input)."""
    made = session.client.request(
        "POST",
        f"/models/{model}/contracts/",
        content=file.read(),
        params={
            "note": text,
            **({"acknowledge_breaking": "true"} if acknowledge_breaking else {}),
        },
        headers={"Content-Type": "application/yaml"},
    ).json()
    show(
        made,
        as_json=session.as_json,
        words=f"{model} contract {made['revision']} is proposed, digest {made['digest']}.",
    )


@contract.command()
@click.argument("model")
@click.argument("revision", type=int)
@click.option("--key", "key_path", required=True, type=click.Path(exists=True, path_type=Path))
@click.pass_obj
def sign(session: Session, model: str, revision: int, key_path: Path) -> None:
    """Sign a proposed contract for your seat."""
    path = f"/models/{model}/contracts/{revision}"
    payload = session.client.content(f"{path}/payload/")
    key = open_key(key_path)
    envelope = offline.sign_payload(key, dsse.CONTRACT_PAYLOAD_TYPE, payload)
    signed = session.client.post(f"{path}/signatures/", {"envelope": envelope.to_dict()})
    show(
        signed,
        as_json=session.as_json,
        words=f"Signed as {signed['seat']}. The contract is {signed['contract_state']}.",
    )


@contract.command("show")
@click.argument("model")
@click.argument("revision", type=int)
@click.pass_obj
def show_contract(session: Session, model: str, revision: int) -> None:
    """One contract with its signatures."""
    found = session.client.get(f"/models/{model}/contracts/{revision}/")
    seats = "\n".join(
        f"  {s['seat']:16} {s['signer']:16} {s['signed_at']}" for s in found["signatures"]
    )
    show(
        found,
        as_json=session.as_json,
        words=f"{model} contract {revision}: {found['state']}, digest {found['digest']}\n{seats}",
    )


@contract.command()
@click.argument("model")
@click.argument("revision", type=int)
@click.option("--output", "-o", type=click.Path(path_type=Path), required=True)
@click.pass_obj
def bundle(session: Session, model: str, revision: int, output: Path) -> None:
    """Download everything that an offline check needs."""
    output.write_bytes(session.client.content(f"/models/{model}/contracts/{revision}/bundle/"))
    show({"file": str(output)}, as_json=session.as_json, words=f"Wrote {output}.")


@contract.command()
@click.argument("model")
@click.argument("revision", type=int)
@click.option("--against", type=int, help="Another revision; by default what it replaces.")
@click.pass_obj
def diff(session: Session, model: str, revision: int, against: int | None) -> None:
    """What a contract changes for its callers, in words. Exit code 4 when it breaks them."""
    found = session.client.get(
        f"/models/{model}/contracts/{revision}/diff/",
        **({} if against is None else {"against": against}),
    )
    show(found, as_json=session.as_json, words=_difference_words(model, revision, found))
    if found["breaking"]:
        raise CliError(
            f"{found['breaking']} of {len(found['changes'])} changes break callers.",
            exit_code=GATE_FAILED,
            hint="Tell the callers before it comes into force.",
        )


def _difference_words(model: str, revision: int, found: Mapping[str, Any]) -> str:
    if found["against"] is None:
        return f"{model} contract {revision} is the first: there is nothing to compare it with."
    head = f"{model} contract {revision} against {found['against']}:"
    marks = {"breaking": "BREAKING ", "weaker": "weaker   ", "stronger": "stronger "}
    lines = [f"  {marks.get(one['effect'], '         ')}{one['words']}" for one in found["changes"]]
    return "\n".join([head, *(lines or ["  nothing that matters: both promise the same"])])


contract.add_command(verify)
