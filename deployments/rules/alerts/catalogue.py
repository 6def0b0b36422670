"""What an alert rule can look at: numbers of requests, measured series, burns, leaks, states."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Source(StrEnum):
    """Where a signal's values come from, and so how fresh they can be."""

    TRAFFIC = "traffic"
    SERIES = "series"
    BURN = "burn"
    LEAK = "leak"
    STATE = "state"


@dataclass(frozen=True, slots=True)
class Signal:
    """One quantity; `sense` says in which direction it is bad ("<" or ">").

    `quantile` is that of a latency. What is counted from requests can be counted for an endpoint
    as a whole or for each version of it.
    """

    key: str
    source: Source
    unit: str
    sense: str
    quantile: float | None = None


@dataclass(frozen=True, slots=True)
class Target:
    """What a value is of: keys of rows; `label` tells alike ones of one thing apart."""

    endpoint: int | None = None
    node: int | None = None
    device: str = ""
    version: int = 0
    label: str = ""


@dataclass(frozen=True, slots=True)
class Reading:
    """A value, the thing's own limit where it has one (a contract's), and what it rests on."""

    value: float
    limit: float | None = None
    facts: Mapping[str, float | str] = field(default_factory=dict)


Readings = Mapping[Target, Reading]

_FIXED = (
    Signal("success_rate_percent", Source.TRAFFIC, "%", "<"),
    Signal("error_rate_percent", Source.TRAFFIC, "%", ">"),
    Signal("caller_fault_percent", Source.TRAFFIC, "%", ">"),
    Signal("latency_p50_ms", Source.TRAFFIC, "ms", ">", 0.5),
    Signal("latency_p95_ms", Source.TRAFFIC, "ms", ">", 0.95),
    Signal("latency_p99_ms", Source.TRAFFIC, "ms", ">", 0.99),
    Signal("requests_per_second", Source.TRAFFIC, "/s", "<"),
    Signal("requests_of_usual_percent", Source.TRAFFIC, "%", "<"),
    Signal("no_data_seconds", Source.TRAFFIC, "s", ">"),
    Signal("fast_burn", Source.BURN, "×", ">="),
    Signal("slow_burn", Source.BURN, "×", ">="),
    Signal("steady_burn", Source.BURN, "×", ">="),
    Signal("gpu_memory_growth_bytes_per_hour", Source.LEAK, "B/h", ">"),
    Signal("node_lost", Source.STATE, "", ">"),
    Signal("artifact_faults", Source.STATE, "", ">"),
    Signal("split_unacknowledged_seconds", Source.STATE, "s", ">"),
    Signal("gateway_away", Source.STATE, "", ">"),
    Signal("certificate_days_left", Source.STATE, "d", "<"),
    Signal("collector_silent_seconds", Source.STATE, "s", ">"),
)
SIGNALS: Mapping[str, Signal] = {one.key: one for one in _FIXED}

BURN_SEVERITIES: Mapping[str, str] = {"fast_burn": "P1", "slow_burn": "P2", "steady_burn": "P3"}
"""Each burn's own signal: the pairs of windows of the SRE Workbook, by how urgent they are."""

SERIES_NAME = re.compile(r"[a-z][a-z0-9_]{1,79}")

_UNITS = (
    ("_celsius", "°C"),
    ("_percent", "%"),
    ("_ratio", ""),
    ("_bytes_per_second", "B/s"),
    ("_bytes", "B"),
    ("_watts", "W"),
    ("_ms", "ms"),
    ("_seconds", "s"),
    ("_mhz", "MHz"),
)


def signal_of(key: str) -> Signal | None:
    """The signal of this name; every other well-formed name is that of a measured series."""
    if key in SIGNALS:
        return SIGNALS[key]
    if not SERIES_NAME.fullmatch(key):
        return None
    return Signal(key, Source.SERIES, unit_of(key), ">")


def unit_of(name: str) -> str:
    """A series' unit as its name ends with it.

    >>> unit_of("gpu_temperature_celsius")
    '°C'
    """
    return next((unit for ending, unit in _UNITS if name.endswith(ending)), "")
