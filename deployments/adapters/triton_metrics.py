"""What a Triton tells at `/metrics`: totals and quantiles of each version, and its GPU gauges.

https://docs.nvidia.com/deeplearning/triton-inference-server/user-guide/docs/user_guide/metrics.html
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from deployments.adapters import exposition
from deployments.rules.fleet.gpu_fields import MIB
from deployments.rules.fleet.gpus import Gpu
from deployments.rules.fleet.triton_numbers import Slot, TritonNumbers, TritonVersion

_TOTALS = {
    "nv_inference_request_success": "requests",
    "nv_inference_request_failure": "failures",
    "nv_inference_count": "inferences",
    "nv_inference_exec_count": "executions",
    "nv_inference_queue_duration_us": "queue_us",
    "nv_inference_compute_infer_duration_us": "compute_us",
    "nv_inference_pending_request_count": "pending",
    "nv_cache_num_hits_per_model": "cache_hits",
    "nv_cache_num_misses_per_model": "cache_misses",
}
_QUANTILES = {
    "nv_inference_queue_summary_us": "queue",
    "nv_inference_compute_infer_summary_us": "compute",
}
_PINNED = {
    "nv_pinned_memory_pool_used_bytes": "pinned_used",
    "nv_pinned_memory_pool_total_bytes": "pinned_total",
}
_GPU = {
    "nv_gpu_utilization": ("DCGM_FI_DEV_GPU_UTIL", 100.0),
    "nv_gpu_memory_used_bytes": ("DCGM_FI_DEV_FB_USED", 1 / MIB),
    "nv_gpu_memory_total_bytes": ("DCGM_FI_DEV_FB_TOTAL", 1 / MIB),
    "nv_gpu_power_usage": ("DCGM_FI_DEV_POWER_USAGE", 1.0),
    "nv_gpu_power_limit": ("DCGM_FI_DEV_POWER_MGMT_LIMIT", 1.0),
    "nv_energy_consumption": ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", 1000.0),
}
_NAMES = frozenset({*_TOTALS, *_QUANTILES, *_PINNED, *_GPU})


def read(text: str) -> tuple[TritonNumbers, list[Gpu]]:
    """Versions and pinned memory, and the GPUs that Triton sees, as DCGM would name the numbers.

    GPUs have no index there: they are numbered in the order of their UUIDs. Raises Unavailable
    when the text is none.
    """
    versions: dict[Slot, dict[str, Any]] = defaultdict(dict)
    pinned: dict[str, float] = {}
    gpus: dict[str, dict[str, float]] = defaultdict(dict)
    for one in exposition.samples(text, _NAMES, what="Triton"):
        if (name := _PINNED.get(one.name)) is not None:
            pinned[name] = one.value
        elif one.name in _GPU:
            name, factor = _GPU[one.name]
            gpus[one.labels.get("gpu_uuid", "")][name] = one.value * factor
        elif (number := one.labels.get("version", "")).isdecimal():
            slot = versions[(one.labels.get("model", ""), int(number))]
            if (name := _QUANTILES.get(one.name)) is None:
                name = _TOTALS[one.name]
                # Failures come once for each reason.
                slot[name] = slot.get(name, 0.0) + one.value
            elif "quantile" in one.labels:
                slot.setdefault(name, {})[float(one.labels["quantile"])] = one.value
    return (
        TritonNumbers({slot: TritonVersion(**found) for slot, found in versions.items()}, **pinned),
        [
            Gpu(device=f"GPU-{index}", uuid=uuid, raw=raw)
            for index, (uuid, raw) in enumerate(sorted(gpus.items()))
        ],
    )
