"""A small real issuer of workload tokens: discovery and keys over HTTP on this machine."""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

MAKERS = {"RS256": RSAAlgorithm, "ES256": ECAlgorithm, "EdDSA": OKPAlgorithm}


def new_key(algorithm: str, *, bits: int = 2048) -> Any:
    """A private key for the algorithm."""
    if algorithm == "RS256":
        return rsa.generate_private_key(public_exponent=65537, key_size=bits)
    if algorithm == "ES256":
        return ec.generate_private_key(ec.SECP256R1())
    return ed25519.Ed25519PrivateKey.generate()


class Issuer:
    """Signs tokens; `answers` replaces what a path answers: (status, headers, body)."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.keys: dict[str, tuple[str, Any]] = {}
        self.extra_keys: list[dict[str, Any]] = []
        self.answers: dict[str, tuple[int, dict[str, str], bytes]] = {}
        self.asked: list[str] = []
        for algorithm in MAKERS:
            self.add(algorithm, new_key(algorithm))

    def add(self, algorithm: str, key: Any, key_id: str = "") -> None:
        """Publish a key."""
        self.keys[key_id or algorithm] = (algorithm, key)

    def jwks(self) -> dict[str, Any]:
        found = []
        for key_id, (algorithm, key) in self.keys.items():
            jwk = MAKERS[algorithm].to_jwk(key.public_key(), as_dict=True)
            found.append({**jwk, "kid": key_id, "alg": algorithm, "use": "sig"})
        return {"keys": [*found, *self.extra_keys]}

    def discovery(self) -> dict[str, Any]:
        return {"issuer": self.url, "jwks_uri": f"{self.url}/keys"}

    def answer(self, path: str) -> tuple[int, dict[str, str], bytes]:
        self.asked.append(path)
        if path in self.answers:
            return self.answers[path]
        documents = {
            "/.well-known/openid-configuration": self.discovery,
            "/keys": self.jwks,
        }
        if path not in documents:
            return 404, {}, b""
        return 200, {"Content-Type": "application/json"}, json.dumps(documents[path]()).encode()

    def claims(self, **changes: Any) -> dict[str, Any]:
        now = int(time.time())
        claims = {
            "iss": self.url,
            "aud": "https://covenant.example.com",
            "sub": "repo:risk/fraud-models:ref:refs/heads/main",
            "repository": "risk/fraud-models",
            "iat": now,
            "nbf": now,
            "exp": now + 300,
            "jti": uuid.uuid4().hex,
        }
        claims.update(changes)
        return {name: value for name, value in claims.items() if value is not None}

    def token(
        self,
        key_id: str = "RS256",
        *,
        headers: dict[str, Any] | None = None,
        **changes: Any,
    ) -> str:
        """A token signed by a published key."""
        algorithm, key = self.keys[key_id]
        return jwt.encode(
            self.claims(**changes), key, algorithm, headers={"kid": key_id, **(headers or {})}
        )


@contextmanager
def running_issuer() -> Iterator[Issuer]:
    """An issuer that answers on a port of its own until the block is left."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, headers, body = issuer.answer(self.path)
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    issuer = Issuer(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield issuer
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
