"""How much arithmetic one inference takes, estimated operator by operator from tensor shapes.

Convention: one multiplication and one addition count as two operations (2 FLOPs for one MAC), as in
Kaplan et al., "Scaling Laws for Neural Language Models" (2020), section 2.1, and in most papers'
"FLOPs"; papers on convolutional networks often print MACs, which is half. What only moves or names
data (Reshape, Transpose, Gather, Concat …) counts as nothing. A function such as Exp or Erf counts
as one operation although it takes more: an estimate to compare models by, not a time.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Operation:
    """One operator of the graph with the shapes of what goes in and comes out.

    A shape is None where it is not known; an input that is left out is ().  `attributes` are plain
    values (int, float, str, lists of them).
    """

    kind: str
    inputs: tuple[Shape | None, ...]
    outputs: tuple[Shape | None, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    domain: str = ""


@dataclass(frozen=True, slots=True)
class Estimate:
    """`total` operations of one inference; `by_kind` what each operator takes of it.

    `left_out` names the operators that were not counted, with how many of each there are.
    """

    total: int
    by_kind: Mapping[str, int]
    left_out: Mapping[str, int]


def estimate(operations: Iterable[Operation]) -> Estimate:
    """Count all operations that have a formula and known shapes."""
    taken: Counter[str] = Counter()
    left_out: Counter[str] = Counter()
    for operation in operations:
        count = flops(operation)
        if count is None:
            left_out[operation.kind] += 1
        elif count:
            taken[operation.kind] += count
    ordered = dict(sorted(taken.items(), key=lambda item: (-item[1], item[0])))
    return Estimate(sum(taken.values()), ordered, dict(sorted(left_out.items())))


def flops(operation: Operation) -> int | None:
    """Operations of one operator; None where its formula or a shape is not known.

    >>> flops(Operation("MatMul", ((1, 10), (10, 4)), ((1, 4),)))
    80
    """
    if operation.kind in _FREE:
        return 0
    formula = _FORMULAS.get(operation.kind)
    if formula is None:
        return None
    try:
        return formula(operation)
    except (_Unknown, IndexError, KeyError):
        return None


class _Unknown(Exception):
    """A shape that the formula needs is not known."""


def _input(operation: Operation, index: int) -> Shape:
    return _known(operation.inputs, index)


def _output(operation: Operation, index: int = 0) -> Shape:
    return _known(operation.outputs, index)


def _known(shapes: Sequence[Shape | None], index: int) -> Shape:
    shape = shapes[index]
    if shape is None or any(size < 0 for size in shape):
        raise _Unknown
    return shape


def _has(operation: Operation, index: int) -> bool:
    """Whether an optional input is given; the ONNX way to leave one out is an empty name."""
    return len(operation.inputs) > index and operation.inputs[index] != ()


def _convolution(operation: Operation, data: int = 0, weight: int = 1, bias: int = 2) -> int:
    """2 x output elements x (input channels / groups) x kernel elements, and the bias.

    ONNX: W is [M, C/group, k1, k2, …] (Conv).
    """
    _input(operation, data)
    kernel, out = _input(operation, weight), math.prod(_output(operation))
    return 2 * out * math.prod(kernel[1:]) + (out if _has(operation, bias) else 0)


def _transposed_convolution(operation: Operation) -> int:
    """Each input element meets each weight of its group: 2 x input elements x M/group x kernel.

    ONNX: W is [C, M/group, k1, k2, …] (ConvTranspose).
    """
    data, kernel = _input(operation, 0), _input(operation, 1)
    bias = math.prod(_output(operation)) if _has(operation, 2) else 0
    return 2 * math.prod(data) * math.prod(kernel[1:]) + bias


def _gemm(operation: Operation) -> int:
    """2 M N K, and M N for C."""
    a, out = _input(operation, 0), math.prod(_output(operation))
    inner = a[0] if operation.attributes.get("transA") else a[1]
    return 2 * out * inner + (out if _has(operation, 2) else 0)


def _product(operation: Operation) -> int:
    """2 x output elements x K, whatever axes are batched: attention's Q Kᵀ and A V too."""
    return 2 * math.prod(_output(operation)) * _input(operation, 0)[-1]


def _einsum(operation: Operation) -> int:
    """2 x the product of all indices' sizes for two operands, n for n of them.

    The cost without a clever order (numpy.einsum_path calls it the naive FLOP count).
    """
    equation = str(operation.attributes["equation"]).replace(" ", "")
    terms = equation.partition("->")[0].split(",")
    sizes: dict[str, int] = {}
    for index, term in enumerate(terms):
        shape = _input(operation, index)
        if "." in term or len(term) != len(shape):
            raise _Unknown
        sizes |= dict(zip(term, shape, strict=True))
    return max(2, len(terms)) * math.prod(sizes.values())


def _recurrent(gates: int, extra: int) -> Callable[[Operation], int]:
    """2 x gates x H x (I + H) for the matrices of one step, `extra` x H for what follows them.

    ONNX: X is [steps, batch, I], W is [directions, gates x H, I] (LSTM 4 gates, GRU 3, RNN 1);
    the rest is two bias vectors, the activations and the products with the old state.
    """

    def formula(operation: Operation) -> int:
        steps, rows, size = _input(operation, 0)
        directions, wide, _ = _input(operation, 1)
        hidden = wide // gates
        step = 2 * gates * hidden * (size + hidden) + extra * hidden
        return steps * rows * directions * step

    return formula


def _per_output(each: int) -> Callable[[Operation], int]:
    def formula(operation: Operation) -> int:
        return each * math.prod(_output(operation))

    return formula


def _per_input(each: int) -> Callable[[Operation], int]:
    def formula(operation: Operation) -> int:
        return each * math.prod(_input(operation, 0))

    return formula


def _pool(operation: Operation) -> int:
    """One operation for each element of each window."""
    kernel = operation.attributes["kernel_shape"]
    return math.prod(_output(operation)) * math.prod(int(size) for size in kernel)


def _joined(operation: Operation) -> int:
    """Sum, Mean, Max, Min of n tensors: n - 1 operations for each element."""
    return math.prod(_output(operation)) * max(1, len(operation.inputs) - 1)


def _quantised_convolution(operation: Operation) -> int:
    """QLinearConv: x, scale, zero, w, scale, zero, scale, zero, bias."""
    return _convolution(operation, 0, 3, 8)


def _quantised_product(operation: Operation) -> int:
    """QLinearMatMul: a, scale, zero, b, …"""
    return 2 * math.prod(_output(operation)) * _input(operation, 0)[-1]


_ELEMENTWISE = (
    "Add", "Sub", "Mul", "Div", "Pow", "Mod", "Neg", "Abs", "Exp", "Log", "Sqrt", "Reciprocal",
    "Sin", "Cos", "Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh", "Asinh", "Acosh", "Atanh", "Erf",
    "Relu", "PRelu", "LeakyRelu", "Elu", "Selu", "ThresholdedRelu", "Clip", "Sigmoid",
    "HardSigmoid", "Tanh", "Softplus", "Softsign", "Sign", "Floor", "Ceil", "Round",
    "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "And", "Or", "Xor", "Not",
    "BitShift", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot", "IsNaN", "IsInf", "Where",
)  # fmt: skip
_REDUCTIONS = (
    "ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ArgMax", "ArgMin",
    "GlobalAveragePool", "GlobalMaxPool", "CumSum",
)  # fmt: skip
# Squares or logarithms come before the sum.
_REDUCTIONS_OF_TWO = (
    "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp", "GlobalLpPool",
)  # fmt: skip
_FREE: Final = frozenset((
    "Identity", "Constant", "ConstantOfShape", "Shape", "Size", "Reshape", "Flatten", "Squeeze",
    "Unsqueeze", "Transpose", "Concat", "Split", "Slice", "Gather", "GatherND", "GatherElements",
    "Scatter", "ScatterND", "ScatterElements", "Expand", "Tile", "Pad", "Cast", "CastLike",
    "DepthToSpace", "SpaceToDepth", "Dropout", "Range", "OneHot", "NonZero", "Compress",
    "ReverseSequence", "EyeLike", "Trilu", "SequenceAt", "SequenceConstruct", "SequenceInsert",
    "SplitToSequence", "ConcatFromSequence", "ZipMap", "CastMap", "LabelEncoder",
    "FeatureVectorizer", "ArrayFeatureExtractor",
))  # fmt: skip
_FORMULAS: Final[dict[str, Callable[[Operation], int]]] = {
    "Conv": _convolution,
    "ConvInteger": lambda operation: _convolution(operation, bias=99),
    "QLinearConv": _quantised_convolution,
    "ConvTranspose": _transposed_convolution,
    "Gemm": _gemm,
    "MatMul": _product,
    "MatMulInteger": _product,
    "QLinearMatMul": _quantised_product,
    "Einsum": _einsum,
    # Beside the matrices: 2 biases and 1 activation a gate; c = f c + i g, tanh, o (LSTM) …
    "LSTM": _recurrent(4, 4 * 3 + 5),
    "GRU": _recurrent(3, 3 * 3 + 4),
    "RNN": _recurrent(1, 3),
    "MaxPool": _pool,
    "AveragePool": _pool,
    "LpPool": _pool,
    "Sum": _joined,
    "Mean": _joined,
    "Max": _joined,
    "Min": _joined,
    # Folded to a factor and an offset for each channel.
    "BatchNormalization": _per_output(2),
    # Mean, difference, square, mean, root and division, factor and offset.
    "LayerNormalization": _per_output(8),
    "InstanceNormalization": _per_output(8),
    "GroupNormalization": _per_output(8),
    "MeanVarianceNormalization": _per_output(6),
    "LpNormalization": _per_output(4),
    "LRN": _per_output(6),
    # Maximum, difference, exponential, sum, division.
    "Softmax": _per_output(5),
    "LogSoftmax": _per_output(5),
    "Hardmax": _per_output(2),
    # x Φ(x): division, erf, sum, two products; Mish: x tanh(softplus x); x sigmoid(x).
    "Gelu": _per_output(5),
    "Mish": _per_output(4),
    "HardSwish": _per_output(4),
    # Two products and a sum along each of two axes (linear).
    "Resize": _per_output(6),
    "Upsample": _per_output(6),
    "GridSample": _per_output(8),
    "QuantizeLinear": _per_output(3),
    "DequantizeLinear": _per_output(2),
    "DynamicQuantizeLinear": _per_input(5),
    "Scaler": _per_output(2),
    "Normalizer": _per_output(3),
    "LinearRegressor": lambda operation: (
        2 * math.prod(_output(operation)) * _input(operation, 0)[-1]
    ),
    **dict.fromkeys(_ELEMENTWISE, _per_output(1)),
    **dict.fromkeys(_REDUCTIONS, _per_input(1)),
    **dict.fromkeys(_REDUCTIONS_OF_TWO, _per_input(2)),
}
