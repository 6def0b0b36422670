"""Operators that ONNX Runtime has beside ONNX's own, release by release.

Measured: the schemas that each released CPU wheel lists
(`onnxruntime.capi.onnxruntime_pybind11_state.get_all_operator_schema()`). A schema says that the
release knows the operator; whether it has a kernel for the CPU shows when the file is loaded.
"""

from __future__ import annotations

from typing import Final

DOMAIN: Final = "com.microsoft"

# Operators of ONNX Runtime 1.16, and what each later release added; none took any away.
_ADDED: Final[dict[str, str]] = {
    "1.16": (
        "Attention AttnLSTM BeamSearch BiasAdd BiasDropout BiasGelu BiasSoftmax BiasSplitGelu "
        "BifurcationDetector BitmaskBiasDropout BitmaskDropout CDist ComplexMul "
        "ComplexMulConj ConvTransposeWithDynamicPads CropAndResize DecoderAttention "
        "DecoderMaskedMultiHeadAttention DecoderMaskedSelfAttention DequantizeBFP "
        "DequantizeLinear DequantizeWithOrder DynamicQuantizeLSTM DynamicQuantizeMatMul "
        "EmbedLayerNormalization ExpandDims FastGelu FusedConv FusedGemm FusedMatMul "
        "FusedMatMulActivation GatedRelativePositionBias GatherND Gelu GemmFastGelu "
        "GreedySearch GridSample GroupNorm GroupQueryAttention Inverse Irfft IsAllFinite "
        "LongformerAttention MatMulBnb4 MatMulFpQ4 MatMulInteger16 MatMulIntegerToFloat "
        "MatMulNBits MaxpoolWithMask MulInteger MultiHeadAttention MurmurHash3 "
        "NGramRepeatBlock NhwcConv NhwcFusedConv NhwcMaxPool PackedAttention "
        "PackedMultiHeadAttention Pad QAttention QEmbedLayerNormalization QGemm QLinearAdd "
        "QLinearAveragePool QLinearConcat QLinearConv QLinearGlobalAveragePool "
        "QLinearLeakyRelu QLinearMul QLinearReduceMean QLinearSigmoid QLinearSoftmax "
        "QLinearWhere QOrderedAttention QOrderedGelu QOrderedLayerNormalization "
        "QOrderedLongformerAttention QOrderedMatMul QuantizeBFP QuantizeLinear "
        "QuantizeWithOrder QuickGelu Range ReduceSumInteger RelativePositionBias "
        "RemovePadding RestorePadding Rfft RotaryEmbedding SampleOp Sampling SkipGroupNorm "
        "SkipLayerNormalization SkipSimplifiedLayerNormalization Snpe SparseToDenseMatMul "
        "Tokenizer TorchEmbedding TransposeMatMul Trilu Unique WordConvEmbedding "
    ),
    "1.17": ("DynamicTimeWarping EPContext GemmFloat8 MoE UnfoldTensor WhisperBeamSearch "),
    "1.18": ("GemmaRotaryEmbedding QMoE SparseAttention "),
    "1.20": ("GatherBlockQuantized "),
    "1.23": ("PagedAttention "),
    "1.27": ("CausalConvWithState LinearAttention MatMulNBitsMlp MatMulNBitsQkv "),
    "1.32": (
        "BranchwiseRMSNorm ConvStateReplay DynamicSparseAttention EngramGate GatedAdd "
        "GatedDeltaNet GatedDeltaNetStateReplay GatedRMSNorm GatherPacked "
        "HyperConnectionLowRankMix HyperConnectionPostMix HyperConnectionPreMix "
        "LinearAttentionGate MRotaryEmbedding Mamba2Verify MatMulBlockQuantizedFp4Weight "
        "MatMulBlockQuantizedFp8Weight MatMulNBitsQLoRA MatMulPacked MoEGroupRouter MoEPacked "
        "NGramHashMapping PackedSparseAttentionIndexer PackedSparseAttentionIndexerMerge "
        "RMSNormRotary RouterGateUpProj ScaledSiLU SparseAttentionIndexer "
        "SparsePagedAttention SpeculativePrefixCommit SwiGLU VarlenCausalConvWithState "
        "VarlenNGramHashMapping "
    ),
}

# What ONNX Runtime's own optimisations write; a file that holds them runs on this release only.
_INTERNAL: Final = frozenset({"com.microsoft.nchwc", "com.ms.internal.nhwc"})
# ONNX's own domains: their operators are told by opset.
STANDARD: Final = frozenset({"", "ai.onnx", "ai.onnx.ml"})


def known(runtime: str) -> frozenset[str]:
    """Names of the operators of `DOMAIN` in ONNX Runtime `runtime` ("1.19")."""
    found: set[str] = set()
    for release, names in _ADDED.items():
        if _order(release) <= _order(runtime):
            found.update(names.split())
    return frozenset(found)


def has(runtime: str, domain: str, operator: str) -> bool:
    """Whether ONNX Runtime `runtime` has an operator of a domain that is not ONNX's own."""
    return domain in _INTERNAL or (domain == DOMAIN and operator in known(runtime))


def since(operator: str) -> str | None:
    """The first release of ONNX Runtime, 1.16 or later, that has an operator of `DOMAIN`."""
    for release, names in _ADDED.items():
        if operator in names.split():
            return release
    return None


def _order(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in release.split("."))
