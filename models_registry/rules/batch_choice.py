"""The largest batch of a configuration: the usual one, or less where validation measured so."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from models_registry.rules.tuning_settings import Origin, Setting

CLEARLY = 1.5


@dataclass(frozen=True, slots=True)
class BatchLatency:
    """What validation measured at one batch size: milliseconds of one inference, all rows."""

    batch: int
    p50_ms: float
    p95_ms: float

    @property
    def rows_per_second(self) -> float:
        """Throughput, by the median: one hiccup of the machine does not count."""
        return self.batch * 1000.0 / self.p50_ms if self.p50_ms > 0 else math.inf


def largest_batch(
    usual: Setting[int],
    measured: Sequence[BatchLatency],
    p95_ms: float | None,
    kept: tuple[int, int] | None,
) -> Setting[int]:
    """`usual` (the class' default), lowered by what was `measured`, smallest batch first.

    `kept` is the largest batch of the version before, with that version's number. It stays unless
    what was measured now speaks clearly against it: two measurements of one model differ, and a
    configuration that follows them would give each version a Triton model of its own. Clearly is
    half as many rows per second again, or half as long again as the contract's `p95_ms` allows.
    """
    rows = [row for row in measured if row.batch <= usual.value]
    if not rows:
        return usual
    found = _lowered(usual, rows, p95_ms)
    if kept is None or found.value == kept[0] or kept[0] > usual.value:
        return found
    size, number = kept
    by_size = {row.batch: row for row in rows}
    old, new = by_size.get(size), by_size[found.value]
    if old is None:
        return found
    slow = p95_ms is not None and old.p95_ms > CLEARLY * p95_ms
    quick = p95_ms is None or new.p95_ms * CLEARLY <= p95_ms
    if slow or (quick and new.rows_per_second > CLEARLY * old.rows_per_second):
        return found
    if size == usual.value:
        return usual
    reason = f"As for v{number}: what was measured now does not clearly speak for {found.value}."
    return Setting(size, Origin.MEASURED, reason)


def _lowered(
    usual: Setting[int], rows: Sequence[BatchLatency], p95_ms: float | None
) -> Setting[int]:
    """Down to what could be run, what the contract allows, and what does no harm.

    A batch does harm when a smaller one brings half as many rows per second again. That larger
    ones bring no more is no reason: the worker's CPU says little about the GPU that may serve.
    """
    found, largest = usual, rows[-1]
    if largest.batch < usual.value:
        reason = (
            f"The largest batch that validation could run: one of {usual.value} would have taken "
            "too much memory or time there."
        )
        found = Setting(largest.batch, Origin.MEASURED, reason)
    if p95_ms is not None and largest.p95_ms > p95_ms:
        rows = [row for row in rows if row.p95_ms <= p95_ms] or rows[:1]
        reason = (
            f"A batch of {largest.batch} took {largest.p95_ms:.3g} ms (P95) at validation, above "
            f"the contract's {p95_ms:g} ms; one of {rows[-1].batch} took {rows[-1].p95_ms:.3g} ms."
        )
        found = Setting(rows[-1].batch, Origin.MEASURED, reason)
    best = max(row.rows_per_second for row in rows)
    harmless = [row for row in rows if row.rows_per_second * CLEARLY >= best][-1]
    if harmless.batch == rows[-1].batch:
        return found
    reason = (
        f"Larger batches are slower: {harmless.rows_per_second:.4g} rows/s at {harmless.batch}, "
        f"{rows[-1].rows_per_second:.4g} at {rows[-1].batch}, measured on the validation worker's "
        "CPU. Set it by hand for a GPU."
    )
    return Setting(harmless.batch, Origin.MEASURED, reason)
