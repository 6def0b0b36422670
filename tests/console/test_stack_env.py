"""The environment: what is accepted, what is refused and in which words."""

from __future__ import annotations

import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from console.env import (
    VARIABLES,
    ConfigError,
    FileStorage,
    S3Storage,
    kept_secret,
    load,
    parse_database_url,
)

SECRET = "long-and-random-" * 4


def test_the_embedded_stack_needs_nothing_but_a_home(tmp_path: Path) -> None:
    config = load({"COVENANT_HOME": str(tmp_path)})
    assert config.embedded_database
    assert config.embedded_redis
    assert config.embedded_triton
    assert config.embedded_gateway
    assert config.edge_address == ("127.0.0.1", 8714)
    assert (config.ports.web, config.ports.gateway_staging, config.ports.valkey) == (
        8700,
        8713,
        8731,
    )
    assert config.base_url == "http://127.0.0.1:8700"
    assert config.storage == FileStorage(tmp_path / "artifacts")
    assert config.triton_repository == tmp_path / "triton" / "repository"
    assert not config.debug
    assert config.triton_release == "24.10"
    assert config.custom_op_libraries == ()
    assert not config.allow_pickled_modules


def test_secrets_are_made_once_and_only_their_owner_may_read_them(tmp_path: Path) -> None:
    first = load({"COVENANT_HOME": str(tmp_path)})
    assert load({"COVENANT_HOME": str(tmp_path)}) == first
    files = sorted((tmp_path / "secrets").iterdir())
    assert [file.name for file in files] == [
        "postgres_password",
        "secret_key",
        "triton_repository_key",
        "valkey_password",
    ]
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    assert stat.S_IMODE((tmp_path / "secrets").stat().st_mode) == 0o700
    assert len({file.read_text() for file in files}) == 4


def test_two_that_ask_at_once_get_the_same_secret(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        got = list(pool.map(lambda _: kept_secret(tmp_path, "key"), range(40)))
    assert len(set(got)) == 1
    assert [path.name for path in (tmp_path / "secrets").iterdir()] == ["key"]


def test_no_secret_shows_in_a_log(tmp_path: Path) -> None:
    config = load({"COVENANT_HOME": str(tmp_path)})
    for secret in (tmp_path / "secrets").iterdir():
        assert secret.read_text() not in repr(config)


def test_external_services_replace_the_embedded_ones(tmp_path: Path) -> None:
    library = tmp_path / "libtokens.so"
    library.touch()
    config = load(
        {
            "COVENANT_HOME": str(tmp_path),
            "COVENANT_SECRET_KEY": SECRET,
            "COVENANT_STORAGE": "s3://models/covenant/",
            "COVENANT_TRITON": "gpu-1:8001, gpu-2:8001",
            "COVENANT_GATEWAY": "none",
            "COVENANT_TRITON_RELEASE": "25.03",
            "COVENANT_CUSTOM_OP_LIBRARIES": str(library),
            "COVENANT_ALLOW_PICKLED_MODULES": "yes",
            "COVENANT_BASE_URL": "https://covenant.example.com/",
            "DATABASE_URL": "postgresql://c:p@db.example.com/covenant",
            "REDIS_URL": "rediss://cache.example.com:6380/2",
        }
    )
    assert not config.embedded_database
    assert not config.embedded_redis
    assert not config.embedded_gateway
    assert config.edge_address is None
    assert config.triton == ("gpu-1:8001", "gpu-2:8001")
    assert config.storage == S3Storage("models", "covenant")
    assert config.base_url == "https://covenant.example.com"
    assert "covenant.example.com" in config.allowed_hosts
    assert config.triton_release == "25.03"
    assert config.custom_op_libraries == (library,)
    assert config.allow_pickled_modules
    assert not (tmp_path / "secrets").exists()


def test_a_database_url_is_taken_apart() -> None:
    entry = parse_database_url("postgres://me:p%40ss@db:5433/main?sslmode=require")
    assert entry == {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": "main",
        "USER": "me",
        "PASSWORD": "p@ss",
        "HOST": "db",
        "PORT": "5433",
        "OPTIONS": {"sslmode": "require"},
    }
    assert parse_database_url("postgresql:///main?host=/run/pg")["HOST"] == "/run/pg"


@pytest.mark.parametrize(
    ("name", "value", "accepted"),
    [
        ("COVENANT_TRITON_RELEASE", "newest", "24.10"),
        ("COVENANT_CUSTOM_OP_LIBRARIES", "libtokens.so", "absolute path"),
        ("COVENANT_ALLOW_PICKLED_MODULES", "maybe", "true"),
        ("COVENANT_PORT_BASE", "80", "a whole number 1024 to 65504"),
        ("COVENANT_PORT_BASE", "65505", "a whole number 1024 to 65504"),
        ("COVENANT_PORT_BASE", "many", "a whole number 1024 to 65504"),
        ("COVENANT_STORAGE", "ftp://x/y", "file:///absolute/folder or s3://bucket/prefix"),
        ("COVENANT_STORAGE", "file://relative/folder", "file:///absolute/folder"),
        ("COVENANT_TRITON", "gpu-1", "host:port"),
        ("COVENANT_TRITON", "gpu-1:99999", "host:port"),
        ("COVENANT_GATEWAY", "kong", "embedded or none"),
        ("COVENANT_EDGE", "somewhere", "address:port"),
        ("COVENANT_EDGE", "edge.example.com:8714", "no name"),
        ("COVENANT_DEBUG", "maybe", "1, true, yes, on or 0, false, no, off"),
        ("COVENANT_BASE_URL", "covenant.example.com", "http://host:port or https://host"),
        ("COVENANT_ALLOWED_HOSTS", "https://a.example.com", "host names with commas between"),
        ("REDIS_URL", "http://cache", "redis://host:port/0"),
        ("DATABASE_URL", "mysql://db/x", "postgresql://user:password@host:port/database"),
        ("DATABASE_URL", "postgresql://db:port/x", "postgresql://user:password@host:port"),
    ],
)
def test_a_bad_value_is_refused_in_one_line(
    tmp_path: Path, name: str, value: str, accepted: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        load({"COVENANT_HOME": str(tmp_path), name: value})
    assert str(refused.value).startswith(name)
    assert accepted in str(refused.value)
    assert "\n" not in str(refused.value)


def test_an_unknown_variable_is_refused_with_those_that_are_known(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        load({"COVENANT_HOME": str(tmp_path), "COVENANT_PORTBASE": "9000"})
    assert str(refused.value).startswith("COVENANT_PORTBASE is not a variable")
    assert all(name in str(refused.value) for name in VARIABLES)


@pytest.mark.parametrize("key", ["", "short", "a" * 80])
def test_an_external_database_needs_a_good_secret_key(tmp_path: Path, key: str) -> None:
    environment = {
        "COVENANT_HOME": str(tmp_path),
        "COVENANT_SECRET_KEY": key,
        "DATABASE_URL": "postgresql://c:p@db/x",
    }
    with pytest.raises(ConfigError, match=r"COVENANT_SECRET_KEY .*at least 50 characters"):
        load(environment)


def test_an_empty_secret_file_is_refused_rather_than_used(tmp_path: Path) -> None:
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "secret_key").touch()
    with pytest.raises(ConfigError, match="secret_key is empty"):
        load({"COVENANT_HOME": str(tmp_path)})


def test_a_home_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "home").touch()
    with pytest.raises(ConfigError, match=r"COVENANT_HOME=.* use a folder"):
        load({"COVENANT_HOME": str(tmp_path / "home")})
