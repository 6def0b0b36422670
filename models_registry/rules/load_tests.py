"""Load tests: what may be asked for, how the load goes over time, and what a gate asks of one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from console.errors import FieldError, Invalid

PATTERNS = ("pulse", "step", "mixed")
MIN_SECONDS, MAX_SECONDS = 5, 300
MIN_RATE = 1
# Below it a 95th percentile rests on fewer than five requests.
MIN_REQUESTS = 100

STEPS = 5
PULSE_EVERY_S, PULSE_S = 8, 2
BURST_EVERY_S = 5


@dataclass(frozen=True, slots=True)
class Limits:
    """What a load test has to keep: 95 % of the answers within `p95_ms`, `success` per cent."""

    p95_ms: float = 50.0
    success: float = 100.0

    def kept_by(self, p95_ms: float | None, success: float) -> bool:
        """The verdict: both hold; without any answer nothing holds."""
        return p95_ms is not None and p95_ms <= self.p95_ms and success >= self.success


@dataclass(frozen=True, slots=True)
class GateRun:
    """A finished load test as a gate sees it; `onnx` and `config` are the digests it ran with."""

    id: str
    environment: str
    production: bool
    rate: int
    requests: int
    p95_ms: float | None
    success: float
    onnx: str
    config: str
    ended_at: datetime


@dataclass(frozen=True, slots=True)
class Gate:
    """Whether a release has the load test that its environment asks for, in words.

    `run` is the load test that satisfies it, `why_not` why the newest one does not. Without
    `required` nothing is asked.
    """

    required: bool
    run: GateRun | None
    sentence: str
    hint: str = ""
    why_not: str = ""

    @property
    def open(self) -> bool:
        """Whether the release may pass."""
        return not self.required or self.run is not None


def check_request(pattern: str, rate: int, seconds: int, *, max_rate: int) -> None:
    """Raise Invalid (`bad_load_test`), a fault for each field, unless the test is within bounds."""
    faults = []
    if pattern not in PATTERNS:
        faults.append(FieldError("/pattern", f"is not one of {', '.join(PATTERNS)}"))
    if not MIN_RATE <= rate <= max_rate:
        faults.append(FieldError("/rate", f"is not between {MIN_RATE} and {max_rate} a second"))
    if not MIN_SECONDS <= seconds <= MAX_SECONDS:
        faults.append(
            FieldError("/seconds", f"is not between {MIN_SECONDS} and {MAX_SECONDS} seconds")
        )
    if not faults:
        planned = sum(profile(pattern, rate, seconds))
        if planned < MIN_REQUESTS:
            detail = (
                f"gives {planned} requests in {seconds} s, and fewer than {MIN_REQUESTS} say "
                "nothing about a percentile"
            )
            faults.append(FieldError("/rate", detail))
    if faults:
        raise Invalid(
            "The load test is not within the bounds: "
            + "; ".join(f"{fault.pointer.strip('/')} {fault.detail}" for fault in faults)
            + ".",
            code="bad_load_test",
            hint=f"For example the pattern step, at most {min(40, max_rate)}/s, for 15 seconds.",
            errors=tuple(faults),
        )


def profile(pattern: str, rate: int, seconds: int) -> list[int]:
    """Requests to send in each second, 1 to `rate`; the highest is reached at least once.

    `step` climbs to the peak in up to five equal steps. `pulse` keeps a quarter of it and rises to
    the peak for two seconds of every eight. `mixed` keeps three fifths and touches the peak for one
    second of every five.
    """
    if pattern == "step":
        steps = min(STEPS, seconds, rate)
        return [_share(rate, second * steps // seconds + 1, steps) for second in range(seconds)]
    if pattern == "pulse":
        base, every, burst = _share(rate, 1, 4), PULSE_EVERY_S, PULSE_S
    else:
        base, every, burst = _share(rate, 3, 5), BURST_EVERY_S, 1
    # A burst stands at the end of its period, so that the test begins quietly.
    every = min(every, seconds)
    return [rate if second % every >= every - burst else base for second in range(seconds)]


def limits_for(own: Limits, gates: Iterable[Limits]) -> Limits:
    """What a test is measured against: the strictest of the gates that may ask for it.

    Where no environment asks for a load test, the tested environment's own limits hold.
    """
    asked = tuple(gates) or (own,)
    return Limits(min(one.p95_ms for one in asked), max(one.success for one in asked))


def gate(
    *,
    version: str,
    environment: str,
    required: bool,
    limits: Limits,
    onnx: str,
    config: str,
    runs: Sequence[GateRun],
) -> Gate:
    """Whether a release of `version` to `environment` has the load test that is asked for.

    One counts when it ran with exactly these bytes, in another environment that is not a
    production one, and kept this environment's limits. The newest that counts is named.
    """
    if not required:
        return Gate(False, None, f"{environment} asks for no load test.")
    newest_first = sorted(runs, key=lambda run: run.ended_at, reverse=True)
    asked = (
        f"{environment} asks for a load test of {version} in another environment, with "
        f"p95 ≤ {limits.p95_ms:g} ms and {limits.success:g} % success"
    )
    why: list[str] = []
    for run in newest_first:
        fault = _fault(run, environment, limits, onnx, config)
        if not fault:
            return Gate(
                True,
                run,
                f"{asked}. It is there: {run.requests} requests at up to {run.rate}/s in "
                f"{run.environment}, p95 {run.p95_ms:.1f} ms, {run.success:g} % success.",
            )
        why.append(fault)
    last = f"The newest one does not count: {why[0]}." if why else "There is none yet."
    return Gate(
        True,
        None,
        f"{asked}. {last}",
        "Release and deploy the version to an environment such as staging, then start a load test "
        "there: on the version's page under “Load tests”, or by `covenant load-test`.",
        last,
    )


def _fault(run: GateRun, environment: str, limits: Limits, onnx: str, config: str) -> str:
    if (run.onnx, run.config) != (onnx, config):
        return "it ran with other files"
    if run.environment == environment or run.production:
        return f"it ran in {run.environment}, and what customers rely on is no place to find out"
    if not limits.kept_by(run.p95_ms, run.success):
        p95 = "no answer came" if run.p95_ms is None else f"p95 was {run.p95_ms:.1f} ms"
        return f"{p95} and {run.success:g} % succeeded"
    return ""


def _share(rate: int, part: int, of: int) -> int:
    return max(MIN_RATE, min(rate, -(-rate * part // of)))
