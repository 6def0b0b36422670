"""What a person at a shell does with the stack: up, down, status. Each speaks plain lines."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from console.env import ROOT, Config
from console.stack import process
from console.stack.errors import StackError
from console.stack.service import ServiceRecord, StackRecord, log_path, read_record

Say = Callable[[str], None]

DOWN_SECONDS = 45.0
UP_SECONDS = 400.0


def up(config: Config, say: Say, only: Sequence[str] = ()) -> None:
    """Start the stack (or the services in `only`) in the background; return when all are ready.

    Says so and does nothing when it is up already. Raises StackError when it cannot be started.
    """
    record = read_record(config.home)
    if record is not None and record.is_supervised():
        if record.phase == "up":
            say(f"Already up: {config.base_url}")
            return
        _wait_for_other(config, record, say)
        return
    begun = time.monotonic()
    say(f"Starting Covenant in {config.home}")
    supervisor = _start_supervisor(config, say, only)
    record = read_record(config.home)
    if record is None or record.pid != supervisor.pid or record.phase != "up":
        raise StackError("The stack is not up; nothing was left running.")
    say(f"Up in {time.monotonic() - begun:.1f} s: {config.base_url}")


def down(config: Config, say: Say) -> None:
    """Stop the stack and return when no process of it is left. Data stay."""
    record = read_record(config.home)
    if record is None or not record.is_supervised():
        left = [service for service in record.services if service.is_alive()] if record else []
        for service in left:
            _kill_group(service.pid)
            say(f"  {service.name:<12} was left behind; killed")
        say("Already down.")
        return
    begun = time.monotonic()
    _stop_supervisor(record.pid)
    last = read_record(config.home) or record
    for service in (*record.services, *last.services):
        if service.is_alive():
            _kill_group(service.pid)
            say(f"  {service.name:<12} did not end; killed")
    say(f"Down in {time.monotonic() - begun:.1f} s. Data are kept in {config.home}.")


def status(config: Config) -> dict[str, Any]:
    """The stack as plain data: phase and, per service, state, pid, ports, uptime (s), restarts,
    memory (bytes)."""
    record = read_record(config.home)
    supervised = record is not None and record.is_supervised()
    services = (
        [_service_status(service, supervised) for service in record.services] if record else []
    )
    supervisor_bytes = (
        process.resident_bytes(record.pid, family=False) if record and supervised else 0
    )
    return {
        "phase": record.phase if record and supervised else "down",
        "url": config.base_url,
        "home": str(config.home),
        "supervisor": {
            "pid": record.pid if record and supervised else 0,
            "memory": supervisor_bytes,
        },
        "services": services,
        "memory": supervisor_bytes + sum(service["memory"] for service in services),
    }


def is_healthy(state: dict[str, Any]) -> bool:
    """Whether the stack is up and each service is ready or done."""
    return state["phase"] == "up" and all(
        service["state"] in {"ready", "done"} for service in state["services"]
    )


def status_lines(state: dict[str, Any]) -> list[str]:
    """`status` as a table for a terminal."""
    if state["phase"] == "down":
        return [f"Down. Start it with `make up`. ({state['home']})"]
    rows = [("SERVICE", "STATE", "PID", "PORTS", "UP", "RESTARTS", "MEMORY")]
    for service in state["services"]:
        ports = service["ports"]
        rows.append(
            (
                service["name"],
                service["state"],
                str(service["pid"] or "-"),
                " ".join(str(port) for port in ports) or "-",
                _span(service["uptime"]) if service["pid"] else "-",
                str(service["restarts"]),
                f"{service['memory'] / 2**20:.0f} MiB" if service["pid"] else "-",
            )
        )
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)) for row in rows]
    return [
        *(line.rstrip() for line in lines),
        f"{state['phase']}: {state['url']}  memory {state['memory'] / 2**20:.0f} MiB in all",
    ]


def log_files(config: Config) -> dict[str, Path]:
    """The log file of each service that has one, and of the supervisor."""
    folder = log_path(config.home, "x").parent
    return {path.stem: path for path in sorted(folder.glob("*.log"))}


def _start_supervisor(config: Config, say: Say, only: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start it detached and pass on its lines until it is up or has given up."""
    reader, writer = os.pipe()
    log = log_path(config.home, "supervisor")
    config.home.mkdir(parents=True, exist_ok=True, mode=0o711)
    log.parent.mkdir(exist_ok=True, mode=0o700)
    with open(log, "ab") as output:
        supervisor = subprocess.Popen(
            [sys.executable, "-m", "console.stack", "--report", str(writer), *only],
            cwd=ROOT,
            env={
                **os.environ,
                "COVENANT_HOME": str(config.home),
                "COVENANT_PORT_BASE": str(config.port_base),
                "PYTHONPATH": str(ROOT),
                "PYTHONUNBUFFERED": "1",
            },
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            pass_fds=(writer,),
        )
    os.close(writer)
    try:
        with os.fdopen(reader) as lines:
            for line in lines:
                say(line.rstrip("\n"))
    except KeyboardInterrupt:
        say("Stopping what was started …")
        _stop_supervisor(supervisor.pid)
        raise
    return supervisor


def _wait_for_other(config: Config, record: StackRecord, say: Say) -> None:
    """Another `up` or `down` is at work: wait until it is done."""
    say(f"The stack is {record.phase} already (supervisor {record.pid}); waiting for it.")
    deadline = time.monotonic() + UP_SECONDS
    current: StackRecord | None = record
    while current is not None and current.is_supervised() and time.monotonic() < deadline:
        if current.phase == "up":
            say(f"Up: {config.base_url}")
            return
        time.sleep(0.1)
        current = read_record(config.home)
    raise StackError(
        "The stack did not get up. Run `make up` again, or see `make logs S=supervisor`."
    )


def _stop_supervisor(pid: int) -> None:
    """Ask it to stop all, and wait for its end; kill it when it takes too long."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(handle, signal.SIGTERM)
            if not select.select([handle], [], [], DOWN_SECONDS)[0]:
                signal.pidfd_send_signal(handle, signal.SIGKILL)
                select.select([handle], [], [], 10)
    finally:
        os.close(handle)


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


def _service_status(service: ServiceRecord, supervised: bool) -> dict[str, Any]:
    alive = service.is_alive()
    return {
        "name": service.name,
        "state": service.state if supervised else "stopped",
        "pid": service.pid if alive else 0,
        "ports": list(service.ports),
        "uptime": round(time.time() - service.since, 1) if alive else 0.0,
        "restarts": service.restarts,
        "last_exit": service.last_exit,
        "memory": process.resident_bytes(service.pid) if alive else 0,
    }


def _span(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
