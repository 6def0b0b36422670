"""The charts of a node's page as data: which series each draws."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from models_registry.rules.contract_terms import gettext_noop as _


class Of(StrEnum):
    """What a chart has a line for."""

    GPU = "gpu"
    HOST = "host"
    VERSION = "version"


@dataclass(frozen=True, slots=True)
class MachineChart:
    """One chart: series → the word for its line (none where the thing's own name is enough).

    Values are divided by `divisor` to be in `unit`. The first series' limit is the line.
    """

    name: str
    title: str
    unit: str
    of: Of
    lines: tuple[tuple[str, str], ...]
    divisor: float = 1.0


def _one(name: str, title: str, unit: str, of: Of, series: str) -> MachineChart:
    return MachineChart(name, title, unit, of, ((series, ""),))


MEGA: Final = 1e6
CHARTS: Final = (
    _one("gpu-memory", _("GPU memory"), "%", Of.GPU, "gpu_memory_used_percent"),
    _one("gpu-utilization", _("GPU utilisation"), "%", Of.GPU, "gpu_utilization_percent"),
    _one("gpu-temperature", _("GPU temperature"), "°C", Of.GPU, "gpu_temperature_celsius"),
    _one("gpu-power", _("GPU power"), "W", Of.GPU, "gpu_power_watts"),
    _one("gpu-clock", _("SM clock"), "MHz", Of.GPU, "gpu_sm_clock_mhz"),
    MachineChart(
        "gpu-throttling",
        _("Slowed down"),
        "%",
        Of.GPU,
        (
            ("gpu_thermal_throttled_percent", _("by heat")),
            ("gpu_power_throttled_percent", _("by power")),
        ),
    ),
    MachineChart(
        "gpu-pcie",
        _("PCIe"),
        "MB/s",
        Of.GPU,
        (
            ("gpu_pcie_sent_bytes_per_second", _("sent")),
            ("gpu_pcie_received_bytes_per_second", _("received")),
        ),
        MEGA,
    ),
    _one("gpu-nvlink", _("NVLink"), "%", Of.GPU, "gpu_nvlink_utilization_percent"),
    _one("host-cpu", _("CPU"), "%", Of.HOST, "host_cpu_percent"),
    _one("host-memory", _("Memory"), "%", Of.HOST, "host_memory_used_percent"),
    _one("host-disk", _("Disk of the models"), "%", Of.HOST, "host_disk_used_percent"),
    MachineChart(
        "host-network",
        _("Network"),
        "MB/s",
        Of.HOST,
        (
            ("host_network_received_bytes_per_second", _("received")),
            ("host_network_sent_bytes_per_second", _("sent")),
        ),
        MEGA,
    ),
    _one("queue", _("Queue P95"), "ms", Of.VERSION, "queue_p95_ms"),
    _one("compute", _("Execution P95"), "ms", Of.VERSION, "compute_p95_ms"),
    _one("batch", _("Batch efficiency"), "", Of.VERSION, "batch_efficiency"),
    _one("requests", _("Requests"), "/s", Of.VERSION, "requests_per_second"),
    _one("cache", _("Cache hits"), "%", Of.VERSION, "cache_hit_percent"),
)
BY_NAME: Final = {chart.name: chart for chart in CHARTS}
