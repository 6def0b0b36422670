"""Releases, deployments and traffic from the command line."""

from __future__ import annotations

import time
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from console.rules import dsse, signing_keys
from deployments.cli import offline
from deployments.cli.client import USAGE, CliError
from deployments.cli.jobs import follow
from deployments.cli.keys_file import open_key
from deployments.cli.output import note, show, table

if TYPE_CHECKING:
    from deployments.cli.main import Session


@click.command()
@click.argument("model")
@click.argument("release_id")
@click.option("--key", "key_path", type=click.Path(exists=True, path_type=Path))
@click.option("--refuse", default="", metavar="REASON", help="Refuse instead, with this reason.")
@click.pass_obj
def approve(
    session: Session, model: str, release_id: str, key_path: Path | None, refuse: str
) -> None:
    """Approve a release with your key, or refuse it with a reason."""
    path = f"/models/{model}/releases/{release_id}"
    body: dict[str, Any]
    if refuse:
        body = {"approve": False, "reason": refuse}
    else:
        if key_path is None:
            raise CliError("An approval is signed: give --key.", exit_code=USAGE)
        payload = session.client.content(f"{path}/payload/")
        key = open_key(key_path)
        envelope = offline.sign_payload(key, dsse.RELEASE_PAYLOAD_TYPE, payload)
        note(f"Signing with key {signing_keys.public_key_of(key).key_id[:12]}…")
        body = {"approve": True, "envelope": envelope.to_dict()}
    decided = session.client.post(f"{path}/approvals/", body)
    show(decided, as_json=session.as_json, words=f"Release {release_id}: {decided['state']}.")


@click.command()
@click.argument("release_id")
@click.option("--wait/--no-wait", default=True)
@click.pass_obj
def deploy(session: Session, release_id: str, wait: bool) -> None:
    """Deploy an approved release to its environment's nodes."""
    made = session.client.post("/deployments/", {"release": release_id})
    if wait:
        for placement in made["placements"]:
            follow(session, placement["job"])
        made = session.client.get(f"/deployments/{made['id']}/")
    states = ", ".join(f"{p['node']}: {p['state']}" for p in made["placements"])
    show(made, as_json=session.as_json, words=f"Deployment {made['id']}: {states}")


@click.command()
@click.argument("endpoint", metavar="ENVIRONMENT/MODEL")
@click.argument("weights", nargs=-1, metavar="VERSION=PERCENT…")
@click.option("--reason", default="")
@click.option("--revision", type=int, help="Refuse when the split has changed since.")
@click.option("--rule", "rules", multiple=True, metavar="HEADER:VALUE=VERSION", help="Header rule.")
@click.option("--tester", "testers", multiple=True, metavar="CALLER=VERSION", help="Pinned caller.")
@click.option("--mirror", metavar="VERSION[=PERCENT]", help="Copy requests to it; VERSION=0 ends.")
@click.option("--no-rules", is_flag=True, help="Take every header rule and tester away.")
@click.pass_obj
def split(
    session: Session,
    endpoint: str,
    weights: tuple[str, ...],
    reason: str,
    revision: int | None,
    rules: tuple[str, ...],
    testers: tuple[str, ...],
    mirror: str | None,
    no_rules: bool,
) -> None:
    """Show an endpoint's split, or move it (weights in percent that sum to 100).

    Header rules and testers that are given take the place of those that were there.
    """
    path = f"/endpoints/{endpoint_path(endpoint)}/split/"
    now = session.client.get(path)
    extra: dict[str, Any] = {"header_rules": [], "testers": []} if no_rules else {}
    if rules:
        extra["header_rules"] = [_rule(one) for one in rules]
    if testers:
        extra["testers"] = [_tester(one) for one in testers]
    if mirror:
        version, _, percent = mirror.removeprefix("v").partition("=")
        extra["mirror"] = {"version": version, "percent": percent or 100}
    if not weights and not extra:
        show(now, as_json=session.as_json, words=_split_words(now))
        return
    if not reason:
        raise CliError("Moving traffic takes a --reason.", exit_code=USAGE)
    base = now["revision"] if revision is None else revision
    answer = session.client.put(
        path,
        {"weights": _weights(weights) if weights else now["weights"], "reason": reason, **extra},
        {"wait": "1"},
        **{"If-Match": f'"{base}"'},
    ).json()
    show(answer, as_json=session.as_json, words=_split_words(answer))


@click.command()
@click.argument("endpoint", metavar="ENVIRONMENT/MODEL")
@click.option("--reason", required=True)
@click.option("--to", type=int, help="A version; the last good one when left out.")
@click.pass_obj
def rollback(session: Session, endpoint: str, reason: str, to: int | None) -> None:
    """Move all traffic to the last good version, now."""
    body = {"reason": reason, **({"to": to} if to else {})}
    # The rollback is written at once; what is waited for is that every gateway acts on it.
    answer = session.client.post(f"/endpoints/{endpoint_path(endpoint)}/rollback/?wait=1", body)
    took = [one["took_ms"] for one in answer["acknowledgements"] if one["took_ms"] is not None]
    gateways = "1 gateway" if len(took) == 1 else f"{len(took)} gateways"
    effect = f" In effect on {gateways} after {max(took):.0f} ms." if took else ""
    level = {"fallback": " Level 2 answers meanwhile.", "open": " Level 3 meanwhile."}
    show(
        answer,
        as_json=session.as_json,
        words=f"Rolled back.{effect}{level.get(answer['mode'], '')} {_split_words(answer)}",
    )


@click.command()
@click.argument("endpoint", metavar="ENVIRONMENT/MODEL")
@click.argument("mode", type=click.Choice(["normal", "fallback", "open"]))
@click.option("--reason", required=True)
@click.pass_obj
def mode(session: Session, endpoint: str, mode: str, reason: str) -> None:
    """Switch an endpoint to normal, fallback or open."""
    answer = session.client.put(
        f"/endpoints/{endpoint_path(endpoint)}/mode/", {"mode": mode, "reason": reason}
    ).json()
    show(answer, as_json=session.as_json, words=f"{endpoint} is in mode {answer['mode']}.")


@click.command()
@click.argument("endpoint", required=False, metavar="[ENVIRONMENT/MODEL]")
@click.option("--watch", is_flag=True, help="Show it anew every two seconds.")
@click.pass_obj
def status(session: Session, endpoint: str | None, watch: bool) -> None:
    """What runs where, with how much traffic, right now."""
    while True:
        if endpoint:
            rows = [session.client.get(f"/endpoints/{endpoint_path(endpoint)}/")]
            data: Any = rows[0]
        else:
            data = session.client.get("/endpoints/")
            rows = data["results"]
        show(data, as_json=session.as_json, words=table(STATUS_COLUMNS, map(_status_row, rows)))
        if not watch:
            return
        time.sleep(2)


STATUS_COLUMNS = ("ENDPOINT", "MODE", "SPLIT", "STATE", "REQUESTS/S", "ERRORS/S", "P99 MS")


def _status_row(row: dict[str, Any]) -> tuple[Any, ...]:
    split_now, live = row.get("split") or {}, row.get("live") or {}
    return (
        f"{row['environment']}/{row['model']}",
        row["mode"],
        " ".join(f"v{v}:{w}" for v, w in (split_now.get("weights") or {}).items()),
        split_now.get("state", ""),
        live.get("requests_per_second"),
        live.get("errors_per_second"),
        live.get("p99_ms"),
    )


def _split_words(answer: dict[str, Any]) -> str:
    parts = ", ".join(f"v{v} {w} %" for v, w in answer["weights"].items())
    acks = ", ".join(
        f"{a['gateway']} {a['outcome']} in {a['took_ms']:.0f} ms"
        for a in answer.get("acknowledgements") or []
        if a.get("took_ms") is not None
    )
    moved = f"; {answer['moved']:g} % of sticky callers moved" if answer.get("moved") else ""
    shown = f"r{answer['revision']}: {parts or 'no traffic'}{moved}"
    rules = [f"{r['header']}:{r['value']}=v{r['version']}" for r in answer.get("header_rules", [])]
    rules += [f"tester {t['caller']}=v{t['version']}" for t in answer.get("testers", [])]
    if mirror := answer.get("mirror"):
        rules.append(f"mirror v{mirror['version']} {mirror['percent']:g} %")
    return shown + (f" ({acks})" if acks else "") + "".join(f"\n  {rule}" for rule in rules)


def endpoint_path(text: str) -> str:
    """The part of an address that ENVIRONMENT/MODEL stands for."""
    environment, slash, model = text.partition("/")
    if not slash or not environment or not model:
        raise CliError(f"{text} is not ENVIRONMENT/MODEL.", exit_code=USAGE)
    return f"{environment}/{model}"


def _rule(text: str) -> dict[str, str]:
    name, colon, rest = text.partition(":")
    value, equals, version = rest.rpartition("=")
    if not colon or not equals:
        raise CliError(f"{text} is not HEADER:VALUE=VERSION.", exit_code=USAGE)
    return {"header": name, "value": value, "version": version.removeprefix("v")}


def _tester(text: str) -> dict[str, str]:
    caller, equals, version = text.rpartition("=")
    if not equals:
        raise CliError(f"{text} is not CALLER=VERSION.", exit_code=USAGE)
    return {"caller": caller, "version": version.removeprefix("v")}


def _weights(values: tuple[str, ...]) -> dict[str, float]:
    result = {}
    for value in values:
        version, equals, percent = value.removeprefix("v").partition("=")
        try:
            result[str(int(version))] = float(Decimal(percent))
        except (ValueError, InvalidOperation) as error:
            raise CliError(
                f"{value} is not VERSION=PERCENT.", exit_code=USAGE, hint="For example 3=95 4=5."
            ) from error
        if not equals:
            raise CliError(f"{value} is not VERSION=PERCENT.", exit_code=USAGE)
    return result
