"""The demo's people: made once, with passwords and signing keys kept in the installation's home."""

from __future__ import annotations

import json
import os
import secrets
import string
from dataclasses import dataclass
from pathlib import Path

from console.rules import dsse, signing_keys
from deployments.cli.client import Client, Credentials

ROLES: dict[str, tuple[str, tuple[str, ...]]] = {
    "dana": ("Dana", ("data_scientist",)),
    "sam": ("Sam", ("sre",)),
    "bea": ("Bea", ("business_owner",)),
    "ada": ("Ada", ("platform_admin",)),
    "vic": ("Vic", ("viewer",)),
}
SEATS = {"data_scientist": "dana", "sre": "sam", "business_owner": "bea"}


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody who uses the API with a token of their own and signs with a key of their own."""

    username: str
    password: str
    client: Client
    key: signing_keys.PrivateKey

    def sign(self, payload_type: str, payload: bytes) -> dict[str, object]:
        """A DSSE envelope over the payload."""
        return dict(dsse.sign(self.key, payload_type, payload).to_dict())


def passwords(home: Path) -> dict[str, str]:
    """Each person's password, made on first use and kept under `home` with mode 0600."""
    path = home / "secrets" / "demo_people.json"
    kept: dict[str, str] = json.loads(path.read_text()) if path.exists() else {}
    missing = [name for name in ROLES if name not in kept]
    if missing:
        kept.update({name: _password() for name in missing})
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        _write_private(path, json.dumps(kept).encode())
    return kept


def sign_in(username: str, password: str, *, url: str, home: Path) -> Person:
    """Fetch a token and enrol the person's key where it is not enrolled yet."""
    token = Client(Credentials(url, "")).post(
        "/tokens/", {"username": username, "password": password, "name": "demo"}
    )["token"]
    client = Client(Credentials(url, token))
    key = _key(home / "secrets" / f"demo_key_{username}.pem", password)
    public = signing_keys.public_key_of(key)
    enrolled = {row["keyid"] for row in client.get("/keys/")["results"]}
    if public.key_id not in enrolled:
        client.post(
            "/keys/",
            {
                "name": "demo key",
                "public_key": public.pem,
                "origin": "cli",
                "password": password,
            },
        )
    return Person(username, password, client, key)


def _password() -> str:
    """Twelve letters and digits, easy to copy from a terminal."""
    letters = string.ascii_letters + string.digits
    return "".join(secrets.choice(letters) for _ in range(12))


def _key(path: Path, passphrase: str) -> signing_keys.PrivateKey:
    if path.exists():
        return signing_keys.load_private_key(path.read_bytes(), passphrase=passphrase)
    key = signing_keys.create_private_key("ed25519")
    _write_private(path, signing_keys.private_key_pem(key, passphrase=passphrase))
    return key


def _write_private(path: Path, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
