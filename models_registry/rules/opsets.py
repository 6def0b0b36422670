"""Which ONNX files each Triton release can load.

Release -> ONNX Runtime: the compatibility matrix in Triton's own documentation
(triton-inference-server/server, docs/introduction/compatibility.md, "ONNX Runtime Versions"), which
begins with 24.04; 23.12 is from that repository's build.py of the time (TRITON_VERSION_MAP).
ONNX Runtime -> opset and IR version: measured, by loading one-node files of rising opset and IR
version into each released CPU wheel; up to 1.20 this agrees with ONNX Runtime's published table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from models_registry.exporting.protocol import Refusal

MIN_OPSET: Final = 7  # ONNX Runtime, "Compatibility": opset 7 and higher
EMBEDDED: Final = "embedded"


@dataclass(frozen=True, slots=True)
class Runtime:
    """The newest that one ONNX Runtime loads: opset of ai.onnx, of ai.onnx.ml, and IR version."""

    version: str
    opset: int
    ml_opset: int
    ir_version: int


_RUNTIMES: Final = {
    runtime.version: runtime
    for runtime in (
        Runtime("1.16", 19, 3, 9),
        Runtime("1.17", 20, 4, 9),
        Runtime("1.18", 21, 5, 10),
        Runtime("1.19", 21, 5, 10),
        Runtime("1.20", 21, 5, 10),
        Runtime("1.21", 22, 5, 10),
        Runtime("1.22", 22, 5, 10),
        Runtime("1.23", 23, 5, 11),
        Runtime("1.24", 25, 5, 13),
        Runtime("1.27", 26, 5, 13),
        Runtime("1.28", 26, 5, 13),
        Runtime("1.32", 28, 5, 14),
    )
}

TRITON: Final[dict[str, Runtime]] = {
    release: _RUNTIMES[version]
    for version, releases in {
        "1.16": ("23.12",),
        "1.17": ("24.04",),
        "1.18": ("24.05", "24.06", "24.07", "24.08"),
        "1.19": ("24.09", "24.10", "24.11"),
        "1.20": ("24.12", "25.01", "25.02"),
        "1.21": ("25.03", "25.04"),
        "1.22": ("25.05", "25.06", "25.07"),
        "1.23": ("25.08", "25.09", "25.10", "25.11", "25.12", "26.01"),
        "1.24": ("26.02", "26.03", "26.04", "26.05", "26.06"),
        "1.27": ("26.07",),
        "1.28": ("26.08",),
        # The Python-based backend of the embedded stack; pinned in deploy/requirements/serving.txt.
        "1.32": (EMBEDDED,),
    }.items()
    for release in releases
}


def runtime(target: str) -> Runtime:
    """What the Triton release `target` loads; ValueError names the releases that are known."""
    try:
        return TRITON[target]
    except KeyError:
        raise ValueError(
            f"Triton release “{target}” is not in the table; known: {', '.join(TRITON)}"
        ) from None


def refusal(target: str, opsets: dict[str, int], ir_version: int) -> Refusal | None:
    """Why the target cannot load a file with these opsets (by domain) and this IR version, or None.

    Domains other than ONNX's own two are left to ONNX Runtime, which knows its contributed ones.
    """
    limits = runtime(target)
    opset = opsets.get("", opsets.get("ai.onnx", 0))
    where = f"Triton {target} (ONNX Runtime {limits.version})"
    if opset > limits.opset:
        return Refusal(
            "opset_too_new",
            f"The file uses opset {opset}; {where} loads opsets {MIN_OPSET} to {limits.opset}.",
            f"Export again with opset {min(17, limits.opset)}, or choose a newer Triton "
            "release as target.",
            "/opset",
        )
    if opset and opset < MIN_OPSET:
        return Refusal(
            "opset_too_old",
            f"The file uses opset {opset}; ONNX Runtime loads opsets from {MIN_OPSET} on.",
            "Export again with opset 17, or raise it with onnx.version_converter.",
            "/opset",
        )
    if opsets.get("ai.onnx.ml", 0) > limits.ml_opset:
        return Refusal(
            "opset_too_new",
            f"The file uses opset {opsets['ai.onnx.ml']} of ai.onnx.ml; {where} loads up to "
            f"{limits.ml_opset}.",
            f"Export again with ai.onnx.ml opset {min(3, limits.ml_opset)}.",
            "/opset",
        )
    if ir_version > limits.ir_version:
        return Refusal(
            "ir_version_too_new",
            f"The file has IR version {ir_version}; {where} loads up to IR version "
            f"{limits.ir_version}.",
            f"Save it with model.ir_version = {min(8, limits.ir_version)}, "
            "or choose a newer Triton release as target.",
        )
    return None
