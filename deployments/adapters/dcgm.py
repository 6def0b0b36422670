"""GPUs as a DCGM exporter tells of them (`dcgm-exporter` and the GPU Operator of NVIDIA)."""

from __future__ import annotations

import re

from deployments.adapters import exposition
from deployments.rules.fleet.gpus import WANTED, Gpu

NOT_SUPPORTED = 1e17
"""DCGM writes numbers near 2^62 or 2^63 where a card does not support a field ("blank")."""
_INDEX = re.compile(r"\d+")


def read(text: str) -> list[Gpu]:
    """The GPUs in an exporter's text by index; slices (MIG) are devices of their own.

    One card that several containers use has a line for each: the values are the card's, so the
    first counts. Raises Unavailable when the text is none.
    """
    raw: dict[str, dict[str, float]] = {}
    labels: dict[str, dict[str, str]] = {}
    for one in exposition.samples(text, WANTED, what="the DCGM exporter"):
        # Negative blanks do not exist, and what is no number is not there.
        if not 0 <= one.value < NOT_SUPPORTED:
            continue
        device = _device(dict(one.labels))
        labels.setdefault(device, dict(one.labels))
        raw.setdefault(device, {}).setdefault(one.name, one.value)
    return [
        Gpu(
            device=device,
            uuid=labels[device].get("UUID", ""),
            model=labels[device].get("modelName", ""),
            driver=labels[device].get("DCGM_FI_DRIVER_VERSION", ""),
            raw=raw[device],
        )
        for device in sorted(raw, key=_order)
    ]


def _device(labels: dict[str, str]) -> str:
    device = f"GPU-{labels.get('gpu', '0')}"
    part = labels.get("GPU_I_ID", "")
    return f"{device}/{part}" if part else device


def _order(device: str) -> tuple[int, ...]:
    return tuple(int(number) for number in _INDEX.findall(device))
