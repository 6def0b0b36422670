"""A small real HTTP server with the pages that static/js/signing.js binds to."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from console.rules.canonical import digest

STATIC = Path(__file__).parents[2] / "static" / "js"
POLICY = (
    "default-src 'none'; script-src 'self'; connect-src 'self'; form-action 'self'; img-src data:"
)
STATES = (
    "no-crypto no-storage no-key not-enrolled revoked ready working fetch-failed digest-mismatch "
    "failed created"
)


@dataclass
class SigningSite:
    """What the pages show, and what was posted to them."""

    payload: bytes
    shown_digest: str = ""
    enrolled: str = ""
    revoked: str = ""
    refuse_key: bool = False
    payload_status: int = 200
    url: str = ""
    posted_keys: list[dict[str, str]] = field(default_factory=list)
    posted_envelopes: list[dict[str, Any]] = field(default_factory=list)
    posted_headers: list[dict[str, str]] = field(default_factory=list)

    def page(self, name: str) -> str:
        messages = " ".join(f'data-message-{state}="say {state}"' for state in STATES.split())
        csrf = '<input type="hidden" name="csrfmiddlewaretoken" value="masked">'
        bodies = {
            "/keys": f"""
              <form data-signing-create data-signing-user="dana" method="post" action="/keys/new"
                    data-signing-next="/sign" {messages}>{csrf}
                <input name="name" value="Laptop"><input type="password" name="password" value="pw">
                <input type="hidden" name="public_key"><input type="hidden" name="key_id">
                <p data-signing-message role="status"></p><button>Create</button></form>
              <ul data-signing-keys data-signing-user="dana"><template><li>
                <b data-signing-slot="name"></b> <code data-signing-slot="keyid"></code>
                <button type="button" data-signing-forget>Forget</button></li></template></ul>""",
            "/sign": f"""
              <form data-signing-sign data-signing-user="dana" method="post" action="/signed"
                    data-signing-payload-url="/payload"
                    data-signing-payload-type="application/vnd.covenant.contract+json"
                    data-signing-digest="{self.shown_digest or digest(self.payload)}"
                    data-signing-enrolled="{self.enrolled}" data-signing-revoked="{self.revoked}"
                    {messages}>{csrf}<input type="hidden" name="envelope">
                <code data-signing-keyid></code>
                <p data-signing-message role="status"></p><button>Sign</button></form>""",
            "/signed": "<h1>Signed</h1>",
        }
        return (
            '<!doctype html><html lang="en"><head><title>t</title>'
            '<meta name="csrf-token" content="from-the-page"><link rel="icon" href="data:,">'
            '<script type="module" src="/static/js/signing.js"></script></head>'
            f"<body>{bodies[name]}</body></html>"
        )


@contextmanager
def serving(site: SigningSite) -> Iterator[SigningSite]:
    """`site` at 127.0.0.1 (a secure context for browsers) while the block runs."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path.startswith("/static/js/"):
                file = STATIC / Path(self.path).name
                self.answer(200, file.read_bytes(), "text/javascript")
            elif self.path == "/payload":
                self.answer(site.payload_status, site.payload, "application/octet-stream")
            else:
                self.answer(200, site.page(self.path).encode(), "text/html; charset=utf-8")

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            fields = {name: values[0] for name, values in parse_qs(body).items()}
            site.posted_headers.append(dict(self.headers))
            if self.path == "/signed":
                site.posted_envelopes.append(json.loads(fields["envelope"]))
                self.answer(200, site.page("/signed").encode(), "text/html; charset=utf-8")
            elif site.refuse_key:
                problem = {"detail": "The password is wrong.", "hint": "Type it again."}
                self.answer(422, json.dumps(problem).encode(), "application/problem+json")
            else:
                site.posted_keys.append(fields)
                site.enrolled = fields["key_id"]
                self.answer(201, b"{}", "application/json")

        def answer(self, status: int, body: bytes, kind: str) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Content-Security-Policy", POLICY)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    site.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield site
    finally:
        server.shutdown()
        thread.join(timeout=5)
        server.server_close()
