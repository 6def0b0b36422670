"""GPUs of this very machine by NVML, the library of NVIDIA's driver (package `nvidia-ml-py`).

Values are given by the names and in the units of DCGM, so that both are read alike. What a card or
a driver does not tell is left out. XIDs and the profiling fields NVML does not have.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any

import pynvml

from deployments.rules.fleet.gpu_fields import MIB
from deployments.rules.fleet.gpus import Gpu

ALL_LINKS = 0xFFFFFFFF
"""The scope of a field that means all NVLinks together."""

log = logging.getLogger(__name__)


class Nvml:
    """NVML of this machine; without driver or library it has no GPUs, and says why once."""

    def __init__(self) -> None:
        self._open = False
        self.why_not = ""

    def read(self) -> list[Gpu]:
        """All GPUs as they are now; [] without a driver. May be called from one thread at a time.

        A card that fell off the bus is left out; the others are told.
        """
        if not self._start():
            return []
        try:
            count = pynvml.nvmlDeviceGetCount()
        except pynvml.NVMLError as fault:
            # The driver was replaced under us: begin anew with the next look.
            log.warning("NVML does not answer: %s", fault)
            self.close()
            return []
        return [gpu for index in range(count) if (gpu := _gpu(index)) is not None]

    def close(self) -> None:
        """Give the library back."""
        if self._open:
            self._open = False
            _try(pynvml.nvmlShutdown)

    def _start(self) -> bool:
        if self._open or self.why_not:
            return self._open
        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError as fault:
            self.why_not = str(fault)
            log.info("no GPUs are read by NVML on this machine: %s", fault)
            return False
        self._open = True
        return True


def _gpu(index: int) -> Gpu | None:
    handle = _try(lambda: pynvml.nvmlDeviceGetHandleByIndex(index))
    if handle is None:
        return None
    raw = {
        name: float(value)
        for name, ask in _ASKED.items()
        if (value := _try(partial(ask, handle))) is not None
    }
    raw |= _of_memory(handle) | _of_rows(handle) | _of_links(handle)
    return Gpu(
        device=f"GPU-{index}",
        uuid=_text(lambda: pynvml.nvmlDeviceGetUUID(handle)),
        model=_text(lambda: pynvml.nvmlDeviceGetName(handle)),
        driver=_text(pynvml.nvmlSystemGetDriverVersion),
        raw=raw,
    )


def _ecc(kind: int) -> Callable[[Any], Any]:
    return lambda handle: pynvml.nvmlDeviceGetTotalEccErrors(handle, kind, pynvml.NVML_VOLATILE_ECC)


_ASKED: dict[str, Callable[[Any], Any]] = {
    "DCGM_FI_DEV_SM_CLOCK": lambda h: pynvml.nvmlDeviceGetClockInfo(h, pynvml.NVML_CLOCK_SM),
    "DCGM_FI_DEV_MEM_CLOCK": lambda h: pynvml.nvmlDeviceGetClockInfo(h, pynvml.NVML_CLOCK_MEM),
    "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS": pynvml.nvmlDeviceGetCurrentClocksThrottleReasons,
    "DCGM_FI_DEV_GPU_TEMP": lambda h: pynvml.nvmlDeviceGetTemperature(
        h, pynvml.NVML_TEMPERATURE_GPU
    ),
    "DCGM_FI_DEV_MEMORY_TEMP": lambda h: _field(h, pynvml.NVML_FI_DEV_MEMORY_TEMP),
    "DCGM_FI_DEV_POWER_USAGE": lambda h: pynvml.nvmlDeviceGetPowerUsage(h) / 1000,
    "DCGM_FI_DEV_POWER_MGMT_LIMIT": lambda h: pynvml.nvmlDeviceGetEnforcedPowerLimit(h) / 1000,
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": pynvml.nvmlDeviceGetTotalEnergyConsumption,
    "DCGM_FI_DEV_PCIE_REPLAY_COUNTER": pynvml.nvmlDeviceGetPcieReplayCounter,
    "DCGM_FI_DEV_PCIE_LINK_GEN": pynvml.nvmlDeviceGetCurrPcieLinkGeneration,
    "DCGM_FI_DEV_PCIE_LINK_WIDTH": pynvml.nvmlDeviceGetCurrPcieLinkWidth,
    "DCGM_FI_DEV_GPU_UTIL": lambda h: pynvml.nvmlDeviceGetUtilizationRates(h).gpu,
    "DCGM_FI_DEV_MEM_COPY_UTIL": lambda h: pynvml.nvmlDeviceGetUtilizationRates(h).memory,
    "DCGM_FI_DEV_POWER_VIOLATION": lambda h: _violation(h, pynvml.NVML_PERF_POLICY_POWER),
    "DCGM_FI_DEV_THERMAL_VIOLATION": lambda h: _violation(h, pynvml.NVML_PERF_POLICY_THERMAL),
    "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL": _ecc(pynvml.NVML_MEMORY_ERROR_TYPE_CORRECTED),
    "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL": _ecc(pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED),
    # NVML gives kilobytes a second over the last 20 ms.
    "DCGM_FI_PROF_PCIE_TX_BYTES": lambda h: (
        pynvml.nvmlDeviceGetPcieThroughput(h, pynvml.NVML_PCIE_UTIL_TX_BYTES) * 1000
    ),
    "DCGM_FI_PROF_PCIE_RX_BYTES": lambda h: (
        pynvml.nvmlDeviceGetPcieThroughput(h, pynvml.NVML_PCIE_UTIL_RX_BYTES) * 1000
    ),
}


def _of_memory(handle: Any) -> dict[str, float]:
    memory = _try(lambda: pynvml.nvmlDeviceGetMemoryInfo(handle))
    if memory is None:
        return {}
    return {
        "DCGM_FI_DEV_FB_TOTAL": memory.total / MIB,
        "DCGM_FI_DEV_FB_FREE": memory.free / MIB,
        "DCGM_FI_DEV_FB_USED": memory.used / MIB,
    }


def _of_rows(handle: Any) -> dict[str, float]:
    rows = _try(lambda: pynvml.nvmlDeviceGetRemappedRows(handle))
    if rows is None:
        return {}
    _corrected, uncorrected, _pending, failed = rows
    return {
        "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS": float(uncorrected),
        "DCGM_FI_DEV_ROW_REMAP_FAILURE": float(failed),
    }


def _of_links(handle: Any) -> dict[str, float]:
    """KiB that all NVLinks moved since the driver was loaded, as counters of our own names."""
    sent = _try(
        lambda: _field(handle, pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, scope=ALL_LINKS)
    )
    received = _try(
        lambda: _field(handle, pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX, scope=ALL_LINKS)
    )
    if sent is None or received is None:
        return {}
    return {"NVML_NVLINK_SENT_KIB": float(sent), "NVML_NVLINK_RECEIVED_KIB": float(received)}


def _field(handle: Any, number: int, scope: int = 0) -> float | None:
    """A value of NVML's numbered fields; None where the card does not have it."""
    (found,) = pynvml.nvmlDeviceGetFieldValues(handle, [(number, scope)])
    if found.nvmlReturn != pynvml.NVML_SUCCESS:
        return None
    kinds = {
        pynvml.NVML_VALUE_TYPE_DOUBLE: found.value.dVal,
        pynvml.NVML_VALUE_TYPE_UNSIGNED_INT: found.value.uiVal,
        pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG: found.value.ulVal,
        pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG: found.value.ullVal,
        pynvml.NVML_VALUE_TYPE_SIGNED_LONG_LONG: found.value.sllVal,
    }
    value = kinds.get(found.valueType)
    return None if value is None else float(value)


def _violation(handle: Any, policy: int) -> float:
    """Nanoseconds for which a limit has held the clocks down."""
    return float(pynvml.nvmlDeviceGetViolationStatus(handle, policy).violationTime)


def _text(ask: Callable[[], Any]) -> str:
    found = _try(ask)
    return found.decode() if isinstance(found, bytes) else str(found or "")


def _try(ask: Callable[[], Any]) -> Any:
    """What NVML says; None for what this card or driver does not tell."""
    try:
        return ask()
    except (pynvml.NVMLError, AttributeError):
        return None
