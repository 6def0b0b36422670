"""The audit trail goes to real receivers: in order, at least once, never back into the house."""

from __future__ import annotations

import json
import os
import re
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from django.test import Client
from rest_framework.test import APIClient

from console.env import ROOT
from console.errors import Conflict, Invalid, Unavailable
from console.models import AuditEntry, AuditSink, Notice, User
from console.rules.outgoing import is_reachable, parse_target
from console.services.audit_forwarding import forward
from console.services.audit_sinks import change_sink, create_sink, rotate_secret, try_sink
from tests.console.audit_writing import NOON, write
from tests.factories import People, actor

pytestmark = pytest.mark.django_db
Start = Callable[..., "Receiver"]


class Receiver:
    """A running receiver: where it listens, and what it wrote down."""

    def __init__(self, arguments: list[str], out: Path) -> None:
        self.out = out
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.console.receivers", *arguments],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        assert select.select([self.process.stdout], [], [], 20)[0], "the receiver did not start"
        self.port = int(self.process.stdout.readline())

    def got(self, count: int) -> list[dict[str, Any]]:
        """What it wrote down, once there are that many; they may still be on their way."""
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            lines = self.out.read_text().splitlines() if self.out.exists() else []
            if len(lines) >= count:
                break
            select.select([], [], [], 0.02)
        return [json.loads(line) for line in lines]

    def stop(self) -> None:
        self.process.kill()
        self.process.wait(timeout=10)


@pytest.fixture
def receiver(tmp_path: Path, settings: Any) -> Iterator[Start]:
    """`receiver("syslog", "tcp")` or `receiver("webhook", secret, "500")`; loopback is allowed."""
    settings.PRIVATE_ADDRESSES = (ip_network("127.0.0.0/8"),)
    started: list[Receiver] = []

    def start(kind: str, *rest: str) -> Receiver:
        out = tmp_path / f"received-{len(started)}"
        before, after = (rest[:1], rest[1:]) if kind == "syslog" else ((), rest)
        started.append(Receiver([kind, *before, str(out), *after], out))
        return started[-1]

    yield start
    for one in started:
        one.stop()


# PRI, version, time, host, app, process, message id, structured data, message (RFC 5424 section 6).
MESSAGE = re.compile(
    r"<(?P<pri>\d{1,3})>1 (?P<at>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z) "
    r"(?P<host>[!-~]+) covenant - "
    r"(?P<id>[!-~]{1,32}) (?P<data>\[audit@32473(?: [a-zA-Z]+=\"(?:[^\"\\\]]|\\[\"\\\]])*\")+\]) "
    r"(?P<text>\{.*\})"
)


@pytest.mark.parametrize("way", ["tcp", "udp", "tls"])
def test_a_syslog_server_gets_every_entry_in_order(
    persons: People, receiver: Start, way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files: list[str] = []
    if way == "tls":
        files = certificate(tmp_path)
        monkeypatch.setenv("SSL_CERT_FILE", files[0])
    server = receiver("syslog", way, *files)
    create_sink(
        name="siem",
        kind="syslog",
        address=f"{way}://127.0.0.1:{server.port}",
        actor=actor(persons.ada),
    )
    write(persons.ada, 3, subject='a "quoted]" \\ line\nbreak', reason="né 中")
    assert forward(now=NOON) == 4, "with the entry that tells of the sink"
    messages = [MESSAGE.fullmatch(line["message"]) for line in server.got(4)]
    assert all(messages), [line["message"] for line in server.got(4)]
    bodies = [json.loads(message["text"]) for message in messages if message]
    assert [body["sequence"] for body in bodies] == [1, 2, 3, 4]
    last = messages[-1]
    assert last is not None
    assert (last["pri"], last["id"]) == ("109", "test.act"), "facility 13, severity notice"
    assert 'subject="a \\"quoted\\]\\" \\\\ line break"' in last["data"]
    stored = AuditEntry.objects.get(sequence=4)
    assert (bodies[-1]["digest"], bodies[-1]["reason"]) == (stored.digest, "né 中")
    assert forward(now=NOON) == 0, "nothing is sent twice when all went well"


def test_a_webhook_gets_signed_batches_and_a_failed_one_again(
    persons: People, receiver: Start
) -> None:
    sink, secret = create_sink(
        name="hook", kind="webhook", address="http://127.0.0.1:1/in", actor=actor(persons.ada)
    )
    assert secret.startswith("whsec_")
    assert secret not in sink.secret, "who reads the database cannot sign"
    server = receiver("webhook", secret, "500", "302")
    change_sink(name="hook", address=f"http://127.0.0.1:{server.port}/in", actor=actor(persons.ada))
    write(persons.ada, 2)
    now = datetime.now(tz=UTC)
    assert forward(now=now) == 0
    sink.refresh_from_db()
    assert (sink.failures, sink.sent_sequence) == (1, 0)
    assert "answered 500" in sink.last_error
    assert forward(now=now + timedelta(seconds=1)) == 0, "not before its pause is over"
    assert sink.not_before == now + timedelta(seconds=2)
    assert forward(now=now + timedelta(seconds=3)) == 0
    sink.refresh_from_db()
    assert "a redirect, which is not followed" in sink.last_error
    assert forward(now=now + timedelta(seconds=9)) == 4
    calls = server.got(3)
    assert [call["verified"] for call in calls] == [True, True, True]
    assert {call["id"] for call in calls} == {"audit-hook-1-4"}, "a receiver can tell it came again"
    assert [entry["sequence"] for entry in calls[-1]["body"]["entries"]] == [1, 2, 3, 4]
    sink.refresh_from_db()
    assert (sink.failures, sink.last_error, sink.sent_sequence) == (0, "", 4)

    _, newer = rotate_secret(name="hook", actor=actor(persons.ada))
    assert newer != secret
    assert forward(now=now + timedelta(seconds=10)) == 1
    assert server.got(4)[-1]["verified"] is False, "the old secret signs nothing any more"


def test_a_sink_that_was_away_gets_what_it_missed_and_admins_are_told_once(
    persons: People, receiver: Start
) -> None:
    server = receiver("syslog", "tcp")
    create_sink(
        name="siem",
        kind="syslog",
        address=f"tcp://127.0.0.1:{server.port}",
        actor=actor(persons.ada),
    )
    server.stop()
    write(persons.ada, 3)
    now = datetime.now(tz=UTC)
    for minutes in (0, 5, 11, 17, 23):
        assert forward(now=now + timedelta(minutes=minutes)) == 0
    notices = Notice.objects.filter(kind="audit_sink.behind")
    assert [notice.recipient for notice in notices] == [persons.ada]
    back = receiver("syslog", "tcp")
    AuditSink.objects.update(address=f"tcp://127.0.0.1:{back.port}")
    assert forward(now=now + timedelta(minutes=30)) == 4
    assert len(back.got(4)) == 4
    assert not Notice.objects.filter(kind="audit_sink.behind", ended_at=None).exists()


def test_two_senders_at_once_do_not_send_the_same(persons: People, receiver: Start) -> None:
    server = receiver("syslog", "tcp")
    create_sink(
        name="siem",
        kind="syslog",
        address=f"tcp://127.0.0.1:{server.port}",
        actor=actor(persons.ada),
    )
    write(persons.ada, 2)
    AuditSink.objects.update(not_before=NOON + timedelta(seconds=60))
    assert forward(now=NOON) == 0, "another process has claimed it"
    assert forward(now=NOON + timedelta(seconds=61)) == 3, "and died: its claim runs out"


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "10.1.2.3", "192.168.0.9", "172.16.5.5", "169.254.169.254", "0.0.0.0", "::1",
     "fe80::1%eth0", "fd00::1", "::ffff:127.0.0.1", "64:ff9b::a9fe:a9fe", "2002:7f00:1::",
     "100.64.0.1", "224.0.0.1", "255.255.255.255", "::",
     "192.0.0.192", "::ffff:192.0.0.192", "fec0::1", "3fff::1"],
)  # fmt: skip
def test_no_address_inside_is_connected_to(address: str) -> None:
    assert not is_reachable(address, ())


def test_a_public_address_is_and_an_inside_one_where_a_setting_allows_it() -> None:
    assert is_reachable("93.184.216.34", ())
    assert is_reachable("2606:2800:220:1:248:1893:25c8:1946", ())
    assert is_reachable("10.1.2.3", (ip_network("10.0.0.0/8"),))
    assert is_reachable("::ffff:10.1.2.3", (ip_network("10.0.0.0/8"), ip_network("::ffff:0:0/96")))
    assert not is_reachable("10.1.2.3", (ip_network("10.9.0.0/16"),))


@pytest.mark.parametrize("address", ["tcp://localhost:9", "tcp://127.0.0.1:9", "tls://[::1]:9"])
def test_a_name_or_number_that_leads_inside_is_refused_at_the_connect(
    persons: People, address: str
) -> None:
    create_sink(name="inside", kind="syslog", address=address, actor=actor(persons.ada))
    with pytest.raises(Unavailable, match="an address inside") as refused:
        try_sink(name="inside", actor=actor(persons.ada))
    assert refused.value.code == "address_not_allowed"
    assert "an address inside" in AuditEntry.objects.get(action="audit_sink.test").after["outcome"]


@pytest.mark.parametrize(
    ("kind", "address"),
    [("syslog", "https://logs.example.com"), ("syslog", "tcp://logs.example.com/path"),
     ("webhook", "ftp://hooks.example.com"), ("webhook", "https://user:pw@hooks.example.com/"),
     ("webhook", "https://"), ("webhook", "https://hooks.example.com:99999/"),
     ("webhook", "https://hooks.example.com/é"), ("webhook", "https://hooks.example.com/a b"),
     ("webhook", "https://hooks.example.com/a\r\nX-Forged: 1"),
     ("webhook", "file:///etc/passwd"), ("pigeon", "tcp://x.example.com:1")],
)  # fmt: skip
def test_an_address_that_is_none_is_refused_in_words(
    persons: People, kind: str, address: str
) -> None:
    with pytest.raises(Invalid) as refused:
        create_sink(name="x", kind=kind, address=address, actor=actor(persons.ada))
    assert refused.value.hint
    assert not AuditSink.objects.exists()


def test_usual_ports_are_understood() -> None:
    assert parse_target("tls://logs.example.com", ("tls",)).port == 6514
    assert parse_target("https://h.example.com/a?b=c", ("https",)).path == "/a?b=c"


def test_the_api_and_the_page_make_show_switch_and_remove_sinks(
    persons: People,
    receiver: Start,
    api: Callable[[User], APIClient],
    signed_in: Callable[[User], Client],
) -> None:
    server = receiver("syslog", "tcp")
    client, address = api(persons.ada), f"tcp://127.0.0.1:{server.port}"
    body = {"name": "siem", "kind": "syslog", "address": address}
    made = client.post("/api/v1/audit/sinks/", body, format="json")
    assert (made.status_code, made.json()["secret"]) == (201, "")
    assert client.post("/api/v1/audit/sinks/", body, format="json").status_code == 409
    assert client.post("/api/v1/audit/sinks/siem/test/").status_code == 204
    assert "A test from Covenant" in server.got(1)[0]["message"]
    hook = {"name": "hook", "kind": "webhook", "address": "https://hooks.example.com/in"}
    secret = client.post("/api/v1/audit/sinks/", hook, format="json").json()["secret"]
    listed = client.get("/api/v1/audit/sinks/")
    assert [sink["name"] for sink in listed.json()] == ["hook", "siem"]
    assert secret not in listed.content.decode()
    assert api(persons.sam).get("/api/v1/audit/sinks/").status_code == 403

    browser = signed_in(persons.ada)
    page = browser.get("/audit/sinks/").content.decode()
    assert address in page
    assert secret not in page
    shown = browser.post("/audit/sinks/hook/secret/").content.decode()
    assert "whsec_" in shown
    assert browser.post("/audit/sinks/siem/switch/", {"enabled": "0"}).status_code == 302
    assert not AuditSink.objects.get(name="siem").enabled
    assert browser.post("/audit/sinks/siem/remove/", {"reason": "moved"}).status_code == 302
    refused = browser.post("/audit/sinks/create/", {**hook, "name": "again", "address": "nowhere"})
    assert refused.status_code == 422
    assert "Use https://host:port" in refused.content.decode()
    acts = AuditEntry.objects.filter(action__startswith="audit_sink.").order_by("sequence")
    assert [act.action.partition(".")[2] for act in acts] == [
        "create", "test", "create", "rotate", "change", "remove",
    ]  # fmt: skip
    assert acts.last().reason == "moved"  # type: ignore[union-attr]
    assert secret not in json.dumps([act.after for act in acts])
    with pytest.raises(Conflict):
        create_sink(**hook, actor=actor(persons.ada))


def certificate(folder: Path) -> list[str]:
    """A certificate for 127.0.0.1 that vouches for itself, and its key: paths of PEM files."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "syslog of the tests")])
    now = datetime.now(tz=UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    paths = [str(folder / "certificate.pem"), str(folder / "key.pem")]
    Path(paths[0]).write_bytes(made.public_bytes(Encoding.PEM))
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    descriptor = os.open(paths[1], os.O_WRONLY | os.O_CREAT, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(pem)
    return paths
