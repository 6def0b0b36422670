"""A syslog server and a webhook's receiver on loopback, each a process of its own.

    python -m tests.console.receivers syslog udp|tcp|tls OUT [CERTIFICATE KEY]
    python -m tests.console.receivers webhook OUT SECRET [STATUS …]

Both print their port, and write what arrives to OUT as one JSON object a line. They read frames and
signatures by the standards, with no code of the product. The webhook answers with the given
statuses one after the other, then 204.
"""

from __future__ import annotations

import json
import socket
import ssl
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

from standardwebhooks import Webhook, WebhookVerificationError


def frames(connection: socket.socket) -> Iterator[bytes]:
    """Octet-counted frames (RFC 6587 3.4.1): MSG-LEN SP SYSLOG-MSG."""
    data = b""
    while part := connection.recv(65536):
        data += part
        while (space := data.find(b" ")) > 0:
            length = int(data[:space])
            if len(data) < space + 1 + length:
                break
            yield data[space + 1 : space + 1 + length]
            data = data[space + 1 + length :]
    if data:
        raise ValueError(f"a frame was cut off: {data[:40]!r}")


def serve_syslog(way: str, out: Path, *files: str) -> None:
    server = socket.socket(
        socket.AF_INET, socket.SOCK_DGRAM if way == "udp" else socket.SOCK_STREAM
    )
    server.bind(("127.0.0.1", 0))
    print(server.getsockname()[1], flush=True)
    with out.open("a") as file:
        if way == "udp":
            while True:
                _note(file, {"message": server.recv(65536).decode()})
        server.listen()
        context = None
        if way == "tls":
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*files)
        while True:
            accepted, _ = server.accept()
            try:
                connection = (
                    context.wrap_socket(accepted, server_side=True) if context else accepted
                )
            except ssl.SSLError:
                accepted.close()
                continue
            for frame in frames(connection):
                _note(file, {"message": frame.decode()})
            connection.close()


def serve_webhook(out: Path, secret: str, *statuses: str) -> None:
    answers = [int(status) for status in statuses]

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            try:
                Webhook(secret).verify(body, dict(self.headers))
                verified = True
            except WebhookVerificationError:
                verified = False
            with out.open("a") as file:
                told = {"id": self.headers["webhook-id"], "verified": verified}
                _note(file, {**told, "body": json.loads(body)})
            status = answers.pop(0) if answers else 204
            self.send_response(status)
            if 300 <= status < 400:
                self.send_header(
                    "Location", f"http://127.0.0.1:{self.server.server_port}/elsewhere"
                )
            self.end_headers()

        def log_message(self, *args: Any) -> None:
            """Nothing on standard error."""

    server = HTTPServer(("127.0.0.1", 0), Receiver)
    print(server.server_port, flush=True)
    server.serve_forever()


def _note(file: Any, value: dict[str, Any]) -> None:
    file.write(json.dumps(value) + "\n")
    file.flush()


if __name__ == "__main__":
    kind, *rest = sys.argv[1:]
    if kind == "syslog":
        serve_syslog(rest[0], Path(rest[1]), *rest[2:])
    else:
        serve_webhook(Path(rest[0]), *rest[1:])
