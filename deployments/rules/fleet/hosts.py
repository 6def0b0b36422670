"""What was read of a machine, and the values of our series that follow from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from deployments.rules.fleet.machine_series import MachineSeries
from models_registry.rules.contract_terms import gettext_noop as _

SERIES: Final = (
    MachineSeries("host_cpu_percent", "%", _("CPU"), warn=85, bad=97),
    MachineSeries("host_load_per_core", "", _("Load per core"), warn=1.5, bad=4),
    MachineSeries("host_memory_used_percent", "%", _("Memory"), warn=88, bad=96),
    MachineSeries("host_memory_available_bytes", "bytes", _("Memory available")),
    MachineSeries("host_disk_used_percent", "%", _("Disk of the models"), warn=85, bad=95),
    MachineSeries("host_disk_free_bytes", "bytes", _("Disk free")),
    MachineSeries("host_network_received_bytes_per_second", "B/s", _("Network received")),
    MachineSeries("host_network_sent_bytes_per_second", "B/s", _("Network sent")),
)


@dataclass(frozen=True, slots=True)
class Host:
    """One reading of a machine; what its source does not tell is None.

    `cpu_busy_s` and `cpu_total_s` are seconds of all cores since boot, network counts bytes since
    boot without the loopback; the disk is the one where the models lie.
    """

    cores: int = 0
    load_1m: float | None = None
    cpu_busy_s: float | None = None
    cpu_total_s: float | None = None
    memory_total: float | None = None
    memory_available: float | None = None
    disk_total: float | None = None
    disk_free: float | None = None
    received: float | None = None
    sent: float | None = None


def values_of(host: Host, before: Host | None, seconds: float) -> dict[str, float]:
    """The values of our series; what is not known is missing, never zero.

    `before` is the reading `seconds` ago. Counters that fell began anew with the machine.
    """
    values: dict[str, float] = {}
    if host.load_1m is not None and host.cores:
        values["host_load_per_core"] = host.load_1m / host.cores
    if host.memory_total and host.memory_available is not None:
        values["host_memory_available_bytes"] = host.memory_available
        values["host_memory_used_percent"] = _used(host.memory_available, host.memory_total)
    if host.disk_total and host.disk_free is not None:
        values["host_disk_free_bytes"] = host.disk_free
        values["host_disk_used_percent"] = _used(host.disk_free, host.disk_total)
    if before is None or seconds <= 0:
        return values
    busy, total = (
        _grown(host.cpu_busy_s, before.cpu_busy_s),
        _grown(host.cpu_total_s, before.cpu_total_s),
    )
    if busy is not None and total:
        values["host_cpu_percent"] = min(busy / total * 100, 100.0)
    for way in ("received", "sent"):
        if (grown := _grown(getattr(host, way), getattr(before, way))) is not None:
            values[f"host_network_{way}_bytes_per_second"] = grown / seconds
    return values


def _used(free: float, total: float) -> float:
    return (1 - free / total) * 100


def _grown(now: float | None, before: float | None) -> float | None:
    """How far a counter grew; None where it began anew or is not known."""
    if now is None or before is None or now < before:
        return None
    return now - before
