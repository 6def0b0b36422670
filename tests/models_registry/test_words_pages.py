"""Figures, distributions and rows as the registry's pages show them."""

from __future__ import annotations

from itertools import pairwise

import pytest
from django.http import QueryDict
from hypothesis import given
from hypothesis import strategies as st

from console.errors import FieldError
from models_registry.rules.error_distribution import MOST_BINS, distribution, position
from models_registry.views.tensor_rows import TensorRow, rows_from, rows_of, with_faults
from models_registry.views.version_words import figure, settings_rows, small


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (3.1e-7, "", "3.1e-7"),
        (1e-5, "", "1e-5"),
        (0.0, "", "0"),
        (0.42, "", "0.42"),
        (71.0, "ms", "71\u00a0ms"),
        (0.005, "MiB", "5.12\u00a0KiB"),
        (2048, "bytes", "2\u00a0KiB"),
        ("opset 17, IR 8", "", "opset 17, IR 8"),
        (None, "ms", ""),
        (1234, "", "1,234"),
        (12_345_678.0, "", "1.2e7"),
    ],
)
def test_figures_are_short_and_true(value: object, unit: str, text: str) -> None:
    assert figure(value, unit) == text


def test_errors_are_counted_by_powers_of_ten() -> None:
    bins = distribution([0.0, 0.0, 3e-8, 1e-7, 2e-7, 4e-6, "NaN"], 1e-5)
    assert [(one.label, one.count) for one in bins] == [
        ("0", 2),
        ("1e-10–1e-9", 0),
        ("1e-9–1e-8", 0),
        ("1e-8–1e-7", 2),
        ("1e-7–1e-6", 1),
        ("1e-6–1e-5", 1),
    ]
    by_label = {one.label: one.count for one in bins}
    assert by_label["1e-8–1e-7"] == 2, "a power of ten belongs to the bin below it"
    assert position(bins, 1e-5) == len(bins) - 0.5
    assert position(bins, 1.0) is None


def test_there_may_be_nothing_to_count() -> None:
    assert distribution([], 1e-5) == ()
    assert distribution(["NaN", "Infinity"], 1e-5) == ()
    assert distribution([0.0], 0.0)[0].count == 1


@given(
    st.lists(st.floats(min_value=0, max_value=1e6, allow_nan=False), min_size=1, max_size=100),
    st.floats(min_value=1e-8, max_value=1.0),
)
def test_every_error_is_in_exactly_one_bin(errors: list[float], limit: float) -> None:
    bins = distribution(errors, limit)
    assert sum(one.count for one in bins) == len(errors)
    assert len(bins) <= MOST_BINS + 1
    assert all(low.high <= high.low * (1 + 1e-9) for low, high in pairwise(bins[1:]))
    where = position(bins, limit)
    assert where is not None
    assert 0.4 <= where <= len(bins) - 0.4


def test_rows_are_read_in_their_order_and_empty_ones_left_out() -> None:
    posted = QueryDict(
        "input_name=a&input_dtype=FP32&input_dims=batch,+10&input_min=-1&input_max="
        "&input_name=&input_dtype=FP32&input_dims=&input_min=&input_max="
        "&input_name=b&input_dtype=INT64&input_dims=batch&input_min=&input_max=many"
    )
    rows = rows_from(posted, "input")
    assert [row.document() for row in rows] == [
        {"name": "a", "dtype": "FP32", "dims": ["batch", 10], "min": -1.0},
        {"name": "b", "dtype": "INT64", "dims": ["batch"], "max": "many"},
    ]
    marked = with_faults(rows, [FieldError("/inputs/1/max", "give a number")], "inputs")
    assert marked[1].faults == {"max": "give a number"}
    assert marked[0].faults == {}
    shape = with_faults(rows, [FieldError("/inputs/0/shape/1", "is too large")], "inputs")
    assert shape[0].faults == {"dims": "is too large"}


def test_a_tensor_goes_into_a_row_and_back() -> None:
    spec = {"name": "x", "dtype": "FP32", "shape": [-1, 10], "dims": ["batch", ""], "min": -10.0}
    (row,) = rows_of([spec])
    assert row == TensorRow("x", "FP32", "batch, 10", "-10", "")
    assert row.document() == {"name": "x", "dtype": "FP32", "dims": ["batch", 10], "min": -10.0}


def test_settings_come_in_their_order_with_units() -> None:
    origins = {
        "queue_delay_us": {"value": 1500, "origin": "measured", "reason": ""},
        "response_cache": {"value": False, "origin": "default", "reason": ""},
        "preferred_batch_sizes": {"value": [4, 8], "origin": "set_by_user", "reason": ""},
        "something_new": {"value": 3, "origin": "default", "reason": ""},
    }
    rows = settings_rows(origins)
    assert [(row["name"], row["value"]) for row in rows] == [
        ("preferred_batch_sizes", "4, 8"),
        ("queue_delay_us", "1.5\u00a0ms"),
        ("response_cache", "off"),
        ("something_new", "3"),
    ]


def test_small_numbers_of_any_kind() -> None:
    assert small("Infinity") == "Infinity"
    assert small(None) == "—"
