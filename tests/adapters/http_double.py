"""An HTTP server in a thread, for stand-ins of outside products; it can go away and come back."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit


@dataclass(frozen=True, slots=True)
class Asked:
    """One request; names of headers are in lower case."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body or b"{}")


@dataclass(frozen=True, slots=True)
class Answer:
    """What is answered; a body that is no bytes is sent as JSON."""

    status: int
    body: Any = b""
    headers: Mapping[str, str] = field(default_factory=dict)


class HttpDouble:
    """Answers by `answer` on a port that stays the same when it goes away and comes back."""

    def __init__(self, answer: Callable[[Asked], Answer], port: int = 0) -> None:
        self._answer = answer
        self.port = port
        self._server: ThreadingHTTPServer | None = None
        self.come_back()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def come_back(self) -> None:
        answer = self._answer

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            # Answers go out at once and whole.
            wbufsize = -1
            disable_nagle_algorithm = True

            def handle_one_request(self) -> None:
                if server.away.is_set():
                    self.close_connection = True
                    return
                super().handle_one_request()

            def serve(self) -> None:
                parts = urlsplit(self.path)
                length = int(self.headers.get("content-length", 0))
                asked = Asked(
                    self.command,
                    unquote(parts.path),
                    dict(parse_qsl(parts.query)),
                    {name.lower(): value for name, value in self.headers.items()},
                    self.rfile.read(length),
                )
                if server.away.is_set():
                    self.close_connection = True
                    return
                said = answer(asked)
                whole = (
                    said.body if isinstance(said.body, bytes) else json.dumps(said.body).encode()
                )
                self.send_response(said.status)
                headers = {"content-type": "application/json", **said.headers}
                for name, value in {**headers, "content-length": str(len(whole))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(whole)
                self.wfile.flush()

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = serve

            def log_message(self, *_: object) -> None:
                return

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            away = threading.Event()

        server = Server(("127.0.0.1", self.port), Handler)
        self.port = server.server_address[1]
        self._server = server
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()

    def go_away(self) -> None:
        """Take no connection any more, and answer nothing on those that are open."""
        server, self._server = self._server, None
        if server is not None:
            server.away.set()  # type: ignore[attr-defined] # our own class, above
            server.shutdown()
            server.server_close()
