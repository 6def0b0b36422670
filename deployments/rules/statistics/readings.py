"""What grew between two readings of an outside process' counters, and how far each was booked.

A reader keeps the last reading; a cursor is a reading as it is stored. Growth is counted once:
from the cursor to the first reading after a start, then from reading to reading.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from deployments.rules.statistics import counters, histograms
from deployments.rules.statistics.histograms import Histogram
from deployments.rules.statistics.latency_bounds import EDGES_MS, from_bins, to_bins

SAME_PROCESS_S = 2.0
"""A process' start, computed from its uptime in whole seconds, is known no better than this."""


@dataclass(frozen=True, slots=True)
class Reading:
    """Counters of one series as they stood, with its histogram if it has one."""

    counts: Mapping[str, int]
    latency: Histogram | None = None

    def to_json(self) -> dict[str, Any]:
        """As a cursor stores it."""
        stored: dict[str, Any] = {"counts": dict(self.counts)}
        if self.latency is None:
            return stored
        if self.latency.bounds == EDGES_MS:
            # Most bins hold nothing.
            return {**stored, "bins": to_bins(self.latency)}
        stored |= {"bounds": list(self.latency.bounds), "buckets": list(self.latency.counts)}
        return stored

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Reading:
        """What `to_json` wrote."""
        latency = None
        if "bins" in stored:
            latency = from_bins((edge, count) for edge, count in stored["bins"])
        elif "bounds" in stored:
            latency = Histogram(tuple(stored["bounds"]), tuple(stored["buckets"]))
        return cls(dict(stored.get("counts", {})), latency)


@dataclass(slots=True)
class Reader:
    """All series of one process. `known` says whether it was ever read before.

    `epoch` is when the process started, in epoch seconds; 0 where that is not known and only
    counters that fall show a restart.
    """

    known: bool = False
    epoch: float = 0.0
    last: dict[str, Reading] = field(default_factory=dict)

    def read(self, epoch: float, now: Mapping[str, Reading]) -> dict[str, Reading]:
        """What each series grew by since the last reading; never negative.

        A process never read before gives nothing: how old its counts are is unknown. A series
        that is new in a known process began at zero.
        """
        restarted = self.is_restart(epoch)
        grown = {name: self._grown(name, reading, restarted) for name, reading in now.items()}
        # A series may be absent for a while (no members left); its last reading still counts.
        self.last = dict(now) if restarted else {**self.last, **now}
        self.epoch = epoch if restarted or not self.known else self.epoch
        self.known = True
        return grown

    def is_restart(self, epoch: float) -> bool:
        """Whether a process that runs since `epoch` is another one than was read before."""
        return self.known and abs(epoch - self.epoch) > SAME_PROCESS_S

    def _grown(self, name: str, now: Reading, restarted: bool) -> Reading:
        if not self.known:
            latency = None if now.latency is None else histograms.empty(now.latency.bounds)
            return Reading(dict.fromkeys(now.counts, 0), latency)
        before = self.last.get(name, Reading({}))
        grown = counters.deltas(now.counts, before.counts, restarted=restarted)
        if now.latency is None:
            return Reading(grown)
        if before.latency is None:
            return Reading(grown, now.latency)
        return Reading(grown, histograms.delta(now.latency, before.latency, restarted=restarted))
