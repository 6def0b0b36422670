"""What the supervisor needs to know about one service, and how it writes down what it knows."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from console.stack.process import Command, started_at


class ServiceState(StrEnum):
    """Where a service is in its life."""

    WAITING = "waiting"
    STARTING = "starting"
    READY = "ready"
    DONE = "done"
    BACKOFF = "restarting"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class Child:
    """A running service as its readiness check sees it."""

    process: subprocess.Popen[bytes]
    log: Path
    log_start: int
    started: float

    def has_logged(self, text: str) -> bool:
        """Whether this run, not one before it, has written `text` to the log."""
        try:
            with open(self.log, "rb") as file:
                # A log that was cut meanwhile is shorter than where this run began.
                file.seek(min(self.log_start, os.fstat(file.fileno()).st_size))
                return text.encode() in file.read()
        except FileNotFoundError:
            return False


@dataclass(frozen=True, slots=True)
class Service:
    """One service. `command` prepares what the start needs and may raise StackError.

    A `one_shot` service is ready when it has ended well. Times are seconds.
    """

    name: str
    command: Callable[[], Command]
    is_ready: Callable[[Child], bool] = lambda child: True
    after: tuple[str, ...] = ()
    ports: tuple[int, ...] = ()
    one_shot: bool = False
    stop_signal: signal.Signals = signal.SIGTERM
    stop_seconds: float = 8.0
    ready_seconds: float = 60.0


@dataclass(frozen=True, slots=True)
class ServiceRecord:
    """A service as the state file tells it. `started` is in clock ticks since boot."""

    name: str
    state: str
    pid: int
    started: int
    since: float
    ports: tuple[int, ...]
    restarts: int
    last_exit: int | None

    def is_alive(self) -> bool:
        """Whether the very process that was written down still runs."""
        return self.pid > 0 and started_at(self.pid) == self.started


@dataclass(frozen=True, slots=True)
class StackRecord:
    """The state file: who supervises, how far it is, and the services."""

    pid: int
    started: int
    phase: str
    since: float
    services: tuple[ServiceRecord, ...]

    def is_supervised(self) -> bool:
        """Whether the supervisor that wrote this still runs."""
        return started_at(self.pid) == self.started


def state_path(home: Path) -> Path:
    """Where the supervisor of this home writes down what it does."""
    return home / "run" / "state.json"


def log_path(home: Path, name: str) -> Path:
    """The log file of a service (or of `supervisor`)."""
    return home / "log" / f"{name}.log"


def write_record(home: Path, record: StackRecord) -> None:
    """Replace the state file whole; a reader never sees half of it."""
    path = state_path(home)
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".new")
    draft.write_text(json.dumps(asdict(record), indent=1))
    draft.replace(path)


def read_record(home: Path) -> StackRecord | None:
    """What the last supervisor of this home wrote, if anything."""
    try:
        document: dict[str, Any] = json.loads(state_path(home).read_text())
        services = tuple(
            ServiceRecord(**{**service, "ports": tuple(service["ports"])})
            for service in document.pop("services")
        )
        return StackRecord(**document, services=services)
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError):
        # Written by another release: nothing in it can be relied on.
        return None
