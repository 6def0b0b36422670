"""What to change in a version's batching, out of what it did: in numbers, with the expected effect.

Terms. *Efficiency* is inferences in one execution. *Load* is requests at the node at once, by
Little's law: rate × (queue + compute). *Use* is the share of the instances' time that they compute:
executions per second × compute ÷ instances. Triton adds each request's share of a batch to its
totals, so that the mean compute of a request is the time of the execution that it was in.

What a queue delay of d seconds gathers, with requests that come one by one at rate λ, is 1 + λd
requests; each waits d at most and d ÷ 2 on average.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Literal

Verdict = Literal["good", "unknown", "warn", "bad"]

FEWEST_REQUESTS: Final = 200
"""Below so many requests a mean says too little."""

CONCURRENT: Final = 2.0
"""So many requests at the node at once could share an execution."""

SINGLE: Final = 1.5
"""Requests in an execution up to which batching does hardly anything."""

BUSY: Final = 0.8
"""A share of the instances' time above which queues grow quickly (M/M/1: 1 ÷ (1 - use))."""

IDLE: Final = 0.1
FULL: Final = 0.9
DELAY_SHARE: Final = 0.6
"""Of an execution's time: the bound for a queue delay (see models_registry.rules.tuning)."""

LONGEST_DELAY_US: Final = 100_000
USELESS: Final = 0.2
"""Requests that arrive within the queue delay, below which each waits for nobody."""


@dataclass(frozen=True, slots=True)
class BatchingFacts:
    """A version's settings and what was counted; times in milliseconds, rates per second.

    `max_batch_size` 0 is not batched. `rows` are rows in a request on average. `latency_limit_ms`
    is the strictest latency that is promised, `p95_ms` what was measured; None where not known.
    """

    max_batch_size: int
    queue_delay_us: int
    preferred: tuple[int, ...]
    instances: int
    seconds: float
    requests: int
    inferences: int
    executions: int
    queue_ms: float
    compute_ms: float
    batch_axis: bool = True
    p95_ms: float | None = None
    latency_limit_ms: float | None = None

    @property
    def rate(self) -> float:
        """Requests per second."""
        return self.requests / self.seconds if self.seconds else 0.0

    @property
    def rows(self) -> float:
        """Rows in a request."""
        return self.inferences / self.requests if self.requests else 1.0

    @property
    def efficiency(self) -> float:
        """Rows in an execution."""
        return self.inferences / self.executions if self.executions else 0.0

    @property
    def together(self) -> float:
        """Requests in an execution."""
        return self.requests / self.executions if self.executions else 0.0

    @property
    def load(self) -> float:
        """Requests at the node at once (Little's law)."""
        return self.rate * (self.queue_ms + self.compute_ms) / 1000

    @property
    def use(self) -> float:
        """The share of the instances' time that they compute."""
        if not self.seconds or not self.instances:
            return 0.0
        return self.executions / self.seconds * self.compute_ms / 1000 / self.instances

    @property
    def arrivals_in_delay(self) -> float:
        """Requests that come while another one waits out the queue delay."""
        return self.rate * self.queue_delay_us / 1e6


@dataclass(frozen=True, slots=True)
class Advice:
    """One thing to change (`setting` from `now` to `wanted`), and why, in numbers (`data`)."""

    code: str
    verdict: Verdict
    setting: str = ""
    now: str = ""
    wanted: str = ""
    data: dict[str, Any] = field(default_factory=dict)


def advise(facts: BatchingFacts) -> list[Advice]:
    """What to change, the most useful first; one "nothing" where all is well.

    Settings are changed with a new version's tuning: each names the field of it.
    """
    if facts.requests < FEWEST_REQUESTS or not facts.executions:
        needed = {"requests": facts.requests, "needed": FEWEST_REQUESTS}
        return [Advice("too_few", "unknown", data=needed)]
    found = [
        *_capacity(facts),
        *(_batched(facts) if facts.max_batch_size else _unbatched(facts)),
        *_idle(facts),
    ]
    return found or [Advice("fits", "good", data=_numbers(facts))]


def delay_for(facts: BatchingFacts, wanted: float) -> int:
    """The queue delay in µs that gathers `wanted` requests, within what latency can bear."""
    needed = (wanted - 1) / facts.rate * 1e6 if facts.rate else 0.0
    bearable = DELAY_SHARE * facts.compute_ms * 1000
    if facts.latency_limit_ms is not None and facts.p95_ms is not None:
        # Half of the room: the rest stays for a day that is busier than this one.
        room = max(0.0, facts.latency_limit_ms - facts.p95_ms) * 1000 / 2
        bearable = min(max(bearable, 100.0), room) if room else 0.0
    return int(min(needed, bearable, LONGEST_DELAY_US))


def _capacity(facts: BatchingFacts) -> Iterator[Advice]:
    waits = facts.queue_ms > max(facts.compute_ms, facts.queue_delay_us / 1000)
    if facts.use < BUSY or not waits:
        return
    more = facts.instances + 1
    while facts.use * facts.instances / more > BUSY - 0.1 and more < 4 * facts.instances:
        more += 1
    after = facts.use * facts.instances / more
    data = {**_numbers(facts), "use": _percent(facts.use), "after": _percent(after)}
    full = facts.max_batch_size and facts.efficiency >= FULL * facts.max_batch_size
    if full:
        wanted = 2 * facts.max_batch_size
        yield Advice(
            "batch_full",
            "bad",
            "max_batch_size",
            str(facts.max_batch_size),
            str(wanted),
            data,
        )
    yield Advice("instances_busy", "bad", "instance_count", str(facts.instances), str(more), data)


def _batched(facts: BatchingFacts) -> Iterator[Advice]:
    if facts.load >= CONCURRENT and facts.together < SINGLE:
        yield from _ineffective(facts)
    elif facts.queue_delay_us and facts.arrivals_in_delay < USELESS:
        delay_ms = facts.queue_delay_us / 1000
        wait = {**_numbers(facts), "arrivals": round(facts.arrivals_in_delay, 2), "saved": delay_ms}
        if facts.together < SINGLE and delay_ms > 0.05 * max(facts.compute_ms, 0.001):
            yield Advice(
                "delay_useless", "warn", "queue_delay_us", str(facts.queue_delay_us), "0", wait
            )
    reachable = max(facts.load, 1 + facts.arrivals_in_delay) * facts.rows
    unreachable = [size for size in facts.preferred if size > max(reachable, 1.0) * 1.5]
    if unreachable and len(unreachable) == len(facts.preferred) and facts.queue_delay_us:
        data = {**_numbers(facts), "size": min(unreachable), "reachable": round(reachable, 1)}
        now = ", ".join(str(size) for size in facts.preferred)
        yield Advice("preferred_unreachable", "warn", "preferred_batch_sizes", now, "—", data)


def _ineffective(facts: BatchingFacts) -> Iterator[Advice]:
    """Requests come at once and are executed one by one."""
    most = facts.max_batch_size / max(facts.rows, 1.0)
    target = min(facts.load, most)
    data = {**_numbers(facts), "most": facts.max_batch_size}
    if most < SINGLE:
        wanted = max(2 * facts.max_batch_size, int(facts.load * facts.rows) + 1)
        now = str(facts.max_batch_size)
        yield Advice("batch_small", "warn", "max_batch_size", now, str(wanted), data)
        return
    delay = delay_for(facts, target)
    if delay <= facts.queue_delay_us:
        # The delay is long enough: it is the instances that take each request at once.
        if facts.instances > 1:
            fewer = max(1, facts.instances // 2)
            now = str(facts.instances)
            yield Advice("instances_split", "warn", "instance_count", now, str(fewer), data)
        return
    gathered = min(1 + facts.rate * delay / 1e6, most)
    executions = facts.rate / gathered
    effect = {
        **data,
        "gathered": round(gathered, 1),
        "added": round(delay / 2000, 2),
        "executions": round(executions, 1),
    }
    yield Advice(
        "batching_ineffective",
        "bad",
        "queue_delay_us",
        str(facts.queue_delay_us),
        str(delay),
        effect,
    )


def _unbatched(facts: BatchingFacts) -> Iterator[Advice]:
    if facts.load < CONCURRENT:
        return
    data = {**_numbers(facts), "could": round(facts.load, 1)}
    if not facts.batch_axis:
        yield Advice("no_batch_axis", "warn", data=data)
        return
    wanted = 1
    while wanted < facts.load * facts.rows and wanted < 64:
        wanted *= 2
    yield Advice("not_batched", "warn", "max_batch_size", "0", str(wanted), data)


def _idle(facts: BatchingFacts) -> Iterator[Advice]:
    if facts.instances > 1 and facts.use < IDLE and facts.load < 1:
        data = {**_numbers(facts), "use": _percent(facts.use)}
        yield Advice("instances_idle", "warn", "instance_count", str(facts.instances), "1", data)


def _numbers(facts: BatchingFacts) -> dict[str, Any]:
    return {
        "rate": round(facts.rate, 1),
        "efficiency": round(facts.efficiency, 2),
        "together": round(facts.together, 2),
        "load": round(facts.load, 1),
        "use": _percent(facts.use),
        "queue_ms": round(facts.queue_ms, 2),
        "compute_ms": round(facts.compute_ms, 2),
    }


def _percent(share: float) -> int:
    return round(100 * share)
