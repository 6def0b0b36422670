"""What a load test measured: every answer counted, percentiles exact, the knee, the report.

Latency is from the moment at which a request was due, not from when it was sent: a caller that was
kept waiting by the answer before it waits for its own as well. Measured from sending, a stall of
one second would count once instead of for everybody who wanted to call meanwhile (coordinated
omission: Gil Tene, "How NOT to Measure Latency", 2015).
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from models_registry.rules.load_tests import Limits

OK = "ok"
MICROSECONDS = 1_000_000
# A step holds while at least this share of what was planned is answered in its time.
KEPT_SHARE = 0.95
MOST_FAULTS = 20

Answer = tuple[int, int, int, str, int]
"""When it was due, sent and answered (µs from the start), what came of it, which body."""


@dataclass(slots=True)
class Tally:
    """All answers of one test; 13 bytes each, as many as the plan allows."""

    rates: Sequence[int]
    due: array[int] = field(default_factory=lambda: array("I"))
    sent: array[int] = field(default_factory=lambda: array("I"))
    ended: array[int] = field(default_factory=lambda: array("I"))
    ok: bytearray = field(default_factory=bytearray)
    outcomes: Counter[str] = field(default_factory=Counter)
    bodies: Counter[int] = field(default_factory=Counter)
    faults: list[dict[str, Any]] = field(default_factory=list)

    def add(self, answers: Iterable[Answer]) -> None:
        """Count answers; moments before the start (a clock read a moment early) are the start."""
        for due, sent, ended, outcome, body in answers:
            self.due.append(max(due, 0))
            self.sent.append(max(sent, 0))
            self.ended.append(max(ended, 0))
            self.ok.append(outcome == OK)
            self.outcomes[outcome] += 1
            self.bodies[body] += 1

    def add_fault(self, fault: Mapping[str, Any]) -> None:
        """Keep the first bodies that were no good answer."""
        if len(self.faults) < MOST_FAULTS:
            self.faults.append(dict(fault))

    @property
    def planned(self) -> int:
        return sum(self.rates)

    @property
    def answered(self) -> int:
        return len(self.ok)

    def waits_us(self) -> list[int]:
        """From due to answered, for each request."""
        return [end - due for due, end in zip(self.due, self.ended, strict=True)]

    def recent(self, second: int) -> tuple[int, int, float | None]:
        """Answers, failures and p95 (ms) of the requests due in one second, among the newest."""
        newest = slice(-4 * max(self.rates), None)
        chosen = [
            (ok, end - due)
            for ok, due, end in zip(
                self.ok[newest], self.due[newest], self.ended[newest], strict=True
            )
            if due // MICROSECONDS == second
        ]
        p95 = percentile_ms([wait for _, wait in chosen], 0.95)
        return len(chosen), sum(not ok for ok, _ in chosen), p95


def percentile_ms(waits_us: Iterable[int], share: float) -> float | None:
    """The smallest value that `share` (0..1) of all do not exceed (nearest rank), in ms; exact."""
    ordered = sorted(waits_us)
    if not ordered:
        return None
    rank = max(1, -(-round(share * len(ordered) * 10_000) // 10_000))
    return ordered[min(rank, len(ordered)) - 1] / 1000


def side_of(outcome: str) -> str:
    """Whose fault it is: `caller` for a refused request (4xx but 408 and 429), else `provider`."""
    status = outcome.removeprefix("http_")
    refused = status.startswith("4") and status not in ("408", "429")
    return "caller" if outcome.startswith("http_") and refused else "provider"


def report(tally: Tally, limits: Limits, *, batches: Sequence[int]) -> dict[str, Any]:
    """Figures, verdict and series as JSON; latencies in ms, rates in requests a second, success
    in per cent of what was sent. `batches` are the rows of each body."""
    waits = tally.waits_us()
    good = tally.outcomes[OK]
    success = round(100 * good / tally.answered, 4) if tally.answered else 0.0
    latency = _latency(waits)
    levels = _levels(tally, limits)
    passed = limits.kept_by(latency["p95"], success)
    by_side = Counter[str]()
    for outcome, count in tally.outcomes.items():
        if outcome != OK:
            by_side[side_of(outcome)] += count
    return {
        "requests": {
            "planned": tally.planned,
            "sent": tally.answered,
            "unsent": tally.planned - tally.answered,
            "ok": good,
            "failed": tally.answered - good,
            "provider_faults": by_side["provider"],
            "caller_faults": by_side["caller"],
        },
        "success": success,
        "latency_ms": latency,
        "from_sending_ms": _latency(
            [end - sent for sent, end in zip(tally.sent, tally.ended, strict=True)]
        ),
        "sent_late_ms": _latency(
            [sent - due for due, sent in zip(tally.due, tally.sent, strict=True)]
        ),
        "levels": levels,
        "knee": knee(levels),
        "errors": _errors(tally),
        "seconds": _seconds(tally),
        "batches": {str(batches[body]): n for body, n in sorted(tally.bodies.items())},
        "limits": {"p95_ms": limits.p95_ms, "success": limits.success},
        "passed": passed,
        "verdict": "passed" if passed else "failed",
        "sentence": sentence(latency["p95"], success, tally.answered, limits),
    }


def knee(levels: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The highest step that holds, and whether the load went beyond it.

    The knee is where more load stops to bring more throughput and begins to cost latency (R. Jain,
    The Art of Computer Systems Performance Analysis, 1991, section 3.3). A step holds while at
    least 95 % of what was planned is answered well in its time and the p95 is within the limit; a
    step above one that does not hold is not counted, since nothing can be promised there.
    """
    held: Mapping[str, Any] | None = None
    for level in sorted(levels, key=lambda one: int(one["rate"])):
        if not level["holds"]:
            return {
                "rate": held["rate"] if held else None,
                "throughput": held["achieved"] if held else None,
                "reached": True,
            }
        held = level
    return {
        "rate": held["rate"] if held else None,
        "throughput": held["achieved"] if held else None,
        "reached": False,
    }


def sentence(p95_ms: float | None, success: float, requests: int, limits: Limits) -> str:
    """The verdict in words."""
    if p95_ms is None:
        return "Failed: no request was answered."
    speed = f"95 % of {requests} requests were answered within {p95_ms:.1f} ms"
    worth = f"{success:g} % succeeded"
    if limits.kept_by(p95_ms, success):
        return (
            f"Passed: {speed} (limit {limits.p95_ms:g} ms), and {worth} "
            f"(limit {limits.success:g} %)."
        )
    faults = []
    if p95_ms > limits.p95_ms:
        faults.append(f"{speed}, and the limit is {limits.p95_ms:g} ms")
    if success < limits.success:
        faults.append(f"{worth}, and the limit is {limits.success:g} %")
    return f"Failed: {'; '.join(faults)}."


def _latency(values_us: Sequence[int]) -> dict[str, float | None]:
    named = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "p99_9": 0.999, "max": 1.0}
    ordered = sorted(values_us)
    figures: dict[str, float | None] = {
        name: percentile_ms(ordered, share) for name, share in named.items()
    }
    figures["mean"] = round(sum(ordered) / len(ordered) / 1000, 3) if ordered else None
    return figures


def _levels(tally: Tally, limits: Limits) -> list[dict[str, Any]]:
    """Each planned rate with what became of it; an answer counts in its time while it came before
    the limit past the end of the stretch that it was planned in."""
    ends: list[int] = []
    for _, stretch in groupby(enumerate(tally.rates), key=lambda one: one[1]):
        seconds = [second for second, _ in stretch]
        ends += [seconds[-1] + 1] * len(seconds)
    grace_us = limits.p95_ms * 1000
    waits: dict[int, list[int]] = {rate: [] for rate in tally.rates}
    good, in_time = Counter[int](), Counter[int]()
    for due, ended, ok in zip(tally.due, tally.ended, tally.ok, strict=True):
        second = min(due // MICROSECONDS, len(tally.rates) - 1)
        rate = tally.rates[second]
        waits[rate].append(ended - due)
        good[rate] += ok
        in_time[rate] += ok and ended <= ends[second] * MICROSECONDS + grace_us
    lasted = Counter(tally.rates)
    levels = []
    for rate in sorted(lasted):
        achieved = in_time[rate] / lasted[rate]
        p95 = percentile_ms(waits[rate], 0.95)
        holds = achieved >= KEPT_SHARE * rate and p95 is not None and p95 <= limits.p95_ms
        levels.append(
            {
                "rate": rate,
                "seconds": lasted[rate],
                "achieved": round(achieved, 2),
                "p95_ms": p95,
                "success": round(100 * good[rate] / len(waits[rate]), 4) if waits[rate] else 0.0,
                "holds": holds,
            }
        )
    return levels


def _errors(tally: Tally) -> list[dict[str, Any]]:
    first = {fault["outcome"]: fault for fault in reversed(tally.faults)}
    return [
        {
            "outcome": outcome,
            "side": side_of(outcome),
            "count": count,
            "first_second": first.get(outcome, {}).get("second"),
            "first_body": str(first.get(outcome, {}).get("body", "")),
        }
        for outcome, count in tally.outcomes.most_common()
        if outcome != OK
    ]


def _seconds(tally: Tally) -> list[dict[str, Any]]:
    """Latencies by the second in which requests were due, `answered` by that of the answer."""
    count = len(tally.rates)
    waits: list[list[int]] = [[] for _ in range(count)]
    failed, answered = [0] * count, [0] * count
    for due, ended, ok in zip(tally.due, tally.ended, tally.ok, strict=True):
        second = min(due // MICROSECONDS, count - 1)
        waits[second].append(ended - due)
        failed[second] += not ok
        if ended < count * MICROSECONDS:
            answered[ended // MICROSECONDS] += 1
    return [
        {
            "second": second,
            "planned": rate,
            "answered": answered[second],
            "failed": failed[second],
            "p50_ms": percentile_ms(waits[second], 0.5),
            "p95_ms": percentile_ms(waits[second], 0.95),
            "p99_ms": percentile_ms(waits[second], 0.99),
        }
        for second, rate in enumerate(tally.rates)
    ]
