"""Tolerances and verdicts on measured differences."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models_registry.rules import equivalence
from models_registry.rules.equivalence import OutputDifference


def _difference(ratio: float, *, different: int = 0) -> OutputDifference:
    return OutputDifference("y", "FP32", (0.0, 3.0, 1.0), 0.1, 0.5, ratio, different)


@pytest.mark.parametrize(
    ("dtypes", "atol", "rtol", "expected"),
    [
        (["FP32"], None, None, (1e-5, 1e-4)),
        (["FP64", "INT64"], None, None, (1e-10, 1e-8)),
        (["FP32", "FP16"], None, None, (1e-2, 1e-2)),
        (["INT64", "BYTES"], None, None, (1e-5, 1e-4)),
        (["FP32"], 1e-3, None, (1e-3, 1e-4)),
        (["FP16"], 1e-3, 0.0, (1e-3, 0.0)),
    ],
)
def test_the_least_precise_type_sets_the_tolerance(
    dtypes: list[str], atol: float | None, rtol: float | None, expected: tuple[float, float]
) -> None:
    found = equivalence.tolerance(dtypes, atol, rtol)

    assert (found.atol, found.rtol) == expected


@pytest.mark.parametrize(
    ("ratio", "different", "same_file", "verdict"),
    [
        (0.0, 0, False, "passed"),
        (1.0, 0, False, "passed"),
        (1.01, 0, False, "failed"),
        (1.01, 0, True, "warning"),
        (101.0, 0, True, "failed"),
        (0.0, 1, True, "failed"),
        (math.inf, 0, True, "failed"),
        (math.nan, 0, False, "failed"),
    ],
)
def test_a_difference_is_judged(
    ratio: float, different: int, same_file: bool, verdict: str
) -> None:
    assert _difference(ratio, different=different).verdict(same_file=same_file) == verdict


def test_the_worst_sample_is_the_one_with_the_greatest_error() -> None:
    assert _difference(1.0).worst_sample == 1
    assert _difference(1.0).max_abs == 3.0


@given(st.lists(st.floats(0, 1e6), min_size=1), st.floats(0, 100))
def test_a_percentile_is_one_of_the_values_with_enough_below(
    values: list[float], percent: float
) -> None:
    found = equivalence.percentile(values, percent)

    assert found in values
    assert sum(value <= found for value in values) >= math.floor(percent / 100 * len(values))
    assert equivalence.percentile(values, 100) == max(values)


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        (["passed", "skipped"], "passed"),
        (["passed", "warning"], "warning"),
        (["warning", "failed", "passed"], "failed"),
        ([], "passed"),
    ],
)
def test_a_report_is_as_bad_as_its_worst_line(verdicts: list[str], expected: str) -> None:
    assert equivalence.overall(verdicts) == expected  # type: ignore[arg-type]


def test_a_version_of_lower_precision_has_a_tolerance_of_its_own() -> None:
    int8 = equivalence.tolerance(["FP32"], optimisation="int8")
    assert (int8.atol, int8.rtol, int8.share) == (0.05, 0.05, 0.05)
    assert int8.source == "default for versions optimised as int8"
    assert int8.of(20.0).atol == 1.0
    fp16 = equivalence.tolerance(["FP32"], optimisation="fp16")
    assert (fp16.of(20.0).atol, fp16.rtol, fp16.share) == (0.01, 0.01, 0.01)
    agreed = equivalence.tolerance(["FP32"], 0.2, 0.1, "int8")
    assert (agreed.of(3.0).atol, agreed.share) == (pytest.approx(0.6), 0.1)
    assert agreed.source == "set for versions optimised as int8"
    assert equivalence.tolerance(["FP64"], optimisation="graph") == equivalence.tolerance(["FP64"])


def test_a_few_other_labels_of_a_version_of_lower_precision_are_a_warning() -> None:
    labels = OutputDifference("label", "INT64", (0.0, 1.0), 0.0, 0.5, 0.0, 3, tolerated=3, worst=0)
    assert labels.verdict() == "warning"
    assert labels.worst_sample == 0
    assert OutputDifference("label", "INT64", (1.0,), 0.0, 0.5, 0.0, 4, 3).verdict() == "failed"
