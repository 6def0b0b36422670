"""What `/metrics` tells of endpoints, objectives, nodes and GPUs, by Prometheus' conventions.

Base units and names as https://prometheus.io/docs/practices/naming/ has them: seconds, bytes,
ratios from 0 to 1, hertz; `_total` for what only grows. Labels are environment, model, version,
objective, node and gpu alone: each has few values.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from deployments.rules.fleet.catalogue import OF_GPUS, OF_TRITON, SERIES
from deployments.rules.fleet.hosts import SERIES as OF_HOSTS
from deployments.rules.fleet.triton_numbers import QUANTILES
from deployments.rules.fleet.triton_numbers import SERIES as OF_VERSIONS

ENDPOINT: Final = ("environment", "model")
VERSION: Final = (*ENDPOINT, "version")
OBJECTIVE: Final = (*ENDPOINT, "objective")
NODE: Final = ("node",)
GPU: Final = ("node", "gpu")
PLACED: Final = ("node", *VERSION)
LATENCY: Final = "covenant_endpoint_latency_seconds"


@dataclass(slots=True)
class Family:
    """One metric: samples are (suffix, values of the labels, further labels, value)."""

    name: str
    kind: str
    help: str
    labels: tuple[str, ...]
    samples: list[tuple[str, tuple[str, ...], dict[str, str], float]] = field(default_factory=list)

    def add(self, labels: tuple[str, ...], value: float, suffix: str = "", **more: str) -> None:
        """One sample more."""
        self.samples.append((suffix, labels, more, value))


COUNTED: Final = (
    (
        "covenant_endpoint_requests",
        "counter",
        "Requests by whose fault their answer was; version 0 is the gateway itself.",
        (*VERSION, "meaning"),
    ),
    (
        LATENCY,
        "histogram",
        "Durations at the gateway; a bound that came later counts since then.",
        VERSION,
    ),
    ("covenant_version_traffic_ratio", "gauge", "Share of the traffic that is wanted.", VERSION),
    ("covenant_objective_target_ratio", "gauge", "The objective.", OBJECTIVE),
    (
        "covenant_objective_threshold_seconds",
        "gauge",
        "Duration within which an answer is good, for objectives of latency.",
        OBJECTIVE,
    ),
    (
        "covenant_endpoint_budget_remaining_ratio",
        "gauge",
        "Error budget left of the worst objective; below 0 it is overspent.",
        ENDPOINT,
    ),
    (
        "covenant_endpoint_maintenance",
        "gauge",
        "1 while maintenance is under way that all three seats agreed to.",
        ENDPOINT,
    ),
    (
        "covenant_alerts_firing",
        "gauge",
        "Alerts that fire and nobody has silenced.",
        (*ENDPOINT, "severity"),
    ),
    ("covenant_incidents_open", "gauge", "Incidents that are not resolved.", ENDPOINT),
    ("covenant_node_up", "gauge", "1 while a node is reached.", NODE),
    (
        "covenant_node_last_seen_timestamp_seconds",
        "gauge",
        "When a node was last reached.",
        NODE,
    ),
    (
        "covenant_collector_booked_timestamp_seconds",
        "gauge",
        "When what a source counted was last booked.",
        ("source",),
    ),
)
"""Metrics beside those of series: name (without `_total`), kind, help, labels."""

TELEMETRY: Final = {
    "feature_drift_score": "Greatest distance of a feature from what the version was trained on.",
    "model_output_entropy": "How undecided the model's answers are, 0 to 1.",
}
"""Series of models that are told of, each as a whole."""

_UNITS: Final = (
    ("_percent", "_ratio", 0.01),
    ("_ms", "_seconds", 0.001),
    ("_mhz", "_hertz", 1e6),
    ("_per_minute", "_per_second", 1 / 60),
)
_QUANTILE: Final = re.compile(r"(queue|compute)_(p\d+)_ms\Z")


@dataclass(frozen=True, slots=True)
class Exported:
    """How a series appears: the metric's name, a factor to the base unit, further labels."""

    name: str
    factor: float = 1.0
    labels: tuple[tuple[str, str], ...] = ()


def exported(series: str) -> Exported | None:
    """How a measured series appears; None for one that is not told of.

    >>> exported("gpu_sm_clock_mhz")
    Exported(name='covenant_gpu_sm_clock_hertz', factor=1000000.0, labels=())
    """
    if series in TELEMETRY:
        return Exported(f"covenant_model_{series.removeprefix('model_')}")
    if series not in SERIES:
        return None
    of_version = series in _OF_VERSIONS
    if match := _QUANTILE.match(series):
        quantile = next(q for q, word in QUANTILES.items() if word == match[2])
        return Exported(
            f"covenant_version_{match[1]}_seconds", 0.001, (("quantile", f"{quantile:g}"),)
        )
    prefix = "covenant_version_" if of_version else "covenant_"
    if series.startswith("triton_"):
        prefix = "covenant_node_"
    for ending, base, factor in _UNITS:
        if series.endswith(ending):
            return Exported(prefix + series.removesuffix(ending) + base, factor)
    return Exported(prefix + series)


_HELP: Final = {
    "covenant_version_queue_seconds": "Time in Triton's queue over the last minute, by quantile.",
    "covenant_version_compute_seconds": "Execution time over the last minute, by quantile.",
}
_OF_VERSIONS: Final = frozenset(one.series for one in OF_VERSIONS)


def families() -> dict[str, Family]:
    """Every metric by its name, without samples: what dashboards and rules may ask for."""
    found = {name: Family(name, kind, text, labels) for name, kind, text, labels in COUNTED}
    for series, labels in (
        *((one, GPU) for one in OF_GPUS),
        *((one, NODE) for one in (*OF_HOSTS, *OF_TRITON)),
        *((one, PLACED) for one in OF_VERSIONS),
    ):
        if (known := exported(series.series)) is not None:
            text = _HELP.get(known.name, f"{series.title}.")
            found.setdefault(known.name, Family(known.name, "gauge", text, labels))
    for name, text in TELEMETRY.items():
        if (known := exported(name)) is not None:
            found[known.name] = Family(known.name, "gauge", text, VERSION)
    return found
