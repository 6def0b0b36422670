"""What a case means: patterns that people on call know, each with the evidence that it rests on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from deployments.rules.causes.board import Case, Contrast, Mover, Steady

HOT_C = 80.0
BUSY_PERCENT = 85.0


@dataclass(frozen=True, slots=True)
class Finding:
    """A conclusion by its code; `version` is the one that it names, 0 for none.

    `evidence` are the moves, the steady signals and the contrasts that speak for it. `advice` is
    the code of what to do next.
    """

    code: str
    advice: str
    evidence: tuple[Mover | Steady | Contrast, ...]
    version: int = 0


def findings(case: Case) -> list[Finding]:
    """What the case means, the most telling first; empty when no pattern fits."""
    look = _Look(case)
    return [one for pattern in _PATTERNS for one in pattern(look)]


@dataclass(frozen=True, slots=True)
class _Look:
    """Asks of a case what moved and what stayed."""

    case: Case

    def moved(self, code: str, *, rose: bool) -> Mover | None:
        for one in self.case.movers:
            if one.signal.kind.code == code and one.move.rose == rose:
                return one
        return None

    def rose(self, code: str) -> Mover | None:
        return self.moved(code, rose=True)

    def fell(self, code: str) -> Mover | None:
        return self.moved(code, rose=False)

    def steady(self, code: str) -> Steady | None:
        """The signal, where it is measured and none of its sort moved."""
        if any(one.signal.kind.code == code for one in self.case.movers):
            return None
        return next((one for one in self.case.steady if one.signal.kind.code == code), None)

    def contrast(self, *codes: str) -> Iterator[Contrast]:
        for one in self.case.contrasts:
            if one.kind.code in codes:
                yield one


def _given(*parts: Mover | Steady | Contrast | None) -> tuple[Mover | Steady | Contrast, ...]:
    return tuple(part for part in parts if part is not None)


def _no_node(look: _Look) -> Iterator[Finding]:
    if gone := look.rose("no_node"):
        yield Finding("no_node", "nodes", _given(gone, look.rose("errors")))


def _version_fails(look: _Look) -> Iterator[Finding]:
    for worse in look.contrast("errors"):
        evidence = _given(worse, look.rose("errors"))
        yield Finding("version_fails", "roll_back", evidence, worse.version)
        return


def _version_slow(look: _Look) -> Iterator[Finding]:
    seen: set[int] = set()
    for worse in look.contrast("compute", "p99"):
        if worse.version not in seen:
            seen.add(worse.version)
            evidence = _given(worse, look.rose("compute"), look.rose("p99"))
            yield Finding("version_slow", "roll_back", evidence, worse.version)


def _batching(look: _Look) -> Iterator[Finding]:
    queue, batch = look.rose("queue"), look.fell("batch")
    if queue and batch:
        evidence = _given(queue, batch, look.steady("compute"), look.steady("gpu_memory"))
        yield Finding("batching_ineffective", "batching", evidence, batch.signal.version)


def _overload(look: _Look) -> Iterator[Finding]:
    more, queue = look.rose("requests"), look.rose("queue")
    if more and queue and not look.fell("batch"):
        evidence = _given(more, queue, look.steady("compute"), look.rose("gpu_utilization"))
        yield Finding("overload", "capacity", evidence)


def _thermal(look: _Look) -> Iterator[Finding]:
    slower = look.fell("gpu_clock")
    hot = look.rose("gpu_temperature") or look.steady("gpu_temperature")
    if slower and hot and (isinstance(hot, Mover) or hot.level >= HOT_C):
        yield Finding("thermal", "cooling", _given(hot, slower, look.rose("compute")))


def _memory(look: _Look) -> Iterator[Finding]:
    if more := look.rose("gpu_memory"):
        yield Finding("memory_grows", "memory", _given(more, look.rose("errors")))


def _transfer(look: _Look) -> Iterator[Finding]:
    link, compute = look.rose("gpu_link"), look.rose("compute")
    if link and compute:
        yield Finding("transfer_bound", "transfer", _given(link, compute))


def _machine(look: _Look) -> Iterator[Finding]:
    cpu = look.rose("host_cpu") or look.steady("host_cpu")
    slow = look.rose("compute") or look.rose("queue") or look.rose("p99")
    if cpu and slow and _percent_of(cpu) >= BUSY_PERCENT:
        yield Finding("machine_busy", "capacity", _given(cpu, slow))


def _percent_of(one: Mover | Steady) -> float:
    return one.move.after if isinstance(one, Mover) else one.level


def _outside(look: _Look) -> Iterator[Finding]:
    slow, queue, compute = look.rose("p99"), look.steady("queue"), look.steady("compute")
    busy = any(True for _ in _machine(look))
    if slow and queue and compute and not busy and not look.rose("timeouts"):
        yield Finding("outside_model", "slow_requests", _given(slow, queue, compute))


def _inputs(look: _Look) -> Iterator[Finding]:
    drift = look.rose("feature_drift_score") or look.rose("model_output_entropy")
    if drift and not look.rose("errors"):
        evidence = _given(drift, look.fell("conversion_rate"), look.steady("p99"))
        yield Finding("inputs_changed", "telemetry", evidence)


def _callers(look: _Look) -> Iterator[Finding]:
    fewer = look.fell("requests")
    if fewer and fewer.move.after <= 0.1 * fewer.move.before and not look.rose("errors"):
        yield Finding("callers_gone", "callers", _given(fewer, look.steady("errors")))


def _refused(look: _Look) -> Iterator[Finding]:
    if faults := look.rose("caller_faults"):
        evidence = _given(faults, look.steady("errors"))
        yield Finding("callers_at_fault", "callers", evidence)


_PATTERNS: tuple[Callable[[_Look], Iterator[Finding]], ...] = (
    _no_node,
    _version_fails,
    _batching,
    _version_slow,
    _overload,
    _thermal,
    _memory,
    _transfer,
    _machine,
    _outside,
    _inputs,
    _callers,
    _refused,
)
"""What explains most comes first."""
