"""A DCGM exporter's text over HTTP: GPUs whose numbers a test (or a look at the pages) sets.

The text has the form of `dcgm-exporter` 4: comments, labels, one line for each container that
holds a card, and fields that a card does not have.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.adapters.http_double import Answer, Asked, HttpDouble

COUNTERS = (
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",
    "DCGM_FI_DEV_PCIE_REPLAY_COUNTER",
    "DCGM_FI_DEV_POWER_VIOLATION",
    "DCGM_FI_DEV_THERMAL_VIOLATION",
    "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL",
)
USUAL: Mapping[str, float] = {
    "DCGM_FI_DEV_SM_CLOCK": 1410,
    "DCGM_FI_DEV_MEM_CLOCK": 1593,
    "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS": 0,
    "DCGM_FI_DEV_MEMORY_TEMP": 58,
    "DCGM_FI_DEV_GPU_TEMP": 61,
    "DCGM_FI_DEV_POWER_USAGE": 214.5,
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": 7_200_000,
    "DCGM_FI_DEV_PCIE_REPLAY_COUNTER": 2,
    "DCGM_FI_DEV_GPU_UTIL": 73,
    "DCGM_FI_DEV_MEM_COPY_UTIL": 31,
    "DCGM_FI_DEV_XID_ERRORS": 0,
    "DCGM_FI_DEV_POWER_VIOLATION": 0,
    "DCGM_FI_DEV_THERMAL_VIOLATION": 0,
    "DCGM_FI_DEV_FB_FREE": 50_000,
    "DCGM_FI_DEV_FB_USED": 30_000,
    "DCGM_FI_DEV_FB_RESERVED": 1_920,
    "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL": 0,
    "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL": 0,
    "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS": 0,
    "DCGM_FI_DEV_ROW_REMAP_FAILURE": 0,
    "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL": 120_000,
    "DCGM_FI_PROF_NVLINK_TX_BYTES": 60e9,
    "DCGM_FI_PROF_NVLINK_RX_BYTES": 62e9,
    "DCGM_FI_PROF_PCIE_TX_BYTES": 1.2e9,
    "DCGM_FI_PROF_PCIE_RX_BYTES": 3.4e9,
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE": 0.71,
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": 0.42,
    "DCGM_FI_PROF_DRAM_ACTIVE": 0.37,
}


@dataclass(slots=True)
class Card:
    """One GPU of the exporter's machine; `part` is a slice's number."""

    index: int
    model: str = "NVIDIA A100-SXM4-80GB"
    uuid: str = ""
    part: str = ""
    containers: tuple[str, ...] = ("",)
    values: dict[str, float] = field(default_factory=lambda: dict(USUAL))

    def labels(self, container: str) -> str:
        uuid = self.uuid or f"GPU-0000000{self.index}-1111-2222-3333-444444444444"
        pairs = {
            "gpu": str(self.index),
            "UUID": uuid,
            "pci_bus_id": f"00000000:{self.index + 0x31:02X}:00.0",
            "device": f"nvidia{self.index}",
            "modelName": self.model,
            **({"GPU_I_PROFILE": "1g.10gb", "GPU_I_ID": self.part} if self.part else {}),
            "Hostname": "gpu-host",
            "DCGM_FI_DRIVER_VERSION": "550.90.07",
            **({"container": container} if container else {}),
        }
        return ",".join(f'{name}="{value}"' for name, value in pairs.items())


def text_of(cards: list[Card]) -> str:
    """What the exporter gives for these cards."""
    names = dict.fromkeys(name for card in cards for name in card.values)
    lines = []
    for name in names:
        kind = "counter" if name in COUNTERS else "gauge"
        lines += [f"# HELP {name} A field of DCGM.", f"# TYPE {name} {kind}"]
        lines += [
            f"{name}{{{card.labels(container)}}} {card.values[name]:f}"
            for card in cards
            if name in card.values
            for container in card.containers
        ]
    return "\n".join(lines) + "\n"


class DcgmDouble:
    """An exporter; `cards` may be changed between looks."""

    def __init__(self, *cards: Card, port: int = 0) -> None:
        self.cards = list(cards) or [Card(0)]
        self.http = HttpDouble(self._answer, port)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.http.port}"

    def _answer(self, asked: Asked) -> Answer:
        if asked.path != "/metrics":
            return Answer(404, b"")
        return Answer(200, text_of(self.cards).encode(), {"content-type": "text/plain"})
