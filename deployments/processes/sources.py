"""What a collector knows of each gateway and node that it reads, and when it did not read it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime

from deployments.models import GapReason
from deployments.rules.statistics.readings import SAME_PROCESS_S, Reader
from deployments.services.statistics.gaps import Gap
from deployments.services.statistics.rollups import Booking

GAP_S = 5.0
"""Who was not read for so long has a gap; a look is due each second."""
BEAT_S = 10.0
"""A source that had nothing to book says at least as often that it was read."""


@dataclass(slots=True)
class Source:
    """One gateway or node: how far it was read, how far booked, and what lies between.

    `read_at` is when it was last read, by whichever collector; None when it never was.
    """

    name: str
    reader: Reader
    booked_at: datetime | None
    read_at: datetime | None = None
    booking: Booking = field(default_factory=Booking)
    changed: set[str] = field(default_factory=set)
    gaps: list[Gap] = field(default_factory=list)
    fresh: bool = True
    failing: bool = False

    def epoch_of(self, at: datetime, started_at: float, uptime_s: float) -> float:
        """When the process that was read began: as it is known, where it ran at the last reading.

        A clock that is set, or a reading that lay about while this process was held up, moves
        `started_at`; taken for a restart, everything that was ever counted would be booked again.
        """
        if self.reader.known and self.read_at is not None:
            since = max((at - self.read_at).total_seconds(), 0.0)
            if uptime_s > since + SAME_PROCESS_S:
                return self.reader.epoch
        return started_at

    def read(self, at: datetime, started_at: float) -> None:
        """Note a reading that is about to be taken over, of a process that runs since then."""
        before = self.read_at
        if before is not None and self.reader.known:
            restarted = self.reader.is_restart(started_at)
            late = (at - before).total_seconds() > GAP_S
            if restarted or late or self.failing or self.fresh:
                self.gaps.append(self._gap(before, at, started_at, restarted=restarted))
        self.read_at, self.fresh, self.failing = at, False, False

    def _gap(self, before: datetime, at: datetime, started_at: float, *, restarted: bool) -> Gap:
        if restarted:
            began = datetime.fromtimestamp(started_at, UTC)
            end = min(max(began, before), at)
            return Gap(self.name, before, end, GapReason.RESTARTED, lost=True)
        why = GapReason.NOT_COLLECTED if self.fresh else GapReason.UNREACHABLE
        return Gap(self.name, before, at, why)

    def failed(self, at: datetime, why: str) -> None:
        """Note that it could not be read."""
        since = self.read_at
        if since is None or self.failing or (at - since).total_seconds() <= GAP_S:
            return
        self.failing = True
        self.gaps.append(Gap(self.name, since, None, GapReason.UNREACHABLE, detail=why))

    def due(self, at: datetime) -> bool:
        """Whether there is something to book, if only that it was read."""
        if not self.reader.known:
            return False
        if self.changed or self.booking.traffic or self.booked_at is None:
            return True
        return (at - self.booked_at).total_seconds() >= BEAT_S

    def first_booking(self) -> set[str]:
        """A source that is booked for the first time leaves a cursor for every series."""
        return set(self.reader.last) if self.booked_at is None else set()

    def put_back(self, booking: Booking, changed: set[str]) -> None:
        """Take back what could not be booked."""
        for (key, version, minute), traffic in booking.traffic.items():
            self.booking.add_traffic(key, version, minute, traffic)
        for (key, version, minute), work in booking.work.items():
            self.booking.add_work(key, version, minute, work)
        for (key, version, minute), traffic in booking.mirrored.items():
            self.booking.add_mirrored(key, version, minute, traffic)
        self.changed |= changed
