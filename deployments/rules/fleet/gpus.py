"""What was read of one GPU, and the values of our series that follow from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from deployments.rules.fleet.gpu_fields import BY_DCGM, MIB, Kind
from deployments.rules.fleet.machine_series import MachineSeries
from models_registry.rules.contract_terms import gettext_noop as _

THROTTLE_REASONS: Final = "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS"
SAME_AS: Final = {"DCGM_FI_DEV_CLOCKS_EVENT_REASONS": THROTTLE_REASONS}
"""DCGM 4 calls some fields otherwise than 3."""
EXTRA: Final = frozenset(
    {
        "DCGM_FI_DEV_FB_RESERVED",
        "DCGM_FI_DEV_FB_TOTAL",
        "DCGM_FI_DEV_POWER_MGMT_LIMIT",
        "DCGM_FI_DEV_PCIE_LINK_GEN",
        "DCGM_FI_DEV_PCIE_LINK_WIDTH",
    }
)
"""Fields beside the 27 that make shares of them, where they are exported."""
WANTED: Final = frozenset({*BY_DCGM, *SAME_AS, *EXTRA})

REASONS: Final = {
    0x01: _("idle"),
    0x02: _("set clocks"),
    0x04: _("power limit"),
    0x08: _("hardware slowdown"),
    0x10: _("kept in step with others"),
    0x20: _("heat"),
    0x40: _("heat (hardware)"),
    0x80: _("power brake"),
    0x100: _("display clocks"),
}
"""Bits of the throttle reasons (`DCGM_CLOCKS_THROTTLE_REASON_*`)."""
HARMFUL: Final = 0x04 | 0x08 | 0x20 | 0x40 | 0x80

SHARES: Final = (
    MachineSeries("gpu_memory_total_bytes", "bytes", _("GPU memory")),
    MachineSeries("gpu_memory_used_percent", "%", _("Memory used"), warn=90, bad=97),
    MachineSeries("gpu_power_percent", "%", _("Power of its limit"), warn=97),
    MachineSeries("gpu_slowed_percent", "%", _("Slowed down"), warn=10, bad=50),
    MachineSeries("gpu_nvlink_utilization_percent", "%", _("NVLink utilisation"), warn=80),
    MachineSeries("gpu_pcie_utilization_percent", "%", _("PCIe utilisation"), warn=80),
)
"""Series that are derived from several fields."""

NVLINK_BYTES_PER_SECOND: Final = (
    ("B300", 1800e9),
    ("B200", 1800e9),
    ("GB200", 1800e9),
    ("H200", 900e9),
    ("H100 PCIE", 600e9),
    ("H100 NVL", 600e9),
    ("H100", 900e9),
    ("H800", 400e9),
    ("A100", 600e9),
    ("A800", 400e9),
    ("A40", 112.5e9),
    ("A30", 200e9),
    ("A6000", 112.5e9),
    ("V100", 300e9),
)
"""Speed of all NVLinks of a card, both directions, as data sheets say; the first match counts."""

PCIE_BYTES_PER_SECOND: Final = {1: 0.25e9, 2: 0.5e9, 3: 0.985e9, 4: 1.969e9, 5: 3.938e9, 6: 7.563e9}
"""Payload of one lane in one direction by generation (PCI-SIG: 8b/10b up to 2, 128b/130b then)."""

COUNTED_KIB: Final = {
    "NVML_NVLINK_SENT_KIB": "gpu_nvlink_sent_bytes_per_second",
    "NVML_NVLINK_RECEIVED_KIB": "gpu_nvlink_received_bytes_per_second",
}
"""What NVML counts where DCGM tells a rate; names of our own."""

ZERO_IS_UNKNOWN: Final = frozenset({"DCGM_FI_DEV_MEMORY_TEMP"})


@dataclass(frozen=True, slots=True)
class Gpu:
    """One reading of a GPU (or of a slice of one): raw numbers by DCGM's names, in its units.

    `device` is "GPU-" and the index on its machine, "GPU-0/3" the slice 3 of it.
    """

    device: str
    uuid: str = ""
    model: str = ""
    driver: str = ""
    raw: Mapping[str, float] = field(default_factory=dict)


def values_of(gpu: Gpu, before: Gpu | None, seconds: float) -> dict[str, float]:
    """The values of our series: the fields', and shares of what they use up.

    `before` is the reading `seconds` ago. A counter that fell began anew, and what did not grow in
    a known time has no rate: then the value is missing, never zero.
    """
    raw = {SAME_AS.get(name, name): value for name, value in gpu.raw.items()}
    earlier = {} if before is None or before.uuid != gpu.uuid else before.raw
    values: dict[str, float] = {}
    for name, number in raw.items():
        known = BY_DCGM.get(name)
        if known is None or (name in ZERO_IS_UNKNOWN and not number):
            continue
        if known.kind is Kind.GAUGE:
            values[known.series] = number * known.factor
        elif (rate := _rate(name, number, earlier, seconds)) is not None:
            rate *= known.factor
            values[known.series] = min(rate, 100.0) if known.unit == "%" else rate
    for name, series in COUNTED_KIB.items():
        if name in raw and (rate := _rate(name, raw[name], earlier, seconds)) is not None:
            values[series] = rate * 1024
    return values | _shares(gpu, raw, values)


def _rate(name: str, number: float, earlier: Mapping[str, float], seconds: float) -> float | None:
    """By how much a counter grew in a second; None where that is not known."""
    if name not in earlier or number < earlier[name] or seconds <= 0:
        return None
    return (number - earlier[name]) / seconds


def _shares(gpu: Gpu, raw: Mapping[str, float], values: Mapping[str, float]) -> dict[str, float]:
    """What is derived: memory, power and links as shares, and whether the card is slowed down."""
    shares: dict[str, float] = {}
    used, free = raw.get("DCGM_FI_DEV_FB_USED"), raw.get("DCGM_FI_DEV_FB_FREE")
    total = raw.get("DCGM_FI_DEV_FB_TOTAL")
    if total is None and used is not None and free is not None:
        total = used + free + raw.get("DCGM_FI_DEV_FB_RESERVED", 0.0)
    if used is not None and total:
        shares["gpu_memory_total_bytes"] = total * MIB
        shares["gpu_memory_used_percent"] = used / total * 100
    limit, power = raw.get("DCGM_FI_DEV_POWER_MGMT_LIMIT"), values.get("gpu_power_watts")
    if limit and power is not None:
        shares["gpu_power_percent"] = power / limit * 100
    if (reasons := raw.get(THROTTLE_REASONS)) is not None:
        shares["gpu_slowed_percent"] = 100.0 if int(reasons) & HARMFUL else 0.0
    if (speed := nvlink_speed(gpu.model)) and (bytes_ := _nvlink(values)) is not None:
        shares["gpu_nvlink_utilization_percent"] = bytes_ / speed * 100
    lane = PCIE_BYTES_PER_SECOND.get(int(raw.get("DCGM_FI_DEV_PCIE_LINK_GEN", 0)))
    width = raw.get("DCGM_FI_DEV_PCIE_LINK_WIDTH")
    ways = [values.get(f"gpu_pcie_{way}_bytes_per_second") for way in ("sent", "received")]
    if lane and width and (known := [one for one in ways if one is not None]):
        shares["gpu_pcie_utilization_percent"] = max(known) / (lane * width) * 100
    return shares


def _nvlink(values: Mapping[str, float]) -> float | None:
    """Bytes a second over all links, both directions, from whichever field tells."""
    ways = [values.get(f"gpu_nvlink_{way}_bytes_per_second") for way in ("sent", "received")]
    if all(way is not None for way in ways):
        return sum(way for way in ways if way is not None)
    return values.get("gpu_nvlink_bytes_per_second")


def nvlink_speed(model: str) -> float:
    """Bytes a second of all NVLinks of a card, both directions; 0 where it has none or is unknown.

    >>> nvlink_speed("NVIDIA A100-SXM4-80GB")
    600000000000.0
    """
    name = model.upper().replace("-", " ")
    words = set(name.split())
    for known, speed in NVLINK_BYTES_PER_SECOND:
        if (" " in known and known in name) or known in words:
            return speed
    return 0.0


def reasons_of(bits: float) -> list[str]:
    """The reasons for slower clocks in words.

    >>> reasons_of(0x21)
    ['idle', 'heat']
    """
    return [words for bit, words in REASONS.items() if int(bits) & bit]
