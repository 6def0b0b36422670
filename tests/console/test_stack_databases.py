"""The embedded Postgres and Valkey under the real supervisor: up, down, crash, side by side."""

from __future__ import annotations

import os
import select
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
import redis

from console.env import Config, load
from console.stack import control, postgres
from console.stack.errors import StackError
from console.stack.logs import cap
from console.stack.service import ServiceRecord, read_record
from tests.stack import free_port_base

DATABASES = ("postgres", "valkey")
NewStack = Callable[[str], Config]


@pytest.fixture
def new_stack() -> Iterator[NewStack]:
    """A configuration with a home and ports of its own; stopped after the test."""
    made: list[Config] = []
    # Not tmp_path: another user runs Postgres when root runs us, and must be able to pass.
    folder = Path(tempfile.mkdtemp(prefix="covenant-stack-"))
    folder.chmod(0o711)

    def make(name: str) -> Config:
        environment = {
            "COVENANT_HOME": str(folder / name),
            "COVENANT_PORT_BASE": str(free_port_base()),
        }
        made.append(load(environment))
        return made[-1]

    try:
        yield make
    finally:
        for config in made:
            control.down(config, lambda line: None)
        shutil.rmtree(folder)


@pytest.fixture(autouse=True)
def _without_the_tests_own_databases(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DATABASE_URL", raising=False)
    monkeypatch.delenv("REDIS_URL", raising=False)


def test_two_stacks_run_side_by_side_and_keep_their_data(new_stack: NewStack) -> None:
    one, two = new_stack("one"), new_stack("two")
    for config in (one, two):
        control.up(config, print, DATABASES)
    write(one, "of one")
    write(two, "of two")
    control.down(one, print)
    assert [service.is_alive() for service in services(one)] == [False, False]
    assert read(two) == ("of two", "of two")
    control.up(one, print, DATABASES)
    assert read(one) == ("of one", "of one")


def test_up_twice_says_so_and_changes_nothing(new_stack: NewStack) -> None:
    config = new_stack("one")
    control.up(config, print, DATABASES)
    before = services(config)
    said: list[str] = []
    control.up(config, said.append, DATABASES)
    assert said == [f"Already up: {config.base_url}"]
    assert services(config) == before


def test_down_twice_says_so(new_stack: NewStack) -> None:
    config = new_stack("one")
    said: list[str] = []
    control.down(config, said.append)
    assert said == ["Already down."]


def test_up_works_at_once_after_the_supervisor_was_killed(new_stack: NewStack) -> None:
    config = new_stack("one")
    control.up(config, print, DATABASES)
    write(config, "kept")
    before = read_record(config.home)
    assert before is not None
    kill(before.pid)
    control.up(config, print, DATABASES)
    assert read(config) == ("kept", "kept")
    assert not any(service.is_alive() for service in before.services)


@pytest.mark.parametrize("killed", DATABASES)
def test_a_killed_database_comes_back_with_its_data(new_stack: NewStack, killed: str) -> None:
    config = new_stack("one")
    control.up(config, print, DATABASES)
    write(config, "kept")
    with redis.Redis.from_url(config.redis_url) as client:
        # It promises a sync each second: wait for that one.
        assert client.waitaof(num_local=1, num_replicas=0, timeout=5000)[0] == 1
    victim = next(service for service in services(config) if service.name == killed)
    kill(victim.pid)
    deadline = time.monotonic() + 10
    while not is_back(config, victim) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert read(config) == ("kept", "kept")
    state = control.status(config)
    assert control.is_healthy(state)
    assert {service["name"]: service["restarts"] for service in state["services"]}[killed] == 1


def test_status_tells_each_service(new_stack: NewStack) -> None:
    config = new_stack("one")
    assert control.status(config)["phase"] == "down"
    assert control.status_lines(control.status(config))[0].startswith("Down.")
    control.up(config, print, DATABASES)
    state = control.status(config)
    assert control.is_healthy(state)
    first = state["services"][0]
    assert (first["name"], first["ports"]) == ("postgres", [config.ports.postgres])
    assert first["memory"] > 2**20
    assert state["memory"] > first["memory"]
    table = control.status_lines(state)
    assert table[0].split() == ["SERVICE", "STATE", "PID", "PORTS", "UP", "RESTARTS", "MEMORY"]
    assert table[2].split()[:3] == ["valkey", "ready", str(state["services"][1]["pid"])]
    assert set(control.log_files(config)) == {"postgres", "supervisor", "valkey"}


def test_an_unknown_service_is_refused_with_those_that_there_are(new_stack: NewStack) -> None:
    config = new_stack("one")
    said: list[str] = []
    with pytest.raises(StackError, match="nothing was left running"):
        control.up(config, said.append, ["postgresql"])
    assert said[-1].startswith("There is no service postgresql here. There are: postgres, valkey,")


def test_data_of_another_postgres_are_refused(new_stack: NewStack) -> None:
    config = new_stack("one")
    folder = config.home / "postgres"
    (folder / "data").mkdir(parents=True)
    (folder / "data" / "PG_VERSION").write_text("9\n")
    programs = postgres.find(folder)
    with pytest.raises(StackError, match="was written by Postgres 9"):
        postgres.prepare(programs, folder, password="x")


def test_postgres_runs_where_only_root_may_enter(new_stack: NewStack) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root may not run Postgres as itself")
    config = new_stack("one")
    config.home.chmod(0o700)
    assert postgres.find(config.home / "postgres").run_as.how == "namespace"
    control.up(config, print, DATABASES)
    write(config, "kept")
    assert read(config) == ("kept", "kept")


def test_a_log_that_has_grown_is_cut_and_goes_on(tmp_path: Path) -> None:
    log = tmp_path / "web.log"
    with open(log, "ab") as file:
        file.write(b"x" * 100)
        file.flush()
        assert not cap(log, largest=100)
        assert cap(log, largest=99)
        assert log.stat().st_size == 0
        assert (tmp_path / "web.log.1").stat().st_size == 100
        file.write(b"goes on")
    assert log.read_bytes() == b"goes on"


def kill(pid: int) -> None:
    """Kill -9, and wait until it is dead: the signal alone returns before."""
    handle = os.pidfd_open(pid)
    signal.pidfd_send_signal(handle, signal.SIGKILL)
    assert select.select([handle], [], [], 5)[0]
    os.close(handle)


def write(config: Config, text: str) -> None:
    """One row and one key."""
    with psycopg.connect(config.database_url, connect_timeout=5) as connection:
        connection.execute("CREATE TABLE kept (text text)")
        connection.execute("INSERT INTO kept VALUES (%s)", [text])
    with redis.Redis.from_url(config.redis_url) as client:
        client.set("kept", text)


def read(config: Config) -> tuple[str, str]:
    """What `write` wrote."""
    with psycopg.connect(config.database_url, connect_timeout=5) as connection:
        row = connection.execute("SELECT text FROM kept").fetchone()
    with redis.Redis.from_url(config.redis_url) as client:
        value = client.get("kept")
    assert row is not None
    assert isinstance(value, bytes)
    return row[0], value.decode()


def services(config: Config) -> tuple[ServiceRecord, ...]:
    """What the state file says of the services."""
    record = read_record(config.home)
    assert record is not None
    return record.services


def is_back(config: Config, killed: ServiceRecord) -> bool:
    """Whether another process has taken the killed one's place and is ready."""
    now = next(service for service in services(config) if service.name == killed.name)
    return now.pid not in {0, killed.pid} and now.state == "ready"
