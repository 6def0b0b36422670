"""What a lighter variant of a model may be, and when there is none to make."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from models_registry.exporting.protocol import Refusal

SIMPLIFY: Final = "simplify"
GRAPH: Final = "graph"
FP16: Final = "fp16"
INT8: Final = "int8"

# What dynamic quantisation is asked to work on; a Gemm becomes a MatMul and an Add on the way.
QUANTISABLE: Final = ("Conv", "Gather", "Gemm", "MatMul")
# DynamicQuantizeLinear came with opset 11 (ONNX, "Operators").
QUANTISABLE_FROM_OPSET: Final = 11

# Sums and powers that leave the range of FP16 (65504) for values that a network really has, and
# variances that are lost below it. The converter's list of what has no FP16 kernel comes on top.
KEPT_IN_FP32: Final = (
    "BatchNormalization", "Exp", "Pow", "ReduceL2", "ReduceLogSumExp", "ReduceSum",
    "ReduceSumSquare",
)  # fmt: skip

# ONNX Runtime's own fusions that have a kernel in the CPU build of every release of
# `rules.opsets`: what 1.16.3 registers, and 1.17.3, 1.19.2 and 1.32.0 still do (measured).
CONTRIBUTED: Final = frozenset(
    {
        "Attention", "BiasGelu", "DynamicQuantizeLSTM", "DynamicQuantizeMatMul",
        "EmbedLayerNormalization", "FastGelu", "FusedConv", "FusedGemm", "FusedMatMul", "Gelu",
        "MatMulIntegerToFloat", "MultiHeadAttention", "QAttention", "QLinearAdd",
        "QLinearAveragePool", "QLinearConcat", "QLinearGlobalAveragePool", "QLinearLeakyRelu",
        "QLinearMul", "QLinearSigmoid", "QLinearSoftmax", "QuickGelu", "RotaryEmbedding",
        "SkipLayerNormalization", "TransposeMatMul",
    }
)  # fmt: skip
_OURS: Final = "com.microsoft:"

MAX_GROWTH: Final = 2.0
_SLACK_BYTES: Final = 1 << 20


def refusal(optimisation: str, operators: Mapping[str, int], opset: int) -> Refusal | None:
    """Why there is nothing to make of a model with these operators, as far as they can tell.

    >>> refusal("int8", {"TreeEnsembleRegressor": 1}, 17).code
    'nothing_to_quantise'
    """
    if optimisation == INT8:
        if not any(name in operators for name in QUANTISABLE):
            return nothing_to_quantise(operators)
        if opset < QUANTISABLE_FROM_OPSET:
            return Refusal(
                "opset_too_old",
                f"Dynamic quantisation needs opset {QUANTISABLE_FROM_OPSET}; this model has "
                f"{opset}.",
                "Export the original again with opset 17.",
            )
    if optimisation == FP16 and all(name.startswith("ai.onnx.ml:") for name in operators):
        return nothing_to_convert()
    return None


def nothing_to_quantise(operators: Mapping[str, int]) -> Refusal:
    """No matrix product with constant weights."""
    there = ", ".join(list(operators)[:6]) or "none"
    return Refusal(
        "nothing_to_quantise",
        "There is nothing to quantise: INT8 shortens the weights of matrix products, convolutions "
        f"and embeddings, and the model has none (its operators: {there}).",
        "Keep the original, or try the graph optimisation.",
    )


def nothing_constant_to_quantise() -> Refusal:
    """Operators that might be, but the quantiser took none of them."""
    return Refusal(
        "nothing_to_quantise",
        "There is nothing to quantise: the model’s matrix products and convolutions have no "
        "constant weights, or they stand inside an If or a Loop, which the quantiser leaves alone.",
        "Keep the original, or try the graph optimisation.",
    )


def nothing_to_convert() -> Refusal:
    """No FP32 weight that may become FP16."""
    return Refusal(
        "nothing_to_convert",
        "There is nothing to convert: no weight of the model is FP32 and may become FP16.",
        "Keep the original, or try the graph optimisation.",
    )


def nothing_gained(optimisation: str) -> Refusal:
    """The tool gave the graph back as it was."""
    return Refusal(
        "nothing_gained",
        "The graph comes back with the same operators: there is nothing to simplify."
        if optimisation == SIMPLIFY
        else "ONNX Runtime finds nothing in the graph to fuse or to fold.",
        "Keep the original, or try FP16 or INT8.",
    )


def grown(before_bytes: int, after_bytes: int) -> Refusal | None:
    """A file more than twice as large (and a MiB) is not lighter: constants were spelt out."""
    if after_bytes <= MAX_GROWTH * before_bytes + _SLACK_BYTES:
        return None
    return Refusal(
        "variant_larger",
        f"The file would grow from {_mib(before_bytes)} to {_mib(after_bytes)}: folding spells out "
        "constants that the original computes.",
        "Keep the original; it computes them in no time.",
    )


def strangers(operators: Mapping[str, int]) -> list[str]:
    """Operators of ONNX Runtime that not every release has on the CPU, hardware layouts among them.

    >>> strangers({"Conv": 1, "com.microsoft:FusedConv": 2, "com.microsoft.nchwc:Conv": 1})
    ['com.microsoft.nchwc:Conv']
    """
    return sorted(
        name
        for name in operators
        if name.startswith("com.microsoft")
        and not (name.startswith(_OURS) and name.removeprefix(_OURS) in CONTRIBUTED)
    )


def contributed(operators: Mapping[str, int]) -> list[str]:
    """Operators that only ONNX Runtime has, without their domain."""
    return sorted(n.removeprefix(_OURS) for n in operators if n.startswith(_OURS))


def _mib(size: int) -> str:
    return f"{size / 2**20:.1f} MiB"
