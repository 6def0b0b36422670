"""The supervisor over real child processes."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from console.env import ROOT
from console.stack.process import started_at
from console.stack.service import ServiceRecord, read_record

PROGRAM = ROOT / "tests" / "console" / "supervised_program.py"
SLEEP = ["/bin/sleep", "600"]
Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start a supervisor of its own home; what is left is killed after the test."""
    running: list[subprocess.Popen[str]] = []

    def begin(*services: dict[str, Any], home: Path = tmp_path) -> subprocess.Popen[str]:
        running.append(
            subprocess.Popen(
                [sys.executable, str(PROGRAM), str(home), json.dumps(services)],
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                stdout=subprocess.PIPE,
                text=True,
            )
        )
        return running[-1]

    yield begin
    for supervisor in running:
        supervisor.kill()
        supervisor.wait()
        assert supervisor.stdout is not None
        supervisor.stdout.close()


def test_a_service_starts_when_those_it_needs_are_ready(start: Start, tmp_path: Path) -> None:
    slow = ["/bin/sh", "-c", "sleep 0.3; echo open; exec sleep 600"]
    supervisor = start(
        {"name": "upper", "argv": SLEEP, "after": ["lower"]},
        {"name": "lower", "argv": slow, "logs": "open"},
    )
    lines = read_until(supervisor, "UP")
    assert [line.split()[0] for line in lines] == ["lower", "upper", "UP"]
    assert [service.state for service in services(tmp_path)] == ["ready", "ready"]


def test_children_die_when_the_supervisor_is_killed(start: Start, tmp_path: Path) -> None:
    supervisor = start({"name": "one", "argv": SLEEP}, {"name": "two", "argv": SLEEP})
    read_until(supervisor, "UP")
    handles = [os.pidfd_open(service.pid) for service in services(tmp_path)]
    supervisor.kill()
    for handle in handles:
        assert select.select([handle], [], [], 5)[0], "a child outlived its supervisor"
        os.close(handle)


def test_a_start_right_after_a_kill_waits_for_what_was_left(
    start: Start, tmp_path: Path, free_port: Callable[[], int]
) -> None:
    port = free_port()
    # It holds its port for a while after it was told to go, as a server that drains does.
    program = (
        "import signal, socket, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: (time.sleep(1), sys.exit(0)))\n"
        f"listener = socket.create_server(('127.0.0.1', {port}))\n"
        "print('open', flush=True)\n"
        "while True: signal.pause()\n"
    )
    told = {
        "name": "server",
        "argv": [sys.executable, "-c", program],
        "logs": "open",
        "ports": [port],
    }
    first = start(told)
    read_until(first, "UP")
    first.kill()
    second = start(told)
    lines = read_until(second, "UP")
    assert "waiting for what a killed supervisor left: server" in lines[0]


def test_a_second_supervisor_of_the_same_home_is_refused(start: Start, tmp_path: Path) -> None:
    first = start({"name": "one", "argv": SLEEP})
    read_until(first, "UP")
    second = start({"name": "one", "argv": SLEEP})
    assert read_until(second, "ERROR")[-1] == (
        f"ERROR The stack in {tmp_path} is already supervised."
    )
    assert second.wait(5) == 1
    assert first.poll() is None
    assert services(tmp_path)[0].is_alive()


def test_a_taken_port_is_named_before_anything_starts(start: Start, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        supervisor = start(
            {"name": "first", "argv": ["/bin/sh", "-c", f"touch {tmp_path}/begun"]},
            {"name": "web", "argv": SLEEP, "ports": [port]},
        )
        message = read_until(supervisor, "ERROR")[-1]
    assert f"port {port} for web is taken by" in message
    assert f"(pid {os.getpid()})" in message
    assert "COVENANT_PORT_BASE" in message
    assert not (tmp_path / "begun").exists()


def test_a_crashed_service_is_started_again(start: Start, tmp_path: Path) -> None:
    supervisor = start({"name": "one", "argv": SLEEP})
    read_until(supervisor, "UP")
    killed = services(tmp_path)[0].pid
    os.kill(killed, signal.SIGKILL)
    lines = read_until(supervisor, "ready in")
    assert "ended with signal SIGKILL, starts again in 0.2 s" in lines[0]
    again = wait_for_record(tmp_path, lambda record: record.state == "ready")
    assert again.pid != killed
    assert again.restarts == 1
    assert again.is_alive()


def test_a_service_that_keeps_crashing_is_started_less_and_less_often(start: Start) -> None:
    crash = ["/bin/sh", "-c", "echo open; sleep 0.2; exit 7"]
    supervisor = start({"name": "one", "argv": crash, "logs": "open"})
    read_until(supervisor, "UP")
    delays = []
    while len(delays) < 3:
        line = read_until(supervisor, "starts again in")[-1]
        assert "exit code 7" in line
        delays.append(float(line.rsplit(" ", 2)[1]))
    assert delays == [0.2, 0.4, 0.8]


def test_stop_goes_in_reverse_order_and_leaves_no_process(start: Start, tmp_path: Path) -> None:
    supervisor = start(
        {"name": "lower", "argv": SLEEP},
        {"name": "middle", "argv": SLEEP, "after": ["lower"]},
        {"name": "upper", "argv": SLEEP, "after": ["middle"]},
    )
    read_until(supervisor, "UP")
    before = services(tmp_path)
    supervisor.terminate()
    lines = read_until(supervisor, "ENDED")
    assert [line.split()[0] for line in lines] == ["upper", "middle", "lower", "ENDED"]
    assert supervisor.wait(5) == 0
    assert not any(service.is_alive() for service in before)


def test_a_one_shot_service_between_them_keeps_the_order_of_the_stop(start: Start) -> None:
    supervisor = start(
        {"name": "database", "argv": SLEEP},
        {"name": "migrate", "argv": ["/bin/true"], "after": ["database"], "one_shot": True},
        {"name": "web", "argv": SLEEP, "after": ["migrate"]},
    )
    read_until(supervisor, "UP")
    supervisor.terminate()
    assert [line.split()[0] for line in read_until(supervisor, "ENDED")] == [
        "web",
        "database",
        "ENDED",
    ]


def test_a_service_that_does_not_stop_is_killed_with_its_children(
    start: Start, tmp_path: Path
) -> None:
    stubborn = "trap '' TERM; sleep 600 & echo child $!; while true; do wait; done"
    supervisor = start(
        {"name": "one", "argv": ["/bin/sh", "-c", stubborn], "logs": "child", "stop_seconds": 0.3}
    )
    read_until(supervisor, "UP")
    child = int((tmp_path / "log" / "one.log").read_text().split()[1])
    assert started_at(child) is not None
    supervisor.terminate()
    assert "killed" in read_until(supervisor, "ENDED")[0]
    assert started_at(child) is None


def test_a_service_that_fails_to_start_stops_the_rest_and_shows_its_log(
    start: Start, tmp_path: Path
) -> None:
    broken = ["/bin/sh", "-c", "echo the disk is on fire; exit 3"]
    supervisor = start(
        {"name": "good", "argv": SLEEP},
        {"name": "bad", "argv": broken, "after": ["good"], "logs": "never"},
    )
    lines = read_until(supervisor, "the disk is on fire")
    assert any("bad ended with exit code 3 before it was ready" in line for line in lines)
    assert supervisor.wait(5) == 1
    assert not any(service.is_alive() for service in services(tmp_path))


def test_a_service_that_never_gets_ready_is_reported(start: Start) -> None:
    supervisor = start({"name": "mute", "argv": SLEEP, "logs": "never", "ready_seconds": 0.2})
    assert "mute was not ready after 0 s" in read_until(supervisor, "ERROR")[-1]
    assert supervisor.wait(5) == 1


def test_a_one_shot_service_is_done_before_the_next_starts(start: Start, tmp_path: Path) -> None:
    supervisor = start(
        {"name": "web", "argv": ["/bin/sh", "-c", f"test -e {tmp_path}/made && exec sleep 600"],
         "after": ["once"]},
        {"name": "once", "argv": ["/bin/sh", "-c", f"sleep 0.2; touch {tmp_path}/made"],
         "one_shot": True},
    )  # fmt: skip
    lines = read_until(supervisor, "UP")
    assert lines[0].split()[:2] == ["once", "done"]
    assert [service.state for service in services(tmp_path)] == ["ready", "done"]


def read_until(supervisor: subprocess.Popen[str], text: str) -> list[str]:
    """Lines of the supervisor up to the first with `text`; fails when it ends before."""
    assert supervisor.stdout is not None
    lines: list[str] = []
    for line in supervisor.stdout:
        lines.append(line.strip())
        if text in line:
            return lines
    pytest.fail(f"the supervisor ended without {text!r}: {lines}")


def services(home: Path) -> tuple[ServiceRecord, ...]:
    """What the state file says of the services."""
    record = read_record(home)
    assert record is not None
    return record.services


def wait_for_record(home: Path, fits: Callable[[ServiceRecord], bool]) -> ServiceRecord:
    """The only service's record once it fits: the file follows the event by one tick."""
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        record = services(home)[0]
        if fits(record):
            return record
        time.sleep(0.02)
    pytest.fail(f"the state file stays at {services(home)}")
