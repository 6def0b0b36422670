"""What each Triton release carries: server version, CUDA, and the driver that CUDA needs.

Release → CUDA and driver: the compatibility matrix in Triton's own documentation
(triton-inference-server/server, docs/introduction/compatibility.md, rows of the image without
TensorRT-LLM). Release → server version: the release notes ("Triton 2.51.0, NGC container 24.10").
The driver floors within one major CUDA version: NVIDIA, "CUDA Compatibility", table "Minor Version
Compatibility". ONNX Runtime, opset and IR version: models_registry.rules.opsets.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class TritonRelease:
    """One release: its tag (24.10), the server's version, CUDA and the driver it was made with."""

    tag: str
    server: str
    cuda: str
    driver: str


_TABLE: Final = (
    TritonRelease("23.12", "2.41.0", "12.3", "545.23.08"),
    TritonRelease("24.04", "2.45.0", "12.4", "550.54.15"),
    TritonRelease("24.05", "2.46.0", "12.4", "550.54.15"),
    TritonRelease("24.06", "2.47.0", "12.5", "555.42.02"),
    TritonRelease("24.07", "2.48.0", "12.5", "555.42.06"),
    TritonRelease("24.08", "2.49.0", "12.6", "560.35.03"),
    TritonRelease("24.09", "2.50.0", "12.6", "560.35.03"),
    TritonRelease("24.10", "2.51.0", "12.6", "560.35.03"),
    TritonRelease("24.11", "2.52.0", "12.6", "560.35.05"),
    TritonRelease("24.12", "2.53.0", "12.6", "560.35.05"),
    TritonRelease("25.01", "2.54.0", "12.8", "570.86.10"),
    TritonRelease("25.02", "2.55.0", "12.8", "570.86.10"),
    TritonRelease("25.03", "2.56.0", "12.8", "570.124.06"),
    TritonRelease("25.04", "2.57.0", "12.9", "575.51.02"),
    TritonRelease("25.05", "2.58.0", "12.9", "575.51.03"),
    TritonRelease("25.06", "2.59.0", "12.9", "575.51.03"),
    TritonRelease("25.07", "2.59.1", "12.9", "575.51.03"),
    TritonRelease("25.08", "2.60.0", "13.0", "580.82.07"),
    TritonRelease("25.09", "2.61.0", "13.0", "580.82.07"),
    TritonRelease("25.10", "2.62.0", "13.0", "580.95.05"),
    TritonRelease("25.11", "2.63.0", "13.0", "580.95.05"),
    TritonRelease("25.12", "2.64.0", "13.1", "590.44.01"),
    TritonRelease("26.01", "2.65.0", "13.1", "590.48.01"),
    TritonRelease("26.02", "2.66.0", "13.1", "590.48.01"),
)
_FLOORS: Final = {11: "450.80.02", 12: "525.60.13", 13: "580.65.06"}
"""Major CUDA version → the oldest driver with which its programs run at all."""


def of_server(version: str) -> TritonRelease | None:
    """The release whose server says that it has this version, None where the table ends."""
    return next((one for one in _TABLE if one.server == version), None)


def of_tag(tag: str) -> TritonRelease | None:
    """The release of a tag such as 24.10."""
    return next((one for one in _TABLE if one.tag == tag), None)


def driver_floor(cuda: str) -> str:
    """The oldest driver that runs programs of this CUDA version, "" where none is known."""
    return _FLOORS.get(int(cuda.partition(".")[0]), "")


def is_older(left: str, right: str) -> bool:
    """Whether a version of dotted numbers comes before another; letters count nothing.

    >>> is_older("525.60.13", "560.35.03")
    True
    """
    return _numbers(left) < _numbers(right)


def _numbers(version: str) -> tuple[int, ...]:
    parts = []
    for part in version.split("."):
        digits = "".join(letter for letter in part if letter.isdigit())
        parts.append(int(digits or 0))
    return tuple(parts)
