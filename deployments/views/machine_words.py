"""What was measured of a machine, as its pages say it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from django.urls import reverse
from django.utils.translation import gettext, gettext_lazy

from console.templatetags import console_formats as text
from deployments.rules.fleet.catalogue import SERIES
from deployments.rules.fleet.gpu_fields import FIELDS, GpuField, Group
from deployments.rules.fleet.gpus import SHARES, nvlink_speed, reasons_of
from deployments.rules.fleet.hosts import SERIES as OF_HOSTS
from deployments.rules.fleet.machine_charts import CHARTS, Of
from deployments.rules.fleet.machine_series import Level, MachineSeries
from deployments.selectors.fleet.machine_pages import Figure, GpuNow, MachineNow, VersionNow

WINDOWS: Final = ("10m", "1h", "6h", "24h")
LIVE: Final = {"10m": 5, "1h": 30}
GROUPS: Final = {
    Group.LOAD: gettext_lazy("Load"),
    Group.MEMORY: gettext_lazy("GPU memory"),
    Group.HEAT: gettext_lazy("Heat and power"),
    Group.CLOCKS: gettext_lazy("Clocks and throttling"),
    Group.LINKS: gettext_lazy("PCIe and NVLink"),
    Group.ERRORS: gettext_lazy("Errors"),
}
LEVELS: Final[Mapping[Level, dict[str, Any] | None]] = {
    Level.GOOD: None,
    Level.WARN: {"word": gettext_lazy("watch"), "tone": "warn", "icon": "state-warn"},
    Level.BAD: {"word": gettext_lazy("act"), "tone": "bad", "icon": "state-bad"},
}
_FACES: Final = (
    "gpu_utilization_percent",
    "gpu_temperature_celsius",
    "gpu_power_watts",
    "gpu_sm_clock_mhz",
    "gpu_pcie_utilization_percent",
    "gpu_nvlink_utilization_percent",
    "gpu_thermal_throttled_percent",
    "gpu_power_throttled_percent",
)
_VERSION_COLUMNS: Final = (
    "requests_per_second",
    "batch_efficiency",
    "queue_p95_ms",
    "queue_p99_ms",
    "compute_p50_ms",
    "compute_p95_ms",
    "compute_p99_ms",
    "pending_requests",
    "cache_hit_percent",
)


def shown(value: float, unit: str) -> str:
    """A value with its unit, as the reader's language writes it."""
    plain = {
        "%": text.percentage,
        "bytes": text.file_size,
        "ms": text.latency,
        "1/s": text.per_second,
    }.get(unit)
    if plain is not None:
        return str(plain(value))
    if unit == "B/s":
        return f"{text.file_size(value)}/s"
    if unit == "bits":
        return ", ".join(gettext(word) for word in reasons_of(value)) or gettext("none")
    if unit == "J":
        return f"{value / 3.6e6:,.2f} kWh"
    number = f"{value:,.0f}" if abs(value) >= 10 or value == int(value) else f"{value:,.2f}"
    return f"{number}{unit}" if unit.startswith("/") else f"{number} {unit}".strip()


def of_machine(machine: MachineNow | None) -> dict[str, Any] | None:
    """Everything that the page's panels show; None where nobody has looked."""
    if machine is None:
        return None
    # What no card here tells has no column.
    faces = [one for one in _FACES if any(one in gpu.figures for gpu in machine.gpus)]
    return {
        "at": machine.at,
        "faults": sorted(machine.faults.items()),
        "gpus": [_gpu(one, faces) for one in machine.gpus],
        "gpu_columns": [gettext(SERIES[one].title) for one in faces],
        "gpu_source": machine.gpu_source,
        "why_no_gpus": machine.why_no_gpus,
        "host": _lines(machine.host, [one.series for one in OF_HOSTS]),
        "host_source": machine.host_source,
        "cores": machine.cores,
        "versions": [_version(one) for one in machine.versions],
    }


def of_nodes(figures: Mapping[str, Mapping[str, Figure]]) -> dict[str, list[dict[str, Any]]]:
    """A few figures of each node, for the list."""
    order = ("gpu_memory_used_percent", "gpu_temperature_celsius", "host_cpu_percent")
    return {name: _lines(of, order) for name, of in figures.items()}


def charts_of(name: str, window: str, machine: MachineNow | None) -> list[dict[str, Any]]:
    """The charts of a node's page; those of GPUs and versions where it has any."""
    lacks = set()
    if machine is not None:
        lacks |= set() if machine.gpus else {Of.GPU}
        lacks |= set() if machine.versions else {Of.VERSION}
    return [
        {
            "id": chart.name,
            "title": gettext(chart.title),
            "unit": chart.unit,
            "url": f"{reverse('api:node-chart', args=[name, chart.name])}?window={window}",
            "live": LIVE.get(window, 0),
        }
        for chart in CHARTS
        if chart.of not in lacks
    ]


def field_groups() -> list[dict[str, Any]]:
    """The 27 fields by group, with their limits in words."""
    return [
        {
            "title": title,
            "fields": [_field(one) for one in FIELDS if one.group is group],
        }
        for group, title in GROUPS.items()
    ]


def _gpu(gpu: GpuNow, faces: Sequence[str]) -> dict[str, Any]:
    figures = gpu.figures
    share = figures.get("gpu_memory_used_percent")
    used, total = figures.get("gpu_memory_used_bytes"), figures.get("gpu_memory_total_bytes")
    return {
        "device": gpu.device,
        "model": gpu.model,
        "uuid": gpu.uuid,
        "driver": gpu.driver,
        "level": LEVELS[gpu.level],
        "memory": share.value if share else None,
        "memory_tone": _tone(share),
        "memory_words": (
            gettext("%(used)s of %(total)s")
            % {"used": shown(used.value, "bytes"), "total": shown(total.value, "bytes")}
            if used and total
            else ""
        ),
        "faces": [_face(figures, one) for one in faces],
        "reasons": [gettext(word) for word in gpu.reasons],
        "no_nvlink": bool(gpu.model) and not nvlink_speed(gpu.model),
        "groups": _groups(figures),
    }


def _tone(share: Figure | None) -> str:
    level = LEVELS[share.level] if share else None
    return str(level["tone"]) if level else "accent"


def _face(figures: Mapping[str, Figure], series: str) -> dict[str, Any]:
    """A figure of the table; one that the card does not tell has a dash in its place."""
    found = _lines(figures, [series])
    return found[0] if found else {"title": gettext(SERIES[series].title), "shown": "—"}


def _groups(figures: Mapping[str, Figure]) -> list[dict[str, Any]]:
    """All figures of a GPU, by group; a field that nobody tells is left out."""
    found = []
    for group, title in GROUPS.items():
        lines = _lines(figures, [one.series for one in FIELDS if one.group is group])
        if lines:
            found.append({"title": title, "lines": lines})
    if shares := _lines(figures, [one.series for one in SHARES]):
        found.append({"title": gettext("Derived"), "lines": shares})
    return found


def _version(one: VersionNow) -> dict[str, Any]:
    return {
        "triton_model": one.triton_model,
        "version": one.version,
        "served": one.served,
        "cells": [
            {
                "title": title,
                "shown": shown(of.value, of.about.unit) if (of := one.figures.get(series)) else "—",
            }
            for series, title in _columns()
        ],
    }


def _columns() -> list[tuple[str, str]]:
    titles = {
        "requests_per_second": gettext("Requests"),
        "batch_efficiency": gettext("Batch"),
        "cache_hit_percent": gettext("Cache hits"),
        "pending_requests": gettext("Waiting"),
    }
    words = {"queue": gettext("Queue"), "compute": gettext("Execution")}
    found = []
    for series in _VERSION_COLUMNS:
        stage, _line, rest = series.partition("_")
        quantile = rest.removesuffix("_ms").upper()
        found.append((series, titles.get(series) or f"{words[stage]} {quantile}"))
    return found


def _lines(figures: Mapping[str, Figure], order: Sequence[str]) -> list[dict[str, Any]]:
    return [
        {
            "series": series,
            "title": gettext(one.about.title),
            "shown": shown(one.value, one.about.unit),
            "level": LEVELS[one.level],
            "limit": _limit(one.about),
        }
        for series in order
        if (one := figures.get(series)) is not None
    ]


def _limit(about: MachineSeries | GpuField) -> str:
    """From when on somebody should look, and when act; "" without limits."""
    words = gettext("below %(value)s") if about.below else gettext("above %(value)s")
    limits = [
        words % {"value": shown(limit, about.unit)}
        for limit in (about.warn, about.bad)
        if limit is not None
    ]
    return " · ".join(limits)


def _field(one: GpuField) -> dict[str, Any]:
    words = gettext("below %(value)s") if one.below else gettext("above %(value)s")
    values = ", ".join(map(str, sorted(one.bad_values)))
    return {
        "dcgm": one.dcgm,
        "number": one.number,
        "series": one.series,
        "unit": one.unit,
        "title": gettext(one.title),
        "meaning": gettext(one.meaning),
        "why": gettext(one.why),
        "warn": words % {"value": shown(one.warn, one.unit)} if one.warn is not None else "",
        "bad": words % {"value": shown(one.bad, one.unit)} if one.bad is not None else values,
    }
