"""Ids in the command line: printed whole in any width, and taken by their first characters."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.utils import timezone
from pytest_django.live_server_helper import LiveServer

from console.services.tokens import create_token
from deployments.cli.client import USAGE, Client, CliError, Credentials
from deployments.cli.output import show, table
from deployments.cli.prefixes import whole_id
from deployments.models import Alert, AlertState
from tests.deployments.conftest import Fleet
from tests.deployments.test_cli import Run, run  # noqa: F401 - a fixture

ONE = "b4bb7be9-ff86-4a0e-9d52-0123456789ab"
OTHER = "b4bb7be9-1111-4a0e-9d52-0123456789ab"
THIRD = "c0ffee00-ff86-4a0e-9d52-0123456789ab"
AT = "2026-12-01T08:15:30.123456Z"
LONG = "Requests wait in the queue of fraud_detector for longer than it was agreed " * 3
PRINTED = f"""
from deployments.cli.output import show, table
rows = [({ONE!r}, "P2", {LONG!r}, {AT!r}), ({OTHER!r}, "P1", "short", None)]
show(rows, as_json=False, words=table(("ALERT", "SEVERITY", "WHAT", "SINCE"), rows))
"""


def on_terminal(columns: int) -> list[str]:
    """The lines of a table on a real terminal of this width."""
    ours, theirs = os.openpty()
    environment = {**os.environ, "COLUMNS": str(columns), "TERM": "xterm", "NO_COLOR": "1"}
    try:
        subprocess.run(
            [sys.executable, "-c", PRINTED], stdout=theirs, env=environment, check=True, timeout=60
        )
        os.close(theirs)
        said = os.read(ours, 1_000_000).decode()
    finally:
        os.close(ours)
    return said.replace("\r", "").splitlines()


def test_in_a_pipe_a_row_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [(ONE, "P2", LONG, AT), (OTHER, "P1", "of\ntwo lines", None)]
    show(rows, as_json=False, words=table(("ALERT", "SEVERITY", "WHAT", "SINCE"), rows))
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert lines[1] == f"{ONE}  P2        {LONG.strip()}  {AT}"
    assert lines[2].split()[0] == OTHER
    assert "of two lines" in lines[2]
    assert not any(line.endswith(" ") for line in lines)


def test_a_terminal_folds_words_and_never_an_id_or_a_moment() -> None:
    wide = on_terminal(120)
    assert all(len(line) <= 120 for line in wide[1:]), "the first one has codes for bold"
    assert any(line.startswith(ONE) and line.rstrip().endswith(AT) for line in wide)
    assert len(wide) > 3, "the words have several lines"
    narrow = on_terminal(80)
    assert f"ALERT     {ONE}" in narrow
    assert f"SINCE     {AT}" in narrow
    assert "" in narrow, "rows that do not fit are told in lines, with one left free between them"
    assert not any("…" in line for line in wide + narrow)


@pytest.fixture
def listing() -> Any:
    """A server of lists of two ids a page: Client against it, and what was asked."""
    asked: list[str] = []

    class Pages(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            address = urlsplit(self.path)
            query = parse_qs(address.query)
            status, body = 200, json.dumps([{"id": THIRD}])
            if address.path.endswith("/alerts/"):
                second = query.get("cursor") == ["two"]
                rows = [{"id": OTHER}] if second else [{"id": ONE}, {"id": THIRD}]
                onward = None if second else f"{address.path}?cursor=two&limit=200"
                body = json.dumps({"results": rows, "next": onward})
            elif address.path.endswith("/secret/"):
                status, body = 403, json.dumps({"code": "not_allowed", "detail": "No."})
            elif address.path.endswith("/broken/"):
                status, body = 500, json.dumps({"code": "internal", "detail": "Broken."})
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Pages)
    Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    client = Client(Credentials(f"http://127.0.0.1:{server.server_port}", "token"))
    yield client, asked
    client.close()
    server.shutdown()
    server.server_close()


def test_a_prefix_is_looked_for_on_every_page(listing: tuple[Client, list[str]]) -> None:
    client, asked = listing
    assert whole_id(client, ONE.upper(), ("/broken/",), of="alert") == ONE
    assert whole_id(client, ONE.replace("-", ""), ("/broken/",), of="alert") == ONE
    assert asked == [], "a whole id needs no look"
    assert whole_id(client, "b4bb7be9-1", ("/alerts/?over=1",), of="alert") == OTHER
    assert [sorted(parse_qs(urlsplit(one).query)) for one in asked] == [
        ["limit", "over"],
        ["cursor", "limit", "over"],
    ]
    assert whole_id(client, "c0ffee00", ("/secret/", "/plain/"), of="link") == THIRD


@pytest.mark.parametrize(
    ("given", "code", "words"),
    [
        ("b4bb7be9", "id_ambiguous", f"2 ids begin with 'b4bb7be9': {OTHER}, {ONE}."),
        ("b4bb7be", "id_too_short", "'b4bb7be' is too short."),
        ("deadbeef", "id_unknown", "No alert that you may see has an id that begins with"),
        ("no-such-id", "no_id", "'no-such-id' is no id of an alert."),
        (f"{ONE}0", "no_id", "is no id of an alert."),
        ("../people", "no_id", "'../people' is no id of an alert."),
    ],
)
def test_what_begins_none_or_several_is_refused(
    listing: tuple[Client, list[str]], given: str, code: str, words: str
) -> None:
    with pytest.raises(CliError) as refused:
        whole_id(listing[0], given, ("/alerts/",), of="alert")
    assert (refused.value.code, refused.value.exit_code) == (code, USAGE)
    assert words in refused.value.message


def test_a_list_that_breaks_is_said(listing: tuple[Client, list[str]]) -> None:
    with pytest.raises(CliError, match="Broken"):
        whole_id(listing[0], "deadbeef", ("/broken/",), of="alert")


@pytest.mark.django_db(transaction=True)
def test_what_a_list_prints_the_next_command_takes(
    fleet_rows: Fleet, run: Run, live_server: LiveServer
) -> None:
    make: Callable[..., Any] = create_token
    _, token = make(name="test", scopes=["read", "write", "operate"], actor=fleet_rows.sam)
    assert run("--url", live_server.url, "--token", token, "login").code == 0
    now = timezone.now()
    alert = Alert.objects.create(
        rule_name="node-lost",
        severity="P2",
        state=AlertState.FIRING,
        node=fleet_rows.node,
        signal="node_lost",
        title="The node does not answer",
        value=1,
        threshold=0,
        started_at=now,
        fired_at=now,
        seen_at=now,
        fingerprint="one",
        group_key="node local",
    )
    lines = run("alerts", "list").out.splitlines()
    assert lines[1].startswith(str(alert.pk))
    assert run("alerts", "ack", str(alert.pk)[:8]).code == 0
    alert.refresh_from_db()
    assert alert.acknowledged_at is not None
    made = run("silences", "create", "--rule", "node-lost", "--reason", "Moved.", "--json").body
    assert run("silences", "end", made["id"][:12]).code == 0
    for command in (
        ("incidents", "show"),
        ("maintenance", "agree"),
        ("exclusions", "agree"),
        ("sla", "unshare"),
        ("diagnose", "show"),
        ("channels", "retry"),
        ("jobs", "show"),
    ):
        gone = run(*command, "deadbeef")
        assert gone.code == USAGE, command
        assert "has an id that begins with 'deadbeef'" in gone.err
    # Beside it, as the same server stands: what has nothing to tell says so in words.
    assert run("memory-growth").out.startswith("No node has a GPU.")
    assert run("memory-growth", "--json").body == {"results": []}
    fleet_rows.node.gpus = [0]
    fleet_rows.node.save()
    assert run("memory-growth").out.startswith("No GPU loses memory.")
