"""The environment, read once into one typed `Config`; every fault is one clear line.

Standard library only and quick: the settings, the embedded stack and the tests import it
before Django is there.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import Literal
from urllib.parse import unquote, urlsplit

from console.env_sign_in import SIGN_IN_VARIABLES, SignInConfig, read_sign_in
from console.env_values import ConfigError as ConfigError
from console.env_values import EmailServer as EmailServer
from console.env_values import (
    is_address,
    read_bool,
    read_email,
    read_files,
    read_int,
    read_networks,
)
from console.env_values import kept_secret as kept_secret
from console.env_values import parse_database_url as parse_database_url

ROOT = Path(__file__).resolve().parent.parent

VARIABLES = frozenset(
    {
        "COVENANT_ALLOWED_HOSTS",
        "COVENANT_ALLOW_PICKLED_MODULES",
        "COVENANT_AUDIT_RETENTION_MONTHS",
        "COVENANT_BASE_URL",
        "COVENANT_CUSTOM_OP_LIBRARIES",
        "COVENANT_DEBUG",
        "COVENANT_EDGE",
        "COVENANT_EMAIL_FROM",
        "COVENANT_EMAIL_URL",
        "COVENANT_GATEWAY",
        "COVENANT_HOME",
        "COVENANT_LOAD_TEST_MAX_RATE",
        "COVENANT_PORT_BASE",
        "COVENANT_PRIVATE_ADDRESSES",
        "COVENANT_SANDBOX_MEMORY",
        "COVENANT_SECRET_KEY",
        "COVENANT_SIGNING_KEY",
        "COVENANT_STORAGE",
        "COVENANT_TRITON",
        "COVENANT_TRITON_KEY",
        "COVENANT_TRITON_RELEASE",
        *SIGN_IN_VARIABLES,
    }
)
# The command line client's own; a shell may well hold it when the server is started there.
CLIENT_VARIABLES = frozenset({"COVENANT_PASSWORD", "COVENANT_TOKEN"})

DEFAULT_PORT_BASE = 8700
DEFAULT_TRITON_RELEASE = "24.10"
HIGHEST_OFFSET = 31


@dataclass(frozen=True, slots=True)
class Ports:
    """TCP ports on 127.0.0.1, each at a fixed distance from COVENANT_PORT_BASE."""

    web: int
    gateway_production: int
    gateway_admin: int
    ads: int
    gateway_staging: int
    edge: int
    edge_grpc: int
    triton_http: int
    triton_grpc: int
    triton_metrics: int
    postgres: int
    valkey: int

    @classmethod
    def from_base(cls, base: int) -> Ports:
        """Ports of the stack whose first port is `base`."""
        return cls(
            web=base,
            gateway_production=base + 10,
            gateway_admin=base + 11,
            ads=base + 12,
            gateway_staging=base + 13,
            edge=base + 14,
            edge_grpc=base + 15,
            triton_http=base + 20,
            triton_grpc=base + 21,
            triton_metrics=base + 22,
            postgres=base + 30,
            valkey=base + HIGHEST_OFFSET,
        )


@dataclass(frozen=True, slots=True)
class FileStorage:
    """Artifacts in a folder of this machine."""

    path: Path


@dataclass(frozen=True, slots=True)
class S3Storage:
    """Artifacts in a bucket; credentials and endpoint come the AWS way, not from here."""

    bucket: str
    prefix: str


@dataclass(frozen=True, slots=True)
class Config:
    """Everything that the environment decides; `repr` shows no secret."""

    home: Path
    port_base: int
    ports: Ports
    database_url: str = field(repr=False)
    embedded_database: bool
    redis_url: str = field(repr=False)
    embedded_redis: bool
    storage: FileStorage | S3Storage
    secret_key: str = field(repr=False)
    allowed_hosts: tuple[str, ...]
    base_url: str
    triton: Literal["embedded"] | tuple[str, ...]
    triton_repository_key: str = field(repr=False)
    gateway: Literal["embedded", "none"]
    edge: Literal["embedded", "none"] | tuple[str, int]
    debug: bool
    load_test_max_rate: int
    triton_release: str
    sandbox_memory_mib: int
    custom_op_libraries: tuple[Path, ...]
    allow_pickled_modules: bool
    signing_key: Path | None
    audit_retention_months: int
    private_addresses: tuple[IPv4Network | IPv6Network, ...]
    sign_in: SignInConfig
    email: EmailServer | None

    @property
    def embedded_triton(self) -> bool:
        """Whether the stack starts a Triton of its own."""
        return self.triton == "embedded"

    @property
    def embedded_gateway(self) -> bool:
        """Whether the stack starts an Envoy of its own."""
        return self.gateway == "embedded"

    @property
    def edge_address(self) -> tuple[str, int] | None:
        """Where gateways reach the edge process, or None when there is none."""
        if self.edge == "embedded":
            return "127.0.0.1", self.ports.edge
        return None if self.edge == "none" else self.edge

    @property
    def embedded(self) -> bool:
        """Whether any part of the embedded stack is in use."""
        return self.embedded_database or self.embedded_redis

    @property
    def triton_repository(self) -> Path:
        """Model repository of the embedded Triton."""
        return self.home / "triton" / "repository"

    @property
    def gateway_secrets(self) -> Path:
        """Where this installation keeps the tokens with which it reaches gateways."""
        return self.home / "gateway-secrets"


def load(environ: Mapping[str, str] | None = None) -> Config:
    """Read the environment.

    Raises ConfigError on the first unknown variable or value that is not accepted. In the
    embedded stack missing secrets are made and kept under COVENANT_HOME/secrets, mode 0600.
    """
    env = os.environ if environ is None else environ
    _refuse_unknown(env)
    home = _home(env)
    port_base = read_int(
        env, "COVENANT_PORT_BASE", DEFAULT_PORT_BASE, low=1024, high=65535 - HIGHEST_OFFSET
    )
    ports = Ports.from_base(port_base)
    embedded_database = not env.get("DATABASE_URL")
    embedded_redis = not env.get("REDIS_URL")
    triton = _triton(env)
    base_url = _base_url(env, ports)
    return Config(
        home=home,
        port_base=port_base,
        ports=ports,
        database_url=_database_url(env, home, ports),
        embedded_database=embedded_database,
        redis_url=_redis_url(env, home, ports),
        embedded_redis=embedded_redis,
        storage=_storage(env, home),
        secret_key=_secret_key(env, home, embedded=embedded_database),
        allowed_hosts=_allowed_hosts(env, base_url),
        base_url=base_url,
        triton=triton,
        triton_repository_key=env.get("COVENANT_TRITON_KEY")
        or (kept_secret(home, "triton_repository_key") if triton == "embedded" else ""),
        gateway=_gateway(env),
        edge=_edge(env),
        debug=read_bool(env, "COVENANT_DEBUG", False),
        load_test_max_rate=read_int(env, "COVENANT_LOAD_TEST_MAX_RATE", 500, low=1, high=5000),
        triton_release=_triton_release(env),
        sandbox_memory_mib=read_int(env, "COVENANT_SANDBOX_MEMORY", 0, low=0, high=16 * 1024**2),
        custom_op_libraries=read_files(env, "COVENANT_CUSTOM_OP_LIBRARIES"),
        allow_pickled_modules=read_bool(env, "COVENANT_ALLOW_PICKLED_MODULES", False),
        signing_key=next(iter(read_files(env, "COVENANT_SIGNING_KEY")), None),
        audit_retention_months=read_int(
            env, "COVENANT_AUDIT_RETENTION_MONTHS", 0, low=0, high=1200
        ),
        private_addresses=read_networks(env, "COVENANT_PRIVATE_ADDRESSES"),
        sign_in=read_sign_in(env),
        email=read_email(env),
    )


def _refuse_unknown(env: Mapping[str, str]) -> None:
    known = VARIABLES | CLIENT_VARIABLES
    unknown = sorted(n for n in env if n.startswith("COVENANT_") and n not in known)
    if unknown:
        raise ConfigError(
            f"{unknown[0]} is not a variable that Covenant knows. "
            f"Known are DATABASE_URL, REDIS_URL, {', '.join(sorted(VARIABLES))}."
        )


def _home(env: Mapping[str, str]) -> Path:
    # Relative paths are the project's, so that every command finds the same stack from any folder.
    home = (ROOT / Path(env.get("COVENANT_HOME") or ".covenant").expanduser()).resolve()
    if home.exists() and not home.is_dir():
        raise ConfigError(f"COVENANT_HOME={str(home)!r} is not accepted: use a folder.")
    return home


def _database_url(env: Mapping[str, str], home: Path, ports: Ports) -> str:
    url = env.get("DATABASE_URL")
    if not url:
        password = kept_secret(home, "postgres_password")
        return f"postgresql://covenant:{password}@127.0.0.1:{ports.postgres}/covenant"
    parse_database_url(url)
    return url


def _redis_url(env: Mapping[str, str], home: Path, ports: Ports) -> str:
    url = env.get("REDIS_URL")
    if not url:
        password = kept_secret(home, "valkey_password")
        return f"redis://:{password}@127.0.0.1:{ports.valkey}/0"
    if urlsplit(url).scheme not in {"redis", "rediss", "unix"}:
        raise ConfigError(
            "REDIS_URL is not accepted: use redis://host:port/0, rediss:// or unix://."
        )
    return url


def _storage(env: Mapping[str, str], home: Path) -> FileStorage | S3Storage:
    raw = env.get("COVENANT_STORAGE")
    if not raw:
        return FileStorage(home / "artifacts")
    parts = urlsplit(raw)
    if parts.scheme == "file" and not parts.netloc and len(parts.path) > 1:
        return FileStorage(Path(unquote(parts.path)))
    if parts.scheme == "s3" and parts.netloc:
        return S3Storage(bucket=parts.netloc, prefix=unquote(parts.path).strip("/"))
    raise ConfigError(
        f"COVENANT_STORAGE={raw!r} is not accepted: use file:///absolute/folder or s3://bucket/prefix."
    )


def _secret_key(env: Mapping[str, str], home: Path, *, embedded: bool) -> str:
    given = env.get("COVENANT_SECRET_KEY", "")
    if not given:
        if embedded:
            return kept_secret(home, "secret_key")
        raise ConfigError(
            "COVENANT_SECRET_KEY is missing: with DATABASE_URL set, give a random text "
            "of at least 50 characters."
        )
    if len(given) < 50 or len(set(given)) < 5:
        raise ConfigError(
            "COVENANT_SECRET_KEY is not accepted: use a random text of at least 50 characters."
        )
    return given


def _base_url(env: Mapping[str, str], ports: Ports) -> str:
    raw = env.get("COVENANT_BASE_URL") or f"http://127.0.0.1:{ports.web}"
    parts = urlsplit(raw)
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.query:
        raise ConfigError(
            f"COVENANT_BASE_URL={raw!r} is not accepted: use http://host:port or https://host."
        )
    return raw.rstrip("/")


def _allowed_hosts(env: Mapping[str, str], base_url: str) -> tuple[str, ...]:
    raw = env.get("COVENANT_ALLOWED_HOSTS", "")
    named = tuple(host.strip() for host in raw.split(",") if host.strip())
    if any("/" in host or " " in host for host in named):
        raise ConfigError(
            f"COVENANT_ALLOWED_HOSTS={raw!r} is not accepted: use host names with commas between."
        )
    own = urlsplit(base_url).hostname or "localhost"
    return tuple(dict.fromkeys((*named, own, "127.0.0.1", "localhost", "[::1]")))


def _triton(env: Mapping[str, str]) -> Literal["embedded"] | tuple[str, ...]:
    raw = env.get("COVENANT_TRITON") or "embedded"
    if raw == "embedded":
        return "embedded"
    if raw == "none":
        return ()
    addresses = tuple(address.strip() for address in raw.split(","))
    for address in addresses:
        host, _, port = address.rpartition(":")
        if not host or not port.isdigit() or not 0 < int(port) < 65536:
            raise ConfigError(
                f"COVENANT_TRITON={raw!r} is not accepted: use embedded, none, "
                "or host:port of each node's gRPC with commas between."
            )
    return addresses


def _triton_release(env: Mapping[str, str]) -> str:
    raw = env.get("COVENANT_TRITON_RELEASE") or DEFAULT_TRITON_RELEASE
    if raw != "embedded" and not re.fullmatch(r"[0-9]{2}\.[0-9]{2}", raw):
        raise ConfigError(
            f"COVENANT_TRITON_RELEASE={raw!r} is not accepted: use the release of your nodes, "
            "as in 24.10, or embedded."
        )
    return raw


def _gateway(env: Mapping[str, str]) -> Literal["embedded", "none"]:
    raw = env.get("COVENANT_GATEWAY") or "embedded"
    if raw == "embedded":
        return "embedded"
    if raw == "none":
        return "none"
    raise ConfigError(f"COVENANT_GATEWAY={raw!r} is not accepted: use embedded or none.")


def _edge(env: Mapping[str, str]) -> Literal["embedded", "none"] | tuple[str, int]:
    # A gateway elsewhere would not find a process on this machine's loopback.
    raw = env.get("COVENANT_EDGE") or _gateway(env)
    if raw == "embedded":
        return "embedded"
    if raw == "none":
        return "none"
    host, _, port = raw.rpartition(":")
    # A gateway cannot have a name and its own answer in one group of hosts.
    if not is_address(host.strip("[]")) or not port.isdigit() or not 0 < int(port) < 65536:
        raise ConfigError(
            f"COVENANT_EDGE={raw!r} is not accepted: use embedded, none or address:port of the "
            "edge process as gateways reach it, as in 10.0.0.7:8714 (no name)."
        )
    return host.strip("[]"), int(port)
