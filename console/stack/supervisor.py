"""Starts services in order of need, keeps them running, stops them in reverse. One thread.

No service outlives it, not even when it is killed: see `process.spawn`.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from console.stack import guard, process
from console.stack.errors import StackError
from console.stack.logs import cap
from console.stack.service import (
    Child,
    Service,
    ServiceRecord,
    ServiceState,
    StackRecord,
    log_path,
    write_record,
)

LONGEST_BACKOFF = 15.0
FIRST_BACKOFF = 0.2
STABLE_SECONDS = 30.0
BUSY_TICK, IDLE_TICK = 0.03, 1.0
CAP_EVERY = 5.0


class Entry:
    """One service and what the supervisor knows of it."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.state = ServiceState.WAITING
        self.child: Child | None = None
        self.started = 0
        self.since = time.time()
        self.failures = 0
        self.restarts = 0
        self.last_exit: int | None = None
        self.retry_at = 0.0
        self.asked_to_stop_at = 0.0

    def move(self, state: ServiceState) -> None:
        """Note the new state and when it began."""
        self.state, self.since = state, time.time()

    def record(self) -> ServiceRecord:
        """This entry for the state file."""
        return ServiceRecord(
            name=self.service.name,
            state=self.state.value,
            pid=self.child.process.pid if self.child else 0,
            started=self.started,
            since=self.since,
            ports=self.service.ports,
            restarts=self.restarts,
            last_exit=self.last_exit,
        )


class Supervisor:
    """Runs `services` with all state under `home`; `report` gets one line per event."""

    def __init__(
        self, services: Sequence[Service], home: Path, report: Callable[[str], None]
    ) -> None:
        self.entries = [Entry(service) for service in services]
        self.by_name = {entry.service.name: entry for entry in self.entries}
        self.home = home
        self.report = report
        self.phase = "starting"
        self.since = time.time()
        self.stopping = False
        self._changed = True
        self._capped_at = time.monotonic()
        for entry in self.entries:
            unknown = [name for name in entry.service.after if name not in self.by_name]
            if unknown:
                raise StackError(f"{entry.service.name} waits for {unknown[0]}, which is not there")

    def run(self, when_up: Callable[[], None]) -> None:
        """Start all, call `when_up`, and stay until SIGTERM, SIGINT or SIGHUP.

        Raises StackError when another supervisor has this home, a port is taken or a service
        does not get ready; nothing is left running then.
        """
        with guard.single_instance(self.home), guard.wake_on_signals(self._ask_to_stop) as wake:
            guard.end_leftovers(self.home, self.report)
            guard.refuse_taken_ports([entry.service for entry in self.entries])
            self._write()
            try:
                self._start_all(wake)
                if not self.stopping:
                    self.phase, self.since = "up", time.time()
                    self._write()
                    when_up()
                self._watch(wake)
            finally:
                self._stop_all(wake)

    def _ask_to_stop(self) -> None:
        self.stopping = True

    def _start_all(self, wake: int) -> None:
        self._look_at_all()
        while not self.stopping and not self._all_settled():
            guard.wait(wake, BUSY_TICK)
            self._look_at_all()

    def _watch(self, wake: int) -> None:
        while not self.stopping:
            guard.wait(wake, IDLE_TICK if self._all_settled() else BUSY_TICK)
            self._look_at_all()
            if time.monotonic() - self._capped_at > CAP_EVERY:
                self._capped_at = time.monotonic()
                for entry in self.entries:
                    cap(log_path(self.home, entry.service.name))

    def _look_at_all(self) -> None:
        for entry in self.entries:
            self._look_at(entry)
        if self._changed:
            self._write()

    def _all_settled(self) -> bool:
        return all(self._is_settled(entry) for entry in self.entries)

    def _look_at(self, entry: Entry) -> None:
        match entry.state:
            case ServiceState.WAITING:
                if all(self._is_settled(self.by_name[name]) for name in entry.service.after):
                    self._start(entry)
            case ServiceState.BACKOFF:
                if time.monotonic() >= entry.retry_at:
                    entry.restarts += 1
                    self._start(entry)
            case ServiceState.STARTING:
                self._look_at_starting(entry)
            case ServiceState.READY if entry.child and entry.child.process.poll() is not None:
                self._note_exit(entry, entry.child)

    def _start(self, entry: Entry) -> None:
        service, log = entry.service, log_path(self.home, entry.service.name)
        log.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        begin = log.stat().st_size if log.exists() else 0
        clock = time.monotonic()
        try:
            running = process.spawn(service.command(), log)
        except (OSError, StackError) as error:
            if self.phase == "starting":
                raise StackError(f"{service.name} cannot be started: {error}") from error
            self._try_later(entry, f"cannot be started: {error}")
            return
        entry.child = Child(running, log, begin, clock)
        entry.started = process.started_at(running.pid) or 0
        entry.move(ServiceState.STARTING)
        self._changed = True

    def _look_at_starting(self, entry: Entry) -> None:
        child = entry.child
        assert child is not None
        seconds = time.monotonic() - child.started
        code = child.process.poll()
        if code is not None and not (entry.service.one_shot and code == 0):
            self._note_exit(entry, child)
        elif seconds > entry.service.ready_seconds:
            self._give_up(entry, f"was not ready after {entry.service.ready_seconds:.0f} s")
        elif code == 0:
            entry.child, entry.started = None, 0
            self._note_progress(entry, ServiceState.DONE, seconds)
        elif not entry.service.one_shot and entry.service.is_ready(child):
            self._note_progress(entry, ServiceState.READY, seconds)

    def _note_progress(self, entry: Entry, state: ServiceState, seconds: float) -> None:
        entry.move(state)
        self._changed = True
        self.report(f"  {entry.service.name:<12} {state.value} in {seconds:5.2f} s")

    def _note_exit(self, entry: Entry, child: Child) -> None:
        code = child.process.returncode
        entry.last_exit = code
        if self.phase == "starting":
            self._give_up(entry, f"ended with {_exit_text(code)} before it was ready")
        if time.monotonic() - child.started > STABLE_SECONDS:
            entry.failures = 0
        process.kill_group(child.process)
        entry.child, entry.started = None, 0
        self._try_later(entry, f"ended with {_exit_text(code)}")

    def _try_later(self, entry: Entry, what: str) -> None:
        delay = min(LONGEST_BACKOFF, FIRST_BACKOFF * 2**entry.failures)
        entry.failures += 1
        entry.retry_at = time.monotonic() + delay
        entry.move(ServiceState.BACKOFF)
        self._changed = True
        self.report(f"  {entry.service.name:<12} {what}, starts again in {delay:.1f} s")

    def _give_up(self, entry: Entry, what: str) -> None:
        """During the start: fail. Later: kill it, so that it is started again."""
        log = log_path(self.home, entry.service.name)
        if self.phase == "starting":
            begin = entry.child.log_start if entry.child else 0
            raise StackError(
                f"{entry.service.name} {what}. Its log, {log}, ends:\n{_tail(log, begin)}"
            )
        assert entry.child is not None
        self.report(f"  {entry.service.name:<12} {what}; killed")
        process.kill_group(entry.child.process)
        entry.child.process.wait()
        self._note_exit(entry, entry.child)

    def _is_settled(self, entry: Entry) -> bool:
        return entry.state in {ServiceState.READY, ServiceState.DONE}

    def _stop_all(self, wake: int) -> None:
        """Reverse order: each is asked to stop when nothing that waited for it runs any more."""
        self.phase, self.since = "stopping", time.time()
        running = [entry for entry in self.entries if entry.child is not None]
        while running:
            for entry in running:
                if not any(entry.service.name in self._needs(other) for other in running):
                    self._advance_stop(entry)
            running = [entry for entry in running if entry.child is not None]
            self._write()
            if running:
                guard.wait(wake, BUSY_TICK)
        for entry in self.entries:
            entry.move(ServiceState.STOPPED)
        self.phase = "stopped"
        self._write()

    def _needs(self, entry: Entry) -> set[str]:
        """All that a service stands on, also by way of what has ended already."""
        direct = set(entry.service.after)
        return direct.union(*(self._needs(self.by_name[name]) for name in direct))

    def _advance_stop(self, entry: Entry) -> None:
        assert entry.child is not None
        child = entry.child.process
        if not entry.asked_to_stop_at:
            entry.asked_to_stop_at = time.monotonic()
            if child.poll() is None:
                child.send_signal(entry.service.stop_signal)
        waited = time.monotonic() - entry.asked_to_stop_at
        if child.poll() is None and waited <= entry.service.stop_seconds:
            return
        killed = child.poll() is None
        process.kill_group(child)
        child.wait()
        entry.child, entry.started = None, 0
        entry.move(ServiceState.STOPPED)
        how = "killed" if killed else "stopped"
        self.report(f"  {entry.service.name:<12} {how} in {waited:5.2f} s")

    def _write(self) -> None:
        record = StackRecord(
            pid=os.getpid(),
            started=process.started_at(os.getpid()) or 0,
            phase=self.phase,
            since=self.since,
            services=tuple(entry.record() for entry in self.entries),
        )
        try:
            write_record(self.home, record)
            self._changed = False
        except OSError as error:
            # A full disk must not take the services down; the next tick writes again.
            self.report(f"  state not written: {error.strerror}")


def _exit_text(code: int | None) -> str:
    if code is None:
        return "no exit code"
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"signal {signal.Signals(-code).name}"
    except ValueError:
        return f"signal {-code}"


def _tail(log: Path, begin: int, lines: int = 15) -> str:
    try:
        with open(log, "rb") as file:
            file.seek(begin)
            text = file.read().decode(errors="replace")
    except OSError:
        return "(nothing)"
    return "\n".join(f"    {line}" for line in text.splitlines()[-lines:]) or "    (nothing)"
