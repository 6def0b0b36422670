"""The 27 fields of a production DCGM set as data: what each means, our series of it, its limits.

Names and numbers as in `dcgm_fields.h` of NVIDIA DCGM 3 and 4, units as `dcgm-exporter` gives the
values. Two of its help texts are wrong, and are not followed: the violations are nanoseconds (NVML
`nvmlViolationTime_t`, `dcgm_fields.h` says microseconds), and NVLINK_BANDWIDTH_TOTAL is a rate
(KiB/s ÷ 1000), though it is exported as a counter (dcgm-exporter, pull request 658).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from models_registry.rules.contract_terms import gettext_noop as _

MIB: Final = 1024.0 * 1024.0


class Kind(StrEnum):
    """How a field's raw number becomes a value: as it is, or by what it grew in a second."""

    GAUGE = "gauge"
    RATE = "rate"


class Group(StrEnum):
    """The panel of the node's page that a field belongs to."""

    LOAD = "load"
    MEMORY = "memory"
    HEAT = "heat"
    CLOCKS = "clocks"
    LINKS = "links"
    ERRORS = "errors"


@dataclass(frozen=True, slots=True)
class GpuField:
    """A field: raw number × `factor` is in `unit`; beyond `warn` and `bad` somebody should look.

    `below` says that small values are the bad ones. `bad_values` are single values that are bad
    whatever the limits say. A field without limits is there to explain others.
    """

    dcgm: str
    number: int
    series: str
    unit: str
    group: Group
    title: str
    meaning: str
    why: str
    kind: Kind = Kind.GAUGE
    factor: float = 1.0
    warn: float | None = None
    bad: float | None = None
    below: bool = False
    bad_values: frozenset[int] = frozenset()


LOAD_FIELDS: Final = (
    GpuField(
        "DCGM_FI_DEV_GPU_UTIL", 203, "gpu_utilization_percent", "%", Group.LOAD,
        _("Utilisation"),
        _("Share of time in which any kernel ran."),
        _("Above 90 percent for long, requests queue: add instances, a node, or larger batches. "
        "100 percent does not mean that the GPU is full, see the engine and tensor activity."),
        warn=90,
    ),
    GpuField(
        "DCGM_FI_DEV_MEM_COPY_UTIL", 204, "gpu_memory_copy_percent", "%", Group.LOAD,
        _("Memory traffic"),
        _("Share of time in which device memory was read or written."),
        _("High with a low tensor activity: memory bounds the model, and batches help little."),
        warn=90,
    ),
    GpuField(
        "DCGM_FI_PROF_GR_ENGINE_ACTIVE", 1001, "gpu_engine_active_percent", "%", Group.LOAD,
        _("Engine active"),
        _("Share of time in which the compute engine was busy."),
        _("Sharper than the utilisation, which counts any kernel."),
        factor=100,
    ),
    GpuField(
        "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", 1004, "gpu_tensor_active_percent", "%", Group.LOAD,
        _("Tensor cores active"),
        _("Share of cycles in which the tensor cores worked."),
        _("Near 0 while the GPU is busy: the model runs in FP32, or its batches are too small."),
        factor=100,
    ),
    GpuField(
        "DCGM_FI_PROF_DRAM_ACTIVE", 1005, "gpu_memory_active_percent", "%", Group.LOAD,
        _("Memory interface active"),
        _("Share of cycles in which the memory interface moved data."),
        _("Above 80 percent the memory's bandwidth is used up, and more load only queues."),
        factor=100, warn=80, bad=95,
    ),
)  # fmt: skip

MEMORY_FIELDS: Final = (
    GpuField(
        "DCGM_FI_DEV_FB_USED", 252, "gpu_memory_used_bytes", "bytes", Group.MEMORY,
        _("Memory used"),
        _("Device memory in use by all processes."),
        _("Judged by its growth: memory that only grows is a leak, and ends in failed loads."),
        factor=MIB,
    ),
    GpuField(
        "DCGM_FI_DEV_FB_FREE", 251, "gpu_memory_free_bytes", "bytes", Group.MEMORY,
        _("Memory free"),
        _("Device memory that nobody uses."),
        _("Below 1 GiB the next version may not load; below 256 MiB a larger batch may fail."),
        factor=MIB, warn=1024 * MIB, bad=256 * MIB, below=True,
    ),
)  # fmt: skip

HEAT_FIELDS: Final = (
    GpuField(
        "DCGM_FI_DEV_GPU_TEMP", 150, "gpu_temperature_celsius", "°C", Group.HEAT,
        _("Temperature"),
        _("Temperature of the GPU's core."),
        _("From about 85 °C on the clocks are lowered, and latency rises for everybody."),
        warn=80, bad=88,
    ),
    GpuField(
        "DCGM_FI_DEV_MEMORY_TEMP", 140, "gpu_memory_temperature_celsius", "°C", Group.HEAT,
        _("Memory temperature"),
        _("Temperature of the HBM memory; 0 on cards without a sensor."),
        _("HBM is specified up to 95 °C, beyond which it is slowed down."),
        warn=85, bad=95,
    ),
    GpuField(
        "DCGM_FI_DEV_POWER_USAGE", 155, "gpu_power_watts", "W", Group.HEAT,
        _("Power"),
        _("Power that the card draws."),
        _("At its limit the clocks are lowered: see the throttling by power."),
    ),
    GpuField(
        "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", 156, "gpu_energy_joules", "J", Group.HEAT,
        _("Energy"),
        _("Energy since the driver was loaded."),
        _("For costs, and for power over a time by difference."),
        factor=0.001,
    ),
)  # fmt: skip

CLOCK_FIELDS: Final = (
    GpuField(
        "DCGM_FI_DEV_SM_CLOCK", 100, "gpu_sm_clock_mhz", "MHz", Group.CLOCKS,
        _("SM clock"),
        _("Clock of the multiprocessors."),
        _("Lower than usual under load: the card is slowed down, the reasons say why."),
    ),
    GpuField(
        "DCGM_FI_DEV_MEM_CLOCK", 101, "gpu_memory_clock_mhz", "MHz", Group.CLOCKS,
        _("Memory clock"),
        _("Clock of the device memory."),
        _("Falls with the SM clock when the card saves power."),
    ),
    GpuField(
        "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", 112, "gpu_throttle_reasons", "bits", Group.CLOCKS,
        _("Reasons for slower clocks"),
        _("Bit set of why the clocks are lower than they could be; only its newest value tells."),
        _("Idle and set clocks are harmless; heat, power brake and hardware slowdown are not."),
    ),
    GpuField(
        "DCGM_FI_DEV_POWER_VIOLATION", 240, "gpu_power_throttled_percent", "%", Group.CLOCKS,
        _("Slowed by power"),
        _("Share of time in which the power limit held the clocks down."),
        _("Raise the limit, spread the load, or plan with the lower speed."),
        kind=Kind.RATE, factor=1e-7, warn=5, bad=50,
    ),
    GpuField(
        "DCGM_FI_DEV_THERMAL_VIOLATION", 241, "gpu_thermal_throttled_percent", "%", Group.CLOCKS,
        _("Slowed by heat"),
        _("Share of time in which heat held the clocks down."),
        _("The cooling is not enough: look at fans, air flow and neighbours; move traffic away."),
        kind=Kind.RATE, factor=1e-7, warn=1, bad=10,
    ),
)  # fmt: skip

LINK_FIELDS: Final = (
    GpuField(
        "DCGM_FI_PROF_PCIE_TX_BYTES", 1009, "gpu_pcie_sent_bytes_per_second", "B/s", Group.LINKS,
        _("PCIe sent"),
        _("Bytes a second from the GPU to the host, headers included."),
        _("Answers and copies of outputs; judged as a share of the link's speed."),
    ),
    GpuField(
        "DCGM_FI_PROF_PCIE_RX_BYTES", 1010, "gpu_pcie_received_bytes_per_second", "B/s",
        Group.LINKS,
        _("PCIe received"),
        _("Bytes a second from the host to the GPU, headers included."),
        _("Inputs and loads of models; a full link makes every input wait."),
    ),
    GpuField(
        "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", 449, "gpu_nvlink_bytes_per_second", "B/s",
        Group.LINKS,
        _("NVLink"),
        _("Bytes a second over all NVLinks, both directions."),
        _("Above 80 percent of the links' speed with heat, models on several GPUs slow down."),
        factor=1024_000,
    ),
    GpuField(
        "DCGM_FI_PROF_NVLINK_TX_BYTES", 1011, "gpu_nvlink_sent_bytes_per_second", "B/s",
        Group.LINKS,
        _("NVLink sent"),
        _("Bytes a second to other GPUs."),
        _("Much more one way than the other: the parts of a model are placed unevenly."),
    ),
    GpuField(
        "DCGM_FI_PROF_NVLINK_RX_BYTES", 1012, "gpu_nvlink_received_bytes_per_second", "B/s",
        Group.LINKS,
        _("NVLink received"),
        _("Bytes a second from other GPUs."),
        _("Much more one way than the other: the parts of a model are placed unevenly."),
    ),
    GpuField(
        "DCGM_FI_DEV_PCIE_REPLAY_COUNTER", 202, "gpu_pcie_replays_per_minute", "/min",
        Group.LINKS,
        _("PCIe replays"),
        _("Packets that had to be sent again."),
        _("Above 8 a minute, the limit of DCGM's own health check: a bad slot, riser or cable."),
        kind=Kind.RATE, factor=60, warn=8, bad=60,
    ),
)  # fmt: skip

ERROR_FIELDS: Final = (
    GpuField(
        "DCGM_FI_DEV_XID_ERRORS", 230, "gpu_xid_error", "", Group.ERRORS,
        _("Last XID"),
        _("Number of the driver's last error message; 0 is none."),
        _("13, 31, 43 and 45 are faults of a program; 48, 64, 74, 79, 95, 119, 120 and 140 are the "
        "card's: move traffic away, reset it, and have it looked at."),
        warn=0, bad_values=frozenset({48, 64, 74, 79, 95, 119, 120, 140}),
    ),
    GpuField(
        "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", 310, "gpu_ecc_single_bit_errors", "", Group.ERRORS,
        _("Corrected memory errors"),
        _("Single-bit errors since the driver was loaded; ECC has mended them."),
        _("Single ones happen; hundreds announce those that cannot be mended."),
        warn=100,
    ),
    GpuField(
        "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", 311, "gpu_ecc_double_bit_errors", "", Group.ERRORS,
        _("Uncorrected memory errors"),
        _("Double-bit errors since the driver was loaded; they cannot be mended."),
        _("Any is bad: results may be lost and the process is ended. Reset the card."),
        bad=0,
    ),
    GpuField(
        "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", 393, "gpu_remapped_rows", "", Group.ERRORS,
        _("Remapped rows"),
        _("Rows of memory replaced after errors that could not be mended."),
        _("Each uses a spare row; the mending takes effect with the next reset."),
        warn=0, bad=7,
    ),
    GpuField(
        "DCGM_FI_DEV_ROW_REMAP_FAILURE", 395, "gpu_row_remap_failed", "", Group.ERRORS,
        _("Remapping failed"),
        _("1 when no spare row was left."),
        _("The card has to be exchanged."),
        bad=0,
    ),
)  # fmt: skip

FIELDS: Final = (
    *LOAD_FIELDS, *MEMORY_FIELDS, *HEAT_FIELDS, *CLOCK_FIELDS, *LINK_FIELDS, *ERROR_FIELDS,
)  # fmt: skip
BY_DCGM: Final = {field.dcgm: field for field in FIELDS}
BY_SERIES: Final = {field.series: field for field in FIELDS}
