"""How long one inference takes and how much memory it adds, batch size by batch size."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from models_registry.exporting.protocol import Json
from models_registry.rules import equivalence

_SECONDS_PER_BATCH: Final = 1.5
_WARM_RUNS: Final = 3
_FEWEST_RUNS: Final = 5
_SHARE_OF_MEMORY: Final = 0.6
_SHARE_OF_TIME: Final = 0.34
_USUAL_ROOM: Final = 4 * 1024**3
_STATUS: Final = Path("/proc/self/status")
_CLEAR: Final = Path("/proc/self/clear_refs")


@dataclass
class Growth:
    """Says before a batch size is run whether it would go beyond memory or time.

    Judged from the size before it: time and memory of one inference grow at most in proportion to
    its rows, but for what does not depend on them. `seconds` is the limit of one inference.
    """

    seconds: float
    rows: int = 0
    taken: float = 0.0
    grown: int = 0
    stopped: Json = field(default_factory=dict)

    def saw(self, rows: int, taken: float, grown: int) -> None:
        """One inference of `rows` rows took `taken` seconds and `grown` bytes."""
        self.rows, self.taken, self.grown = rows, taken, grown

    def fits(self, rows: int) -> bool:
        """Whether `rows` rows stay within a third of the time and 60 % of the memory left."""
        if not self.rows:
            return True
        times = rows / self.rows
        taken, grown = self.taken * times, int(self.grown * times)
        if taken <= self.seconds * _SHARE_OF_TIME and grown <= room() * _SHARE_OF_MEMORY:
            return True
        self.stopped = {"batch": rows, "seconds": round(taken, 3), "bytes": grown}
        return False


def sizes(largest: int, wanted: Sequence[int] = ()) -> list[int]:
    """1, 2, 4, 8 … up to `largest`, and those that are wanted.

    >>> sizes(12, (3,))
    [1, 2, 3, 4, 8, 12]
    """
    powers = {2**step for step in range(largest.bit_length()) if 2**step <= largest}
    return sorted({1, largest, *wanted, *powers})


def timed(run: Callable[[], object], batch: int, runs: int) -> Json:
    """One row of the report: wall time of single runs in ms, throughput in rows per second, and
    `peak_bytes`, by how much the process grew at most beyond what it had before.

    Fewer runs when the model is slow, at least five.
    """
    before = reset_peak()
    end = time.perf_counter() + _SECONDS_PER_BATCH
    for _ in range(_WARM_RUNS):
        run()
        if time.perf_counter() > end:
            break
    times: list[float] = []
    while len(times) < runs and (len(times) < _FEWEST_RUNS or time.perf_counter() < end):
        start = time.perf_counter()
        run()
        times.append((time.perf_counter() - start) * 1000.0)
    middle = equivalence.percentile(times, 50)
    return {
        "batch": batch,
        "mean_ms": sum(times) / len(times),
        "p50_ms": middle,
        "p95_ms": equivalence.percentile(times, 95),
        "p99_ms": equivalence.percentile(times, 99),
        "rows_per_second": batch * 1000.0 / middle if middle else None,
        "peak_bytes": max(0, peak() - before),
        "runs": len(times),
    }


def reset_peak() -> int:
    """Begin to look for the greatest memory from now on; gives the memory in use, in bytes.

    proc(5): writing 5 to clear_refs resets VmHWM. Where that is not allowed the greatest memory
    of the whole process stands, so that growth can only be told where it goes beyond that.
    """
    try:
        _CLEAR.write_text("5", encoding="ascii")
    except OSError:
        return peak()
    return _status("VmRSS")


def peak() -> int:
    """The greatest memory of this process since `reset_peak`, in bytes."""
    return _status("VmHWM") or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def in_use() -> int:
    """Memory of this process now, in bytes."""
    return _status("VmRSS")


def room() -> int:
    """Bytes that this process may still take (setrlimit(2), RLIMIT_DATA)."""
    most = resource.getrlimit(resource.RLIMIT_DATA)[0]
    return max(0, (_USUAL_ROOM if most < 0 else most) - _status("VmData", "RssAnon"))


def _status(*names: str) -> int:
    """The smallest of some lines of /proc/self/status, in bytes; 0 where there is none."""
    found = []
    try:
        text = _STATUS.read_text(encoding="ascii")
    except OSError:
        return 0
    for line in text.splitlines():
        name, _, value = line.partition(":")
        if name in names:
            found.append(int(value.split()[0]) * 1024)
    return min(found, default=0)
