"""What is made sure of before a service starts, and how the supervisor waits for news."""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from console.stack import process
from console.stack.errors import StackError
from console.stack.service import Service, read_record

LEFTOVER_SECONDS = 10.0
LEFTOVER_TICK = 0.03


def refuse_taken_ports(services: Sequence[Service]) -> None:
    """Raise StackError that names every port that is taken, for which service and by whom."""
    taken = []
    for service in services:
        for port in service.ports:
            if not _is_free(port):
                who = process.holder_of(port)
                taken.append(f"port {port} for {service.name} is taken" + f" by {who}" * bool(who))
    if taken:
        raise StackError(
            "; ".join(taken) + ". Stop that program or choose another COVENANT_PORT_BASE."
        )


@contextlib.contextmanager
def single_instance(home: Path) -> Iterator[None]:
    """A lock of the kernel, not a pid file: it cannot outlive its holder."""
    path = home / "run" / "lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise StackError(f"The stack in {home} is already supervised.") from error
        yield


@contextlib.contextmanager
def wake_on_signals(ask_to_stop: Callable[[], None]) -> Iterator[int]:
    """A file descriptor that becomes readable when a child ends or a stop is asked for."""
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    os.set_blocking(writer, False)
    stops = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    before = {sig: signal.getsignal(sig) for sig in (*stops, signal.SIGCHLD)}
    for sig in stops:
        signal.signal(sig, lambda *_: ask_to_stop())
    signal.signal(signal.SIGCHLD, lambda *_: None)
    old = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    try:
        yield reader
    finally:
        signal.set_wakeup_fd(old)
        for sig, handler in before.items():
            signal.signal(sig, handler)
        os.close(reader)
        os.close(writer)


def wait(wake: int, seconds: float) -> None:
    """Wait until the descriptor of `wake_on_signals` has news, `seconds` at the longest."""
    select.select([wake], [], [], seconds)
    with contextlib.suppress(BlockingIOError):
        os.read(wake, 4096)


def end_leftovers(home: Path, report: Callable[[str], None]) -> None:
    """Services of a supervisor that was killed are on their way out: wait, then make sure."""
    record = read_record(home)
    if record is None:
        return
    deadline = time.monotonic() + LEFTOVER_SECONDS
    alive = [service for service in record.services if service.is_alive()]
    if alive:
        report(f"  waiting for what a killed supervisor left: {', '.join(s.name for s in alive)}")
    while alive and time.monotonic() < deadline:
        time.sleep(LEFTOVER_TICK)
        alive = [service for service in alive if service.is_alive()]
    for service in alive:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(service.pid, signal.SIGKILL)


def _is_free(port: int) -> bool:
    with contextlib.closing(socket.socket()) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
