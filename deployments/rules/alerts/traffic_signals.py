"""Counts of requests as the signals that rules compare."""

from __future__ import annotations

from collections.abc import Mapping

from deployments.rules.alerts.catalogue import Reading, Signal
from deployments.rules.alerts.traffic_memory import Counts

GATEWAY_ITSELF = 0


def readings_of_endpoint(
    signal: Signal,
    versions: Mapping[int, Counts],
    *,
    each: str,
    seconds: float,
    min_requests: int,
    bounds: tuple[float, ...],
) -> dict[int, Reading]:
    """Version → reading; 0 is the endpoint as a whole. Too few requests have none.

    As a whole counts what callers noticed; of a version also what another answered in its place.
    """
    if each == "version":
        wanted = {number: one for number, one in versions.items() if number != GATEWAY_ITSELF}
    else:
        wanted = {0: sum(versions.values(), Counts())} if versions else {}
    found = {}
    for number, counts in wanted.items():
        faults = counts.provider_faults + (counts.rescued if each == "version" else 0)
        reading = _reading(signal, counts, faults, seconds, min_requests, bounds)
        if reading is not None:
            found[number] = reading
    return found


def _reading(
    signal: Signal,
    counts: Counts,
    faults: int,
    seconds: float,
    min_requests: int,
    bounds: tuple[float, ...],
) -> Reading | None:
    """Success is good ÷ valid: a caller's own fault is no valid request."""
    if signal.key == "requests_per_second":
        return Reading(counts.requests / seconds, facts={"requests": counts.requests})
    valid = max(counts.requests - counts.caller_faults, 0)
    asked = counts.requests if signal.key == "caller_fault_percent" else valid
    if asked < max(min_requests, 1):
        return None
    facts: dict[str, float | str] = {"requests": counts.requests, "valid": valid}
    match signal.key:
        case "success_rate_percent":
            return Reading(100 * (1 - faults / valid), facts={**facts, "faults": faults})
        case "error_rate_percent":
            return Reading(100 * faults / valid, facts={**facts, "faults": faults})
        case "caller_fault_percent":
            return Reading(100 * counts.caller_faults / counts.requests, facts=facts)
    if signal.quantile is None:
        return None
    value = counts.quantile(signal.quantile, bounds)
    return None if value is None else Reading(value, facts=facts)
