"""The arithmetic of operators against values worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest

from models_registry.rules.flops import Operation, Shape, estimate, flops


def op(kind: str, inputs: list[Shape | None], output: Shape | None, **attributes: Any) -> Operation:
    return Operation(kind, tuple(inputs), (output,), attributes)


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        # ResNet's first layer: 7 x 7 over 3 channels, 64 filters at 112 x 112: 118,013,952 MACs.
        (op("Conv", [(1, 3, 224, 224), (64, 3, 7, 7)], (1, 64, 112, 112)), 2 * 118_013_952),
        (op("Conv", [(1, 3, 8, 8), (4, 3, 1, 1), (4,)], (1, 4, 8, 8)), 2 * 768 + 256),
        # Depthwise: each filter sees one channel.
        (op("Conv", [(1, 32, 8, 8), (32, 1, 3, 3)], (1, 32, 8, 8), group=32), 2 * 2048 * 9),
        (op("ConvTranspose", [(1, 8, 4, 4), (8, 2, 2, 2)], (1, 2, 8, 8)), 2 * 128 * 8),
        (op("Gemm", [(1, 784), (128, 784), (128,)], (1, 128), transB=1), 2 * 784 * 128 + 128),
        (op("Gemm", [(784, 3), (784, 5)], (3, 5), transA=1), 2 * 784 * 15),
        (op("MatMul", [(1, 10), (10, 4)], (1, 4)), 80),
        # Attention of 12 heads over 128 tokens of 64 values: Q Kᵀ.
        (op("MatMul", [(1, 12, 128, 64), (1, 12, 64, 128)], (1, 12, 128, 128)), 25_165_824),
        (op("Einsum", [(2, 3, 4), (2, 4, 5)], (2, 3, 5), equation="bij, bjk -> bik"), 2 * 120),
        # One step, one direction: 8 H (I + H) for the gates' matrices, 17 H for the rest.
        (op("LSTM", [(7, 1, 10), (1, 80, 10)], None), 7 * (8 * 20 * 30 + 17 * 20)),
        (op("GRU", [(7, 2, 10), (2, 60, 10)], None), 7 * 2 * 2 * (6 * 20 * 30 + 13 * 20)),
        (op("Relu", [(1, 64)], (1, 64)), 64),
        (op("MaxPool", [(1, 4, 8, 8)], (1, 4, 4, 4), kernel_shape=[2, 2]), 256),
        (op("ReduceMean", [(1, 128, 768)], (1, 128, 1)), 98_304),
        (op("Softmax", [(1, 10)], (1, 10)), 50),
        (op("BatchNormalization", [(1, 4, 8, 8)], (1, 4, 8, 8)), 512),
        (op("Reshape", [None, (2,)], None), 0),
        (op("NonMaxSuppression", [(1, 5, 4)], (3, 3)), None),
        (op("MatMul", [(1, 10), None], None), None),
        (op("Einsum", [(2, 3), (3, 2)], (2, 2), equation="...ij,jk"), None),
    ],
)
def test_an_operator_takes_so_much(operation: Operation, expected: int | None) -> None:
    assert flops(operation) == expected


def test_an_estimate_says_what_it_left_out() -> None:
    found = estimate(
        [
            op("MatMul", [(1, 10), (10, 4)], (1, 4)),
            op("Relu", [(1, 4)], (1, 4)),
            op("MatMul", [(1, 4), (4, 2)], (1, 2)),
            op("TreeEnsembleRegressor", [(1, 4)], (1, 1)),
            op("Loop", [None], None),
        ]
    )
    assert found.total == 80 + 4 + 16
    assert list(found.by_kind.items()) == [("MatMul", 96), ("Relu", 4)]
    assert found.left_out == {"Loop": 1, "TreeEnsembleRegressor": 1}
