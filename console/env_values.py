"""Typed readers of single values from the environment; each fails loudly, in one line."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit


class ConfigError(Exception):
    """A variable is unknown, missing or has a value that is not accepted; the text is one line."""


def read_bool(env: Mapping[str, str], name: str, default: bool) -> bool:
    """A yes/no variable: 1, true, yes, on or 0, false, no, off."""
    raw = env.get(name, "")
    if not raw:
        return default
    if raw.lower() in {"1", "true", "yes", "on"}:
        return True
    if raw.lower() in {"0", "false", "no", "off"}:
        return False
    raise ConfigError(f"{name}={raw!r} is not accepted: use 1, true, yes, on or 0, false, no, off.")


def read_int(env: Mapping[str, str], name: str, default: int, *, low: int, high: int) -> int:
    """A whole number within `low`..`high`, both included."""
    raw = env.get(name, "")
    if not raw:
        return default
    try:
        value = int(raw)
    except ValueError:
        value = low - 1
    if not low <= value <= high:
        raise ConfigError(f"{name}={raw!r} is not accepted: use a whole number {low} to {high}.")
    return value


def read_files(env: Mapping[str, str], name: str) -> tuple[Path, ...]:
    """Absolute paths of files that are there, with commas between; each file name once."""
    paths = tuple(Path(part.strip()) for part in env.get(name, "").split(",") if part.strip())
    for path in paths:
        if not path.is_absolute() or not path.is_file():
            raise ConfigError(
                f"{name} is not accepted: {str(path)!r} is not the absolute path of a file."
            )
    if len({path.name for path in paths}) < len(paths):
        raise ConfigError(f"{name} is not accepted: two of its files have the same name.")
    return paths


def read_networks(env: Mapping[str, str], name: str) -> tuple[IPv4Network | IPv6Network, ...]:
    """Addresses and networks with commas between, as in 10.0.0.0/8,192.168.7.4."""
    found = []
    for part in filter(None, (part.strip() for part in env.get(name, "").split(","))):
        try:
            found.append(ip_network(part))
        except ValueError as error:
            raise ConfigError(
                f"{name} is not accepted: {part!r} is no address or network, as in 10.0.0.0/8."
            ) from error
    return tuple(found)


def is_address(text: str) -> bool:
    """Whether the text is an IP address."""
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def kept_secret(home: Path, name: str) -> str:
    """The secret `name` under `home`/secrets (0600), made on first use; two may ask at once."""
    folder = home / "secrets"
    path = folder / name
    try:
        if value := path.read_text().strip():
            return value
        raise ConfigError(f"{path} is empty: delete it to have a new secret made.")
    except FileNotFoundError:
        pass
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}.") from error
    draft = folder / f".{name}.{secrets.token_hex(4)}"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(secrets.token_urlsafe(48))
        # link() fails where the name is there already, so the first writer wins whole.
        with contextlib.suppress(FileExistsError):
            os.link(draft, path)
        draft.unlink()
    except OSError as error:
        raise ConfigError(
            f"COVENANT_HOME={str(home)!r} cannot hold secrets: {error.strerror}. "
            "Use a folder that this user may write."
        ) from error
    return path.read_text().strip()


@dataclass(frozen=True, slots=True)
class EmailServer:
    """Where mail is handed in; `repr` shows no password."""

    host: str
    port: int
    username: str
    password: str = field(repr=False)
    tls: bool
    start_tls: bool
    sender: str


def read_email(env: Mapping[str, str]) -> EmailServer | None:
    """COVENANT_EMAIL_URL and COVENANT_EMAIL_FROM; None when no mail is sent.

    smtp:// speaks TLS by STARTTLS, except to this machine; smtps:// from the first byte;
    smtp+plain:// never.
    """
    url, sender = env.get("COVENANT_EMAIL_URL", ""), env.get("COVENANT_EMAIL_FROM", "").strip()
    if not url:
        return None
    parts = urlsplit(url)
    try:
        port = parts.port
    except ValueError:
        port = -1
    schemes = {"smtp", "smtps", "smtp+plain"}
    if parts.scheme not in schemes or not parts.hostname or port == -1 or parts.path.strip("/"):
        raise ConfigError(
            "COVENANT_EMAIL_URL is not accepted: use smtp://user:password@host:587, "
            "smtps://… for TLS from the first byte, or smtp+plain://host:25 for none."
        )
    if not re.fullmatch(r"[^\r\n]*[^@\s<]+@[^@\s>]+>?", sender):
        raise ConfigError(
            "COVENANT_EMAIL_FROM is not accepted: name the sender, as in covenant@example.com or "
            "Covenant <covenant@example.com>."
        )
    local = parts.hostname in {"127.0.0.1", "::1", "localhost"}
    usual = {"smtp": 25 if local else 587, "smtps": 465, "smtp+plain": 25}
    return EmailServer(
        host=parts.hostname,
        port=port or usual[parts.scheme],
        username=unquote(parts.username or ""),
        password=unquote(parts.password or ""),
        tls=parts.scheme == "smtps",
        start_tls=parts.scheme == "smtp" and not local,
        sender=sender,
    )


def parse_database_url(url: str) -> dict[str, object]:
    """Django's DATABASES entry (NAME, USER, PASSWORD, HOST, PORT, OPTIONS) of a Postgres URL."""
    parts = urlsplit(url)
    try:
        port = parts.port
    except ValueError:
        port = -1
    if parts.scheme not in {"postgres", "postgresql"} or port == -1 or len(parts.path) < 2:
        raise ConfigError(
            "DATABASE_URL is not accepted: use postgresql://user:password@host:port/database."
        )
    options = dict(parse_qsl(parts.query))
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": unquote(parts.path[1:]),
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": options.pop("host", "") or parts.hostname or "",
        "PORT": str(port or ""),
        "OPTIONS": options,
    }
