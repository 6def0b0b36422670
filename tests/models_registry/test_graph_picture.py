"""A graph of any size becomes a picture of few blocks that keeps its order."""

from __future__ import annotations

import pytest

from models_registry.exporting.graph_picture import MOST, TARGET, picture
from models_registry.exporting.graph_shapes import ShapedNode, shaped
from models_registry.exporting.protocol import TensorSpec
from models_registry.rules.flops import Operation
from tests.models_registry.model_files import plain

X = TensorSpec("x", "FP32", (-1, 4), ("batch", ""))
Y = TensorSpec("y", "FP32", (-1, 4), ("batch", ""))


def op(kind: str, reads: list[str], write: str) -> ShapedNode:
    return ShapedNode(Operation(kind, ((1, 4),), ((1, 4),)), tuple(reads), (write,), 0)


def residual(blocks: int) -> list[ShapedNode]:
    """x, then `blocks` times: two branches that are added; the mask m is read by all."""
    nodes = [op("Abs", ["x"], "m")]
    before = "x"
    for number in range(blocks):
        after = "y" if number == blocks - 1 else f"o{number}"
        nodes += [
            op("Conv", [before], f"a{number}"),
            op("Relu", [f"a{number}"], f"b{number}"),
            op("Mul", [f"b{number}", "m"], f"c{number}"),
            op("Add", [f"c{number}", before], after),
        ]
        before = after
    return nodes


def many_branches(count: int) -> list[ShapedNode]:
    """`count` branches of different kinds, all read at the end: no cut and no repetition."""
    nodes = [op("Split", ["x"], "s")]
    nodes += [op(f"Kind{number}", ["s"], f"t{number}") for number in range(count)]
    return [*nodes, op("Concat", [f"t{number}" for number in range(count)], "y")]


@pytest.mark.parametrize(
    "nodes", [residual(1), residual(9), residual(200), many_branches(30), many_branches(500)]
)
def test_few_blocks_hold_all_operators_and_lines_lead_down(nodes: list[ShapedNode]) -> None:
    drawn = picture(nodes, [X], [Y])
    blocks = {block["id"]: block for block in drawn["blocks"]}
    operators = [block for block in blocks.values() if block["kind"] == "operators"]
    assert len(operators) <= MOST
    assert sum(block["count"] for block in operators) == drawn["operators"] == len(nodes)
    assert all(blocks[a]["row"] < blocks[b]["row"] for a, b in drawn["edges"])
    places = [(block["row"], block["column"]) for block in blocks.values()]
    assert len(set(places)) == len(places)
    assert (drawn["rows"], drawn["columns"]) == (
        max(row for row, _ in places) + 1,
        max(column for _, column in places) + 1,
    )
    assert {block["kind"] for block in blocks.values()} == {"input", "operators", "output"}


def test_equal_blocks_are_folded() -> None:
    drawn = picture(residual(200), [X], [Y])
    assert max(block.get("repeated", 1) for block in drawn["blocks"]) >= 100
    assert len(drawn["blocks"]) < TARGET


def test_what_depends_on_no_input_is_not_drawn() -> None:
    nodes = [op("RandomWeights", [], "w"), op("Abs", ["w"], "v"), op("MatMul", ["x", "v"], "y")]
    drawn = picture(nodes, [X], [Y])
    assert [b["label"] for b in drawn["blocks"] if b["kind"] == "operators"] == ["MatMul"]


def test_shapes_are_those_of_one_row() -> None:
    (x,) = [TensorSpec("x", "FP32", (-1, 5), ("N", ""))]
    first, second, third = shaped(plain(), [x], {"N": 1})
    assert first.operation.inputs == ((1, 5), (5, 9))
    assert (first.parameters, second.operation.outputs, third.operation.outputs) == (
        45,
        ((1, 9),),
        ((1, 2),),
    )
