"""Chat rooms, a pager, a text gateway and a webhook on loopback: they judge by the vendors' rules.

Each checks what its vendor documents (signatures, required fields, lengths) with no code of the
product, answers as the vendor does, and keeps what it got. Answers may be scripted.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from standardwebhooks import Webhook, WebhookVerificationError

Answer = tuple[int, str]
COLOURS = {"blue", "wathet", "turquoise", "green", "yellow", "orange", "red", "carmine", "violet",
           "purple", "indigo", "grey"}  # fmt: skip


@dataclass
class Vendor:
    """One receiver: `got` are the bodies that it took, in order; `scripted` answers come first."""

    judge: Callable[[str, dict[str, str], bytes], Answer]
    scripted: list[Answer] = field(default_factory=list)
    got: list[dict[str, Any]] = field(default_factory=list)
    seen: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)
    port: int = 0

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def answer(self, path: str, headers: dict[str, str], body: bytes) -> Answer:
        self.seen.append((path, headers, body))
        if self.scripted:
            return self.scripted.pop(0)
        status, text = self.judge(path, headers, body)
        if status < 300 and '"errcode": 3' not in text and '"code": 19' not in text:
            self.got.append(_read(headers, body))
        return status, text


@contextmanager
def serving(vendor: Vendor) -> Iterator[Vendor]:
    """The vendor on a port of loopback, over real HTTP."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            status, text = vendor.answer(self.path, headers, body)
            self.send_response(status)
            if 300 <= status < 400:
                self.send_header("Location", f"{vendor.address}/elsewhere")
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *args: Any) -> None:
            """Nothing on standard error."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    vendor.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield vendor
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def slack() -> Vendor:
    def judge(path: str, headers: dict[str, str], body: bytes) -> Answer:
        message = json.loads(body)
        if not message.get("text"):
            return 400, "no_text"
        for one in message.get("attachments", []):
            if not str(one.get("color", "#000000")).startswith("#") or not one.get("fallback"):
                return 400, "invalid_attachments"
        return 200, "ok"

    return Vendor(judge)


def feishu(secret: str = "") -> Vendor:
    def judge(path: str, headers: dict[str, str], body: bytes) -> Answer:
        message = json.loads(body)
        if secret:
            stamp = message.get("timestamp", "0")
            key = f"{stamp}\n{secret}".encode()
            expected = base64.b64encode(hmac.new(key, digestmod=hashlib.sha256).digest()).decode()
            fresh = abs(int(stamp) - time.time()) < 3600
            if message.get("sign") != expected or not fresh:
                said = "sign match fail or timestamp is not within one hour from current time"
                return 200, json.dumps({"code": 19021, "msg": said})
        card = message.get("card", {})
        if message.get("msg_type") != "interactive" or not card.get("elements"):
            return 200, json.dumps({"code": 19002, "msg": "params error, msg_type need"})
        if card["header"]["template"] not in COLOURS:
            return 200, json.dumps({"code": 19002, "msg": "card header template"})
        return 200, json.dumps({"StatusCode": 0, "StatusMessage": "success", "code": 0, "data": {}})

    return Vendor(judge)


def dingtalk(secret: str = "") -> Vendor:
    def judge(path: str, headers: dict[str, str], body: bytes) -> Answer:
        query = parse_qs(urlsplit(path).query)
        if secret:
            stamp = query.get("timestamp", ["0"])[0]
            text = f"{stamp}\n{secret}".encode()
            digest = hmac.new(secret.encode(), text, digestmod=hashlib.sha256).digest()
            fresh = abs(int(stamp) / 1000 - time.time()) < 3600
            if query.get("sign") != [base64.b64encode(digest).decode()] or not fresh:
                return 200, json.dumps({"errcode": 310000, "errmsg": "sign not match"})
        if "application/json" not in headers["content-type"]:
            return 200, json.dumps({"errcode": 43004, "errmsg": "invalid content-type"})
        message = json.loads(body)
        markdown = message.get("markdown", {})
        if message.get("msgtype") != "markdown" or not (markdown.get("title") and markdown["text"]):
            return 200, json.dumps({"errcode": 40035, "errmsg": "missing markdown"})
        return 200, json.dumps({"errcode": 0, "errmsg": "ok"})

    return Vendor(judge)


def pagerduty(key: str) -> Vendor:
    """By https://github.com/PagerDuty/api-schema, reference/events-v2."""

    def judge(path: str, headers: dict[str, str], body: bytes) -> Answer:
        event = json.loads(body)
        faults = []
        if len(event.get("routing_key", "")) != 32 or event["routing_key"] != key:
            faults.append("Length of 'routing_key' is incorrect (should be 32 characters)")
        if event.get("event_action") not in ("trigger", "acknowledge", "resolve"):
            faults.append("'event_action' is invalid")
        if event.get("event_action") != "trigger" and not event.get("dedup_key"):
            faults.append("'dedup_key' is missing or blank")
        if len(event.get("dedup_key", "")) > 255:
            faults.append("'dedup_key' is too long")
        if event.get("event_action") == "trigger":
            payload = event.get("payload", {})
            if not 0 < len(payload.get("summary", "")) <= 1024:
                faults.append("'payload.summary' is missing or too long")
            if not payload.get("source"):
                faults.append("'payload.source' is missing or blank")
            if payload.get("severity") not in ("critical", "error", "warning", "info"):
                faults.append("'payload.severity' is invalid")
            if any(set(link) - {"href", "text"} for link in event.get("links", [])):
                faults.append("'links' is invalid")
        if faults:
            said = {"status": "invalid event", "message": "Event object is invalid"}
            return 400, json.dumps({**said, "errors": faults})
        return 202, json.dumps(
            {
                "status": "success",
                "message": "Event processed",
                "dedup_key": event.get("dedup_key"),
            }
        )

    return Vendor(judge)


def gateway_of_texts(key: str) -> Vendor:
    def judge(path: str, headers: dict[str, str], body: bytes) -> Answer:
        if headers.get("x-api-key") != key:
            return 401, "unknown key"
        message = _read(headers, body)
        return (200, "queued") if message.get("to") and message.get("text") else (422, "no text")

    return Vendor(judge)


def webhook(secret: str) -> Vendor:
    def judge(path: str, headers: dict[str, str], body: bytes) -> Answer:
        try:
            Webhook(secret).verify(body, headers)
        except WebhookVerificationError:
            return 401, "not signed by who we know"
        return 204, ""

    return Vendor(judge)


def _read(headers: dict[str, str], body: bytes) -> dict[str, Any]:
    if "urlencoded" in headers["content-type"]:
        return {name: values[0] for name, values in parse_qs(body.decode()).items()}
    found: dict[str, Any] = json.loads(body)
    return found
