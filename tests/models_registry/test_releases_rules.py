"""The moves of a release, and whether a graph keeps a promise."""

from __future__ import annotations

import pytest

from console.errors import Conflict
from models_registry.exporting.protocol import TensorSpec
from models_registry.rules import contract_document, releases
from tests.factories import INPUTS, OUTPUTS, contract_body

STATES = ("proposed", "approved", "refused", "withdrawn")
LEGAL = {("proposed", "approved"), ("proposed", "refused"), ("proposed", "withdrawn")}


@pytest.mark.parametrize("before", STATES)
@pytest.mark.parametrize("after", STATES)
def test_the_moves_of_a_release(before: str, after: str) -> None:
    assert releases.may_move(before, after) == ((before, after) in LEGAL)
    if (before, after) in LEGAL:
        releases.check_move(before, after, "It")
    else:
        with pytest.raises(Conflict):
            releases.check_move(before, after, "It")


@pytest.mark.parametrize(
    ("inputs", "outputs", "words"),
    [
        (INPUTS, OUTPUTS, []),
        # A free axis serves a fixed promise; not the other way round.
        ((TensorSpec("features", "FP32", (-1, -1), ("batch", "width")),), OUTPUTS, []),
        ((TensorSpec("features", "FP32", (4, 10), ("", "")),), OUTPUTS, ["[4, 10]"]),
        ((TensorSpec("features", "FP64", (-1, 10), ("batch", "")),), OUTPUTS, ["FP64"]),
        ((TensorSpec("x", "FP32", (-1, 10), ("batch", "")),), OUTPUTS, ["features", "input x"]),
        ((TensorSpec("features", "FP32", (10,), ("",)),), OUTPUTS, ["[10]"]),
        (INPUTS, (*OUTPUTS, TensorSpec("debug", "FP32", (-1,), ("batch",))), []),
        ((*INPUTS, TensorSpec("mask", "FP32", (-1,), ("batch",))), OUTPUTS, ["mask"]),
        (INPUTS, (), ["risk_score"]),
    ],
)
def test_whether_a_graph_keeps_a_contract(inputs, outputs, words: list[str]) -> None:
    contract = contract_document.from_json(contract_body())
    faults = releases.misfits(contract, inputs, outputs, batched=False)
    assert len(faults) == len(words)
    for fault, word in zip(faults, words, strict=True):
        assert word in fault


@pytest.mark.parametrize("dims", [["batch"], ["batch", 1]])
def test_what_is_batch_alone_keeps_its_promise_as_triton_serves_it(dims: list[str | int]) -> None:
    body = contract_body()
    body["interface"]["outputs"] = [{"name": "risk_score", "dtype": "FP32", "dims": dims}]
    contract = contract_document.from_json(body)
    outputs = (TensorSpec("risk_score", "FP32", (-1,), ("batch",)),)
    assert releases.misfits(contract, INPUTS, outputs, batched=True) == ()
    assert bool(releases.misfits(contract, INPUTS, outputs, batched=False)) is (len(dims) == 2)
