"""How a TensorRT plan is asked for: the shapes of its profile and trtexec's command line.

Flags as TensorRT 10's `trtexec --help` has them (NVIDIA TensorRT documentation, "Command-Line
Programs"; "Migrating trtexec Usage from TensorRT 8.x to 10.x": --memPoolSize for --workspace, and
"from TensorRT 10.x to 11.x": no --fp16 and --int8 any more, the file's own data types rule).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from models_registry.exporting.protocol import Refusal, TensorSpec
from models_registry.rules import tensors

TRTEXEC: Final = "trtexec"
FP32, FP16, INT8 = "fp32", "fp16", "int8"
PRECISIONS: Final = (FP32, FP16, INT8)
MIN_WORKSPACE_MIB: Final = 16
MAX_WORKSPACE_MIB: Final = 1024 * 1024
DEFAULT_WORKSPACE_MIB: Final = 1024
# From this release on networks are strongly typed and trtexec takes no precision.
STRONGLY_TYPED_FROM: Final = 11

# ONNX operators for which TensorRT has no importer (onnx-tensorrt, docs/operators.md).
_NOT_IMPORTED: Final = frozenset({"ConvInteger", "DynamicQuantizeLinear", "MatMulInteger"})
_QUANTISED: Final = frozenset({"QuantizeLinear", "DequantizeLinear"})
_BANNER: Final = re.compile(r"TensorRT v(\d{4,6})\b")


@dataclass(frozen=True, slots=True)
class Shapes:
    """The sizes that a plan takes for one input, and those for which it is tuned."""

    minimum: tuple[int, ...]
    preferred: tuple[int, ...]
    maximum: tuple[int, ...]

    def to_json(self) -> dict[str, list[int]]:
        """As `TensorRtPlan.profile` keeps it."""
        return {
            "min": list(self.minimum),
            "opt": list(self.preferred),
            "max": list(self.maximum),
        }


def profile(
    inputs: Sequence[TensorSpec],
    sizes: Mapping[str, Sequence[int]],
    *,
    preferred_batch: int,
    max_batch: int,
) -> dict[str, Shapes]:
    """Shapes of each input with a free axis: what the version is known to take, no more.

    The batch goes from 1 over `preferred_batch` to `max_batch` (0: Triton does not batch, so the
    sizes at which the file was run hold for it too); other axes take those of `sizes`.

    >>> spec = TensorSpec("x", "FP32", (-1, 10), ("batch", ""))
    >>> profile([spec], {"batch": [1, 2]}, preferred_batch=8, max_batch=16)["x"].maximum
    (16, 10)
    """
    batch = tensors.batch_name(inputs) if max_batch else None
    found = {}
    for spec in inputs:
        if not any(spec.dims):
            continue
        rows = [
            _axis(size, name, sizes, (preferred_batch, max_batch) if name == batch else None)
            for size, name in zip(spec.shape, spec.dims, strict=True)
        ]
        minimum, preferred, maximum = zip(*rows, strict=True)
        found[spec.name] = Shapes(minimum, preferred, maximum)
    return found


def _axis(
    size: int, name: str, sizes: Mapping[str, Sequence[int]], batch: tuple[int, int] | None
) -> tuple[int, int, int]:
    if not name:
        return size, size, size
    if batch is not None:
        preferred, largest = batch
        return 1, max(1, min(preferred, largest)), largest
    known = sorted(sizes.get(name) or (1,))
    return known[0], known[len(known) // 2], known[-1]


def command(
    shapes: Mapping[str, Shapes],
    *,
    precision: str,
    workspace_mib: int,
    onnx: str = "model.onnx",
    plan: str = "model.plan",
) -> list[str]:
    """trtexec with its arguments, ready for exec: no shell reads it.

    >>> command({}, precision="fp16", workspace_mib=512)[1:3]
    ['--onnx=model.onnx', '--saveEngine=model.plan']
    """
    words = [TRTEXEC, f"--onnx={onnx}", f"--saveEngine={plan}"]
    if shapes:
        words += [
            f"--{flag}Shapes=" + ",".join(f"{_quoted(name)}:{_by(getattr(one, field))}"
                                          for name, one in shapes.items())
            for flag, field in (("min", "minimum"), ("opt", "preferred"), ("max", "maximum"))
        ]  # fmt: skip
    words.append(f"--memPoolSize=workspace:{workspace_mib}")
    if precision != FP32:
        words.append(f"--{precision}")
    return [*words, "--skipInference"]


def _by(sizes: Sequence[int]) -> str:
    return "x".join(map(str, sizes)) or "scalar"


def _quoted(name: str) -> str:
    """trtexec reads a name up to its colon, unless it stands between single quotes."""
    return f"'{name}'" if set(name) & set(":,") else name


def refusal(
    operators: Mapping[str, int], inputs: Sequence[TensorSpec], precision: str, workspace_mib: int
) -> Refusal | None:
    """Why no plan can be built of this file, or not this one."""
    if precision not in PRECISIONS:
        return Refusal(
            "unknown_precision",
            f"There is no precision {precision[:40]}.",
            "Use one of " + ", ".join(PRECISIONS) + ".",
            "/precision",
        )
    if not MIN_WORKSPACE_MIB <= workspace_mib <= MAX_WORKSPACE_MIB:
        return Refusal(
            "workspace_out_of_range",
            f"A workspace of {workspace_mib} MiB cannot be asked for.",
            f"Use {MIN_WORKSPACE_MIB} to {MAX_WORKSPACE_MIB} MiB; 1024 is a good start.",
            "/workspace_mib",
        )
    foreign = sorted(n for n in operators if ":" in n or n in _NOT_IMPORTED)
    if foreign:
        return Refusal(
            "operators_not_in_tensorrt",
            f"TensorRT cannot read {', '.join(foreign)[:300]}.",
            "Build the plan of a version with the operators of the ONNX standard: for a variant, "
            "of the version that it was made of.",
        )
    texts = [spec.name for spec in inputs if spec.dtype == "BYTES"]
    if texts:
        return Refusal(
            "text_not_in_tensorrt",
            f"The input “{texts[0][:80]}” is text, which TensorRT does not have.",
            "Serve this version with ONNX Runtime.",
        )
    if precision == INT8 and not _QUANTISED & set(operators):
        return Refusal(
            "int8_not_calibrated",
            "The file says nothing of INT8: without a calibration trtexec would invent the ranges "
            "of every tensor, and the answers with them.",
            "Use fp16, or upload an ONNX file with QuantizeLinear and DequantizeLinear.",
            "/precision",
        )
    return None


def release_of(text: str) -> tuple[int, int] | None:
    """TensorRT's major and minor release from trtexec's banner; None where it has none.

    >>> release_of("&&&& RUNNING TensorRT.trtexec [TensorRT v100600] [b26] # trtexec --help")
    (10, 6)
    >>> release_of("&&&& RUNNING TensorRT.trtexec [TensorRT v8601] # trtexec")
    (8, 6)
    """
    found = _BANNER.search(text)
    if found is None:
        return None
    number = int(found[1])
    if number >= 100_000:
        return number // 10_000, number // 100 % 100
    return number // 1_000, number // 100 % 10


def complaint(lines: Sequence[str]) -> str:
    """The line in which trtexec says what went wrong: its first error, else its last line."""
    errors = [line.split("[E]", 1)[1].strip() for line in lines if "[E]" in line]
    told = [line.strip() for line in lines if line.strip() and not line.startswith("&&&&")]
    return (errors or told[-1:] or [""])[0][:400]


def to_json(shapes: Mapping[str, Shapes], *, precision: str, workspace_mib: int) -> dict[str, Any]:
    """As `TensorRtPlan.profile` keeps it."""
    return {
        "precision": precision,
        "workspace_mib": workspace_mib,
        "inputs": {name: one.to_json() for name, one in shapes.items()},
    }
