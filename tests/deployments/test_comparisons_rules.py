"""Answers of two versions: what differs, what breaks the contract, and how figures add up."""

from __future__ import annotations

import json
import math
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deployments.rules.experiments.comparison_figures import Figures, from_json, to_json
from deployments.rules.experiments.comparisons import (
    Answered,
    FaultKind,
    OutputRule,
    Tolerance,
    compare,
    count_values,
)
from deployments.rules.experiments.v2_answers import TensorAnswer, UnreadableAnswer, parse_answer

SCORE = OutputRule("score", "FP32", ("batch", 1), 0.0, 1.0)
LABEL = OutputRule("label", "BYTES", ("batch",))
CLOSE = Tolerance(1e-5, 1e-4)


def said(*scores: float, labels: list[str] | None = None) -> Answered:
    outputs = {"score": TensorAnswer("FP32", np.array(scores, "<f4").reshape(-1, 1))}
    if labels is not None:
        outputs["label"] = TensorAnswer("BYTES", np.array(labels, dtype=object))
    return Answered(outputs)


def one(left: Answered, right: Answered, *rules: OutputRule) -> Figures:
    return compare(left, right, rules or (SCORE,), CLOSE)


def test_rows_differ_beyond_the_tolerance_alone() -> None:
    found = one(said(0.2, 0.4, 0.6), said(0.2, 0.40001, 0.7))
    score = found.outputs["score"]
    assert (found.compared, found.differing) == (1, 1)
    assert (score.rows, score.differing_rows) == (3, 1)
    assert found.max_difference == pytest.approx(0.1, rel=1e-5)
    assert score.differences.counts[0] == 1
    assert score.differences.total == 3
    assert one(said(0.2), said(0.2)).differing == 0


@pytest.mark.parametrize(
    ("value", "kind"),
    [(math.nan, "nan"), (math.inf, "infinite"), (1.5, "range"), (-0.1, "range")],
)
def test_a_number_that_the_contract_forbids_is_the_fault_of_who_said_it(
    value: float, kind: str
) -> None:
    found = one(said(0.5), said(value))
    assert (found.baseline_faults, found.candidate_faults, found.differing) == (0, 1, 1)
    assert found.outputs["score"].candidate_faults == {kind: 1}
    assert found.outputs["score"].baseline_faults == {}


def test_the_same_nan_is_no_difference_and_no_fault_where_it_is_allowed() -> None:
    found = one(said(math.nan), said(math.nan))
    assert (found.differing, found.baseline_faults, found.candidate_faults) == (0, 1, 1)
    free = OutputRule("score", "FP32", ("batch", 1), nan_allowed=True)
    assert one(said(math.nan), said(math.nan), free).candidate_faults == 0
    assert one(said(0.5), said(math.nan), free).differing == 1


def test_texts_differ_unless_equal_and_have_no_distance() -> None:
    left, right = said(0.5, 0.5, labels=["a", "b"]), said(0.5, 0.5, labels=["a", "c"])
    found = one(left, right, SCORE, LABEL)
    assert found.outputs["label"].differing_rows == 1
    assert (found.differing, found.max_difference) == (1, 0.0)


def test_another_shape_type_or_name_is_a_fault_and_every_row_differs() -> None:
    wide = Answered({"score": TensorAnswer("FP32", np.zeros((2, 2), "<f4"))})
    found = one(said(0.0, 0.0), wide)
    assert found.outputs["score"].candidate_faults == {"shape": 1}
    assert found.outputs["score"].differing_rows == 2
    other = Answered({"score": TensorAnswer("FP64", np.zeros((1, 1)))})
    assert one(said(0.0), other).outputs["score"].candidate_faults == {"datatype": 1}
    assert one(said(0.0), Answered({})).outputs["score"].candidate_faults == {"missing": 1}


def test_errors_and_late_answers_are_faults_and_nothing_is_compared() -> None:
    found = one(said(0.5), Answered(fault=FaultKind.LATE))
    assert (found.sampled, found.compared, found.candidate_faults) == (1, 0, 1)
    assert found.outputs[""].candidate_faults == {"late": 1}
    assert one(Answered(fault=FaultKind.ERROR), said(math.nan)).baseline_faults == 1


def test_a_refusal_is_a_fault_only_where_the_other_version_takes_the_request() -> None:
    refused = Answered(refused=True)
    both = one(refused, refused)
    assert (both.compared, both.baseline_faults, both.candidate_faults) == (0, 0, 0)
    alone = one(said(0.5), refused)
    assert (alone.candidate_faults, alone.baseline_faults) == (1, 0)
    assert alone.outputs[""].candidate_faults == {"error": 1}


def test_without_a_contract_what_the_baseline_gave_is_compared() -> None:
    found = compare(said(0.5), said(math.nan), (), CLOSE)
    assert found.outputs["score"].candidate_faults == {"nan": 1}
    assert compare(said(5.0), said(5.0), (), CLOSE).candidate_faults == 0


def test_values_are_counted_within_the_range_of_the_contract() -> None:
    values = one(said(0.0, 0.5, 1.0), said(0.5)).outputs["score"].baseline_values
    assert values is not None
    assert (values.bounds[0], values.bounds[-1], values.total) == (0.0, 1.0, 3)
    assert count_values(np.array([0.5, 2.0, 9.0]), (1.0, 2.0)).counts == (1, 1, 1)


SIDES = st.lists(
    st.one_of(st.floats(-1, 2, width=32), st.sampled_from([math.nan, math.inf, -math.inf])),
    min_size=1,
    max_size=5,
)


@given(st.lists(st.tuples(SIDES, SIDES), max_size=6))
def test_figures_add_up_in_any_order_and_survive_being_stored(
    pairs: list[tuple[list[float], list[float]]],
) -> None:
    each = [one(said(*left), said(*right)) for left, right in pairs]
    total = sum(each, start=Figures())
    backwards = sum(reversed(each), start=Figures())
    assert total == backwards
    assert total.sampled == len(pairs)
    assert total.differing <= total.compared == len(pairs)
    assert from_json(json.loads(json.dumps(to_json(total.outputs)))) == total.outputs


@given(SIDES)
def test_an_answer_never_differs_from_itself(values: list[float]) -> None:
    assert one(said(*values), said(*values)).differing == 0


def binary(datatype: str, shape: list[int], data: bytes) -> tuple[bytes, int]:
    head = json.dumps(
        {
            "outputs": [
                {
                    "name": "y",
                    "datatype": datatype,
                    "shape": shape,
                    "parameters": {"binary_data_size": len(data)},
                }
            ]
        }
    ).encode()
    return head + data, len(head)


@pytest.mark.parametrize(
    ("datatype", "data", "wanted"),
    [
        ("BOOL", b"\x01\x00", [True, False]),
        ("INT64", np.array([1, -2], "<i8").tobytes(), [1, -2]),
        ("FP16", np.array([1.5, -2], "<f2").tobytes(), [1.5, -2.0]),
        ("BF16", b"\xc0\x3f\x00\xc0", [1.5, -2.0]),
        ("BYTES", struct.pack("<I", 1) + b"a" + struct.pack("<I", 2) + "é".encode(), ["a", "é"]),
    ],
)
def test_binary_answers_are_read(datatype: str, data: bytes, wanted: list[Any]) -> None:
    body, described = binary(datatype, [2], data)
    assert parse_answer(body, described)["y"].values.tolist() == wanted


def test_json_answers_are_read_whatever_triton_writes_for_no_number() -> None:
    outputs = [
        {"name": "y", "datatype": "FP32", "shape": [1, 2], "data": [1.5, None]},
        {"name": "n", "datatype": "INT32", "shape": [2, 1], "data": [[1], [2]]},
        {"name": "s", "datatype": "BYTES", "shape": [1], "data": ["a"]},
        {"name": "b", "datatype": "BOOL", "shape": [1], "data": [True]},
    ]
    found = parse_answer(json.dumps({"outputs": outputs}).encode())
    assert math.isnan(found["y"].values[0, 1])
    assert found["n"].values.tolist() == [[1], [2]]
    assert (found["s"].values.tolist(), found["b"].values.tolist()) == (["a"], [True])
    assert math.isnan(parse_answer(b'{"outputs":[{"name":"y","datatype":"FP32","shape":[1],'
                                   b'"data":[NaN]}]}')["y"].values[0])  # fmt: skip


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b'{"outputs": 1}',
        b'{"outputs":[{"name":"y","datatype":"FP32","shape":[3],"data":[1]}]}',
        b'{"outputs":[{"name":"y","datatype":"X","shape":[1],"data":[1]}]}',
        b'{"outputs":[{"name":"y","datatype":"FP32","shape":[1],"data":["a"]}]}',
        b'{"outputs":[{"name":"y","data":' + b"[" * 100_000,
    ],
)
def test_what_is_no_answer_is_said(body: bytes) -> None:
    with pytest.raises(UnreadableAnswer):
        parse_answer(body)
