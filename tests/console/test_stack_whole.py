"""The whole embedded stack, once: up, idle, each service killed, its supervisor killed, down."""

from __future__ import annotations

import os
import select
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from console.env import Config, load
from console.stack import control, guard, web
from console.stack.errors import StackError
from console.stack.process import started_at
from console.stack.service import Service, StackRecord, read_record
from tests.stack import free_port_base

# One after the other in one process, also when the run is spread over several.
pytestmark = [pytest.mark.timeout(420), pytest.mark.xdist_group("whole-stack")]

PROGRAMS = ("postgres", "valkey", "triton", "envoy")
OWN = ("gateway", "edge", "control", "export", "node.local", "beat", "collect", "traffic", "web")
SERVICES = {*PROGRAMS, *OWN, "migrate"}
HEAVY_LIBRARIES = ("libtorch", "onnxruntime_pybind", "onnx_cpp2py")
IDLE_BYTES = 2 * 2**30


@pytest.fixture(scope="module")
def config() -> Iterator[Config]:
    """A stack that is up; down and gone after the module."""
    folder = Path(tempfile.mkdtemp(prefix="covenant-stack-"))
    folder.chmod(0o711)
    base = str(free_port_base())
    made = load({"COVENANT_HOME": str(folder / "home"), "COVENANT_PORT_BASE": base})
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("DATABASE_URL", raising=False)
        patch.delenv("REDIS_URL", raising=False)
        try:
            control.up(made, print)
            yield made
        finally:
            control.down(made, print)
            shutil.rmtree(folder)


def test_every_service_is_up_and_the_web_answers(config: Config) -> None:
    state = control.status(config)
    assert control.is_healthy(state)
    assert {service["name"] for service in state["services"]} == SERVICES
    assert web.status(f"{config.base_url}/readyz") == 200
    assert web.status(f"{config.base_url}/healthz") == 200


def test_idle_it_takes_less_than_two_gibibytes(config: Config) -> None:
    assert control.status(config)["memory"] < IDLE_BYTES
    # What opens model files lives in the sandbox, for as long as a job takes.
    for service in record_of(config).services:
        if service.pid and service.name != "triton":
            maps = Path(f"/proc/{service.pid}/maps").read_text()
            assert not [name for name in HEAVY_LIBRARIES if name in maps], service.name


def test_a_second_stack_on_its_ports_is_refused_with_the_holder_named(config: Config) -> None:
    port = config.ports.postgres
    server = Service(name="postgres", command=_never, ports=(port,))
    with pytest.raises(StackError, match=rf"port {port} for postgres is taken by postgres \(pid"):
        guard.refuse_taken_ports([server])


@pytest.mark.parametrize("names", [*[(name,) for name in PROGRAMS], OWN], ids=",".join)
def test_killed_services_come_back(config: Config, names: tuple[str, ...]) -> None:
    victims = {s.name: s.pid for s in record_of(config).services if s.name in names}
    assert set(victims) == set(names)
    for pid in victims.values():
        kill(pid)
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        now = [service for service in record_of(config).services if service.name in names]
        if all(s.state == "ready" and s.pid not in {0, victims[s.name]} for s in now):
            break
        time.sleep(0.05)
    assert control.is_healthy(control.status(config))
    # The web's pool finds a lost database again by itself.
    while web.status(f"{config.base_url}/readyz") != 200 and time.monotonic() < deadline:
        time.sleep(0.1)
    assert web.status(f"{config.base_url}/readyz") == 200


def test_up_at_once_after_the_supervisor_was_killed(config: Config) -> None:
    before = record_of(config)
    kill(before.pid)
    control.up(config, print)
    assert control.is_healthy(control.status(config))
    assert not any(service.is_alive() for service in before.services)


def test_down_leaves_no_process(config: Config) -> None:
    before = record_of(config)
    family = {pid for pid in before_pids(before) if started_at(pid) is not None}
    assert len(family) >= len(SERVICES) - 1
    control.down(config, print)
    assert not [pid for pid in family if started_at(pid) is not None]
    assert control.status(config)["phase"] == "down"


def before_pids(record: StackRecord) -> set[int]:
    """The supervisor, its services and every process of their sessions."""
    leaders = {record.pid, *(service.pid for service in record.services if service.pid)}
    members = set(leaders)
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if os.getsid(int(folder.name)) in leaders:
                members.add(int(folder.name))
        except ProcessLookupError:
            continue
    return members


def record_of(config: Config) -> StackRecord:
    """The state file."""
    record = read_record(config.home)
    assert record is not None
    return record


def kill(pid: int) -> None:
    """Kill -9, and wait until it is dead: the signal alone returns before."""
    handle = os.pidfd_open(pid)
    signal.pidfd_send_signal(handle, signal.SIGKILL)
    assert select.select([handle], [], [], 5)[0]
    os.close(handle)


def _never() -> NoReturn:
    raise AssertionError("the port check comes before any start")
