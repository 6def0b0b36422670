"""What was last measured on a node's machine, as its page and the API show it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from deployments.adapters import machine_store
from deployments.rules.fleet import gpus
from deployments.rules.fleet.catalogue import SERIES
from deployments.rules.fleet.machine_series import Level, MachineSeries, level_of

_WORST_FIRST = (Level.BAD, Level.WARN)


@dataclass(frozen=True, slots=True)
class Figure:
    """One value and what it says by its limits."""

    about: MachineSeries
    value: float
    level: Level


@dataclass(frozen=True, slots=True)
class GpuNow:
    """A GPU's newest values; `reasons` say why its clocks are lower than they could be."""

    device: str
    model: str
    uuid: str
    driver: str
    figures: Mapping[str, Figure]
    reasons: tuple[str, ...] = ()

    @property
    def level(self) -> Level:
        """The worst of its figures."""
        here = {one.level for one in self.figures.values()}
        return next((level for level in _WORST_FIRST if level in here), Level.GOOD)


@dataclass(frozen=True, slots=True)
class VersionNow:
    """A version's numbers as this node's Triton tells them, and what people call it."""

    triton_model: str
    version: int
    figures: Mapping[str, Figure]
    served: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MachineNow:
    """Everything that was last read; a source that is "" was not asked, `faults` say who is silent.

    `why_no_gpus` is the driver's own word where this machine was asked for GPUs and has none.
    """

    at: datetime
    gpu_source: str = ""
    host_source: str = ""
    why_no_gpus: str = ""
    cores: int = 0
    faults: Mapping[str, str] = field(default_factory=dict)
    gpus: tuple[GpuNow, ...] = ()
    host: Mapping[str, Figure] = field(default_factory=dict)
    versions: tuple[VersionNow, ...] = ()


Served = Mapping[tuple[str, int], tuple[str, ...]]
"""(Triton model, version) → what it serves: those that the reader may see."""


def machine_now(name: str, *, served: Served) -> MachineNow | None:
    """The newest of a node's machine; None when it was not read within half a minute.

    Of Triton's versions only those in `served` are given. No query.
    """
    facts = machine_store.latest([name]).get(name)
    if facts is None:
        return None
    return MachineNow(
        at=datetime.fromtimestamp(facts["at"], UTC),
        gpu_source=facts["gpu_source"],
        host_source=facts["host_source"],
        why_no_gpus=facts["why_no_gpus"],
        cores=facts.get("cores", 0),
        faults=facts["faults"],
        gpus=tuple(_gpu(one) for one in facts["gpus"]),
        host=figures_of(facts.get("host", {})),
        versions=tuple(
            VersionNow(
                one["model"],
                one["version"],
                figures_of(one["values"]),
                served[(one["model"], one["version"])],
            )
            for one in facts["triton"]["versions"]
            if (one["model"], one["version"]) in served
        ),
    )


def hottest(names: Iterable[str]) -> dict[str, dict[str, Figure]]:
    """Of each node its worst GPU figures and the CPU, for lists: one look at Redis."""
    found = {}
    for name, facts in machine_store.latest(names).items():
        figures = figures_of({key: facts.get("host", {}).get(key) for key in ("host_cpu_percent",)})
        for key in ("gpu_memory_used_percent", "gpu_temperature_celsius"):
            values = [gpu["values"][key] for gpu in facts["gpus"] if key in gpu["values"]]
            figures |= figures_of({key: max(values, default=None)})
        found[name] = figures
    return found


def figures_of(values: Mapping[str, Any]) -> dict[str, Figure]:
    """Values of known series with what they say."""
    return {
        name: Figure(about, float(value), level_of(about, float(value)))
        for name, value in values.items()
        if value is not None and (about := SERIES.get(name)) is not None
    }


def _gpu(one: Mapping[str, Any]) -> GpuNow:
    values = one["values"]
    return GpuNow(
        device=one["device"],
        model=one["model"],
        uuid=one["uuid"],
        driver=one["driver"],
        figures=figures_of(values),
        reasons=tuple(gpus.reasons_of(values.get("gpu_throttle_reasons", 0.0))),
    )
