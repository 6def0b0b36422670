"""When an endpoint leaves its version by itself, how far it goes, and how carefully it returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from console.errors import FieldError, Invalid


@dataclass(frozen=True, slots=True)
class RollbackPolicy:
    """What people decide; times in seconds, shares in percent.

    A version is unhealthy when, over `window_s`, at least `min_requests` came and
    `fault_percent` of them failed by the provider's fault, or their P99 was above `p99_ms`, or
    when no node has had it for `no_node_s`. `highest_level` is how far it goes by itself. A level
    is held for `hold_s`, doubled with each return that failed, up to `longest_hold_s`; the return
    takes the shares of `probes_percent`, each for `probe_s` with at least `probe_requests`. No
    more than `moves_per_hour` changes of level: then it stays, and a person is called.
    """

    window_s: int = 10
    min_requests: int = 20
    fault_percent: float = 50.0
    p99_ms: float | None = None
    no_node_s: int = 5
    highest_level: int = 3
    redeploy: bool = True
    hold_s: int = 30
    longest_hold_s: int = 900
    probes_percent: tuple[float, ...] = (1.0, 10.0, 50.0, 100.0)
    probe_s: int = 20
    probe_requests: int = 5
    moves_per_hour: int = 10


# Whole numbers and their bounds; the others have checks of their own.
WHOLE_NUMBERS: Mapping[str, tuple[int, int]] = {
    "window_s": (3, 300),
    "min_requests": (1, 1_000_000),
    "no_node_s": (1, 600),
    "highest_level": (1, 3),
    "hold_s": (5, 86_400),
    "longest_hold_s": (5, 86_400),
    "probe_s": (2, 86_400),
    "probe_requests": (0, 1_000_000),
    "moves_per_hour": (4, 60),
}
MOST_PROBES = 10


def parse_policy(document: object) -> RollbackPolicy:
    """A policy as callers write it; what is left out has its default.

    Raises Invalid with a pointer for each fault, also for a field that there is none of.
    """
    if not isinstance(document, Mapping):
        raise Invalid("A rollback policy is a JSON object.", code="invalid_policy")
    faults: list[FieldError] = []
    read: dict[str, Any] = {}
    for name, value in document.items():
        try:
            read[str(name)] = _value(str(name), value)
        except ValueError as fault:
            faults.append(FieldError(f"/{name}", str(fault)))
    if not faults:
        policy = RollbackPolicy(**read)
        if policy.longest_hold_s < policy.hold_s:
            faults.append(FieldError("/longest_hold_s", "At least as long as hold_s."))
        if policy.hold_s < policy.window_s:
            faults.append(
                FieldError("/hold_s", "At least as long as window_s, or old faults count again.")
            )
    if faults:
        raise Invalid(
            "The rollback policy cannot be read.", code="invalid_policy", errors=tuple(faults)
        )
    return policy


def policy_json(policy: RollbackPolicy) -> dict[str, Any]:
    """The policy as it is stored and answered, every field said."""
    return {**asdict(policy), "probes_percent": list(policy.probes_percent)}


def _value(name: str, value: object) -> object:
    if name in WHOLE_NUMBERS:
        low, high = WHOLE_NUMBERS[name]
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise ValueError(f"A whole number from {low} to {high}.")
        return value
    match name:
        case "fault_percent":
            return _number(value, above=0, most=100)
        case "p99_ms":
            return None if value is None else _number(value, above=0, most=600_000)
        case "redeploy":
            if not isinstance(value, bool):
                raise ValueError("true or false.")
            return value
        case "probes_percent":
            return _probes(value)
    known = ", ".join(field.name for field in fields(RollbackPolicy))
    raise ValueError(f"There is no such field. There are: {known}.")


def _number(value: object, *, above: float, most: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not above < value <= most:
        raise ValueError(f"A number above {above} and at most {most}.")
    return float(value)


def _probes(value: object) -> tuple[float, ...]:
    if not isinstance(value, list | tuple) or not 0 < len(value) <= MOST_PROBES:
        raise ValueError(f"A list of 1 to {MOST_PROBES} shares in percent.")
    shares = tuple(_number(share, above=0, most=100) for share in value)
    if list(shares) != sorted(set(shares)) or shares[-1] != 100:
        raise ValueError("Rising shares in percent, with 100 as the last.")
    if any(abs(share * 100 - round(share * 100)) > 1e-9 for share in shares):
        raise ValueError("Shares have at most two decimals.")
    return shares
