"""Requests as rows for rules: JSON and binary say the same, and nothing that comes is fatal."""

from __future__ import annotations

import json
import math
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deployments.rules.fallback.rule_requests import (
    MOST_ROWS,
    RuleRequest,
    UnreadableRequest,
    read_v1,
    read_v2,
)
from models_registry.rules.contract_types import Tensor

TENSORS = {
    "x": Tensor("x", "FP32", ("batch", 2)),
    "age": Tensor("age", "INT16", ("batch", 1)),
    "word": Tensor("word", "BYTES", ("batch",)),
    "half": Tensor("half", "BF16", ("batch",)),
    "mode": Tensor("mode", "UINT8", (1,)),
}
EVERY = frozenset(TENSORS)

rows = st.lists(
    st.tuples(
        st.lists(
            st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=2, max_size=2
        ),
        st.integers(-(2**15), 2**15 - 1),
        st.text(max_size=5),
    ),
    min_size=1,
    max_size=5,
)


def v2(*inputs: tuple[str, str, list[int], Any]) -> bytes:
    told = [
        {"name": name, "datatype": dtype, "shape": shape, "data": data}
        for name, dtype, shape, data in inputs
    ]
    return json.dumps({"id": "7", "inputs": told}).encode()


def binary(*inputs: tuple[str, str, list[int], bytes]) -> tuple[bytes, int]:
    told = [
        {
            "name": name, "datatype": dtype, "shape": shape,
            "parameters": {"binary_data_size": len(data)},
        }
        for name, dtype, shape, data in inputs
    ]  # fmt: skip
    head = json.dumps({"inputs": told}).encode()
    return head + b"".join(data for *_, data in inputs), len(head)


@given(rows)
def test_json_and_binary_requests_give_the_same_rows(values: list[Any]) -> None:
    count = len(values)
    flat = [value for x, _, _ in values for value in x]
    ages, words = [age for _, age, _ in values], [word for *_, word in values]
    wanted = tuple({"x": x, "age": age, "word": word} for x, age, word in values)
    plain = v2(
        ("x", "FP32", [count, 2], flat),
        ("age", "INT16", [count, 1], [[age] for age in ages]),
        ("word", "BYTES", [count], words),
    )
    assert read_v2(plain, None, TENSORS, EVERY) == RuleRequest(wanted, "7")
    texts = b"".join(struct.pack("<I", len(w.encode())) + w.encode() for w in words)
    body, described = binary(
        ("x", "FP32", [count, 2], struct.pack(f"<{2 * count}f", *flat)),
        ("age", "INT16", [count, 1], struct.pack(f"<{count}h", *ages)),
        ("word", "BYTES", [count], texts),
    )
    assert read_v2(body, described, TENSORS, EVERY).rows == wanted


def test_what_does_not_fit_is_missing_and_the_rest_is_there() -> None:
    body = v2(
        ("x", "FP32", [2, 2], [1, 2, None, 4]),
        ("age", "INT32", [2, 1], [1, 2]),
        ("half", "BF16", [2], [0.5, "x"]),
        ("mode", "UINT8", [1], [3]),
    )
    assert read_v2(body, None, TENSORS, EVERY).rows == (
        {"x": [1.0, 2.0], "half": 0.5, "mode": 3},
        {"x": [None, 4.0], "half": None, "mode": 3},
    )
    other_shape = v2(("x", "FP32", [2, 3], [0] * 6), ("word", "BYTES", [2], ["a", "b"]))
    assert read_v2(other_shape, None, TENSORS, EVERY).rows[1] == {"x": None, "word": "b"}
    body, described = binary(("half", "BF16", [2], struct.pack("<2H", 0x3F80, 0x7FC0)))
    first, second = read_v2(body, described, TENSORS, EVERY).rows
    assert first == {"half": 1.0}
    assert math.isnan(second["half"])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "body",
    [
        b"", b"{}", b"[]", b"{", b"\xff", b'{"inputs": null}', b'{"inputs": [[]]}', b"[" * 50_000,
        v2(("x", "FP32", [MOST_ROWS + 1, 2], [])), v2(("x", "FP32", [-1, 2], [])),
        b'{"inputs": [{"name": "x", "datatype": "FP32", "shape": [], "data": []}]}',
        b'{"inputs": [{"name": "x", "datatype": "FP32", "shape": [1e400, 2], "data": []}]}',
    ],
)  # fmt: skip
def test_what_is_no_request_is_said_to_be_none(body: bytes) -> None:
    with pytest.raises(UnreadableRequest):
        read_v2(body, None, TENSORS, EVERY)


@given(st.binary(max_size=200), st.one_of(st.none(), st.integers(-5, 300)))
def test_any_bytes_are_rows_or_no_request(body: bytes, described: int | None) -> None:
    for read in (lambda: read_v2(body, described, TENSORS, EVERY), lambda: read_v1(body, TENSORS)):
        try:
            read()
        except UnreadableRequest:
            continue


json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=4)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=4), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(json_values, json_values, json_values)
def test_any_values_are_rows_or_no_request(data: Any, shape: Any, parameters: Any) -> None:
    one = {"name": "x", "datatype": "FP32", "shape": shape, "data": data, "parameters": parameters}
    try:
        asked = read_v2(json.dumps({"inputs": [one]}).encode(), None, TENSORS, EVERY)
    except UnreadableRequest:
        return
    assert all(row["x"] is None or isinstance(row["x"], list) for row in asked.rows)


def test_plain_instances_are_rows() -> None:
    body = b'{"instances": [{"age": 3, "word": "a"}, {"age": "x"}]}'
    assert read_v1(body, TENSORS).rows == ({"age": 3, "word": "a"}, {})
    only = {"age": TENSORS["age"]}
    assert read_v1(b'{"instances": [4, 5]}', only).rows == ({"age": 4}, {"age": 5})
