"""Drift of features and entropy of outputs, checked against SciPy and by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from deployments.rules.telemetry.drift import (
    OTHER,
    drift_of,
    ks_by_chance,
    ks_statistic,
    number_reference,
    reference_of,
    stability_index,
    text_reference,
)
from deployments.rules.telemetry.entropy import row_entropies
from deployments.rules.telemetry.windows import MOST_OF_ONE, Window
from models_registry.rules.feature_values import Column, columns_of
from models_registry.rules.reference_samples import KeptFeature


def samples(fewest: int) -> st.SearchStrategy[list[float]]:
    """Rounded numbers, so that ties occur."""
    one = st.floats(-50, 50, allow_nan=False).map(lambda value: round(value, 1))
    return st.lists(one, min_size=fewest, max_size=200)


def numbers(array: object) -> Column:
    return Column("number", np.asarray(array, np.float64))


@given(samples(5), samples(5))
@settings(max_examples=150, deadline=None)
def test_the_statistic_is_that_of_scipy(one: list[float], other: list[float]) -> None:
    ours = ks_statistic(np.sort(one), np.sort(other))
    assert ours == pytest.approx(stats.ks_2samp(one, other, method="asymp").statistic, abs=1e-12)


def test_what_chance_gives_is_the_known_bound() -> None:
    # Smirnov's table: c(0.05) = 1.358.
    assert ks_by_chance(1000, 1000) == pytest.approx(1.3581 * math.sqrt(2 / 1000), abs=1e-4)
    assert ks_by_chance(1, 1) == 1.0


def test_chance_alone_rarely_exceeds_the_bound() -> None:
    source = np.random.default_rng(7)
    above = 0
    for _ in range(200):
        training = number_reference("x", source.normal(size=1000))
        found = drift_of(training, numbers(source.normal(size=300)))
        above += found.score > found.by_chance
    assert above <= 20  # 5 % are expected: 10 of 200


def test_the_same_data_does_not_drift_and_other_data_does() -> None:
    source = np.random.default_rng(1)
    training = source.normal(size=5000)
    reference = number_reference("amount", training)
    still = drift_of(reference, numbers(source.normal(size=1000)))
    moved = drift_of(reference, numbers(source.normal(loc=1.0, size=1000)))
    assert still.score < 0.06
    assert still.psi < 0.05
    # Two normal distributions a deviation apart: 2 Φ(1/2) - 1.
    assert moved.score == pytest.approx(2 * stats.norm.cdf(0.5) - 1, abs=0.05)
    assert moved.psi > 0.25


def test_a_long_reference_is_compared_as_exactly_as_a_whole_one() -> None:
    source = np.random.default_rng(2)
    training, now = source.gamma(2, size=50_000), source.gamma(2.4, size=800)
    found = drift_of(number_reference("x", training), numbers(now))
    whole = stats.ks_2samp(training, now, method="asymp").statistic
    assert found.score == pytest.approx(whole, abs=0.0006)
    assert found.training.shares == pytest.approx(
        [float(np.mean(training <= found.training.bounds[0])), *found.training.shares[1:]], abs=1e-4
    )


def test_psi_by_hand() -> None:
    # Three bins, 50/30/20 before and 20/30/50 now, with half an observation more in each.
    before, now = np.array([50.0, 30, 20]), np.array([20.0, 30, 50])
    expected = 0.0
    for e, a in zip((50.5, 30.5, 20.5), (20.5, 30.5, 50.5), strict=True):
        expected += (a - e) / 101.5 * math.log(a / e)
    assert stability_index(before, now) == pytest.approx(expected)
    assert stability_index(before, before) == pytest.approx(0)


@given(samples(1), samples(1))
@settings(max_examples=60, deadline=None)
def test_psi_is_never_negative_and_each_share_adds_up(one: list[float], two: list[float]) -> None:
    found = drift_of(number_reference("x", np.asarray(one)), numbers(two))
    assert found.psi >= -1e-12
    assert 0 <= found.score <= 1
    assert sum(found.now.shares) == pytest.approx(1, abs=1e-4)
    assert len(found.now.shares) == len(found.now.bounds) + 1


def test_bins_of_the_psi_hold_a_tenth_each() -> None:
    reference = number_reference("x", np.arange(1000.0))
    assert list(reference.psi_counts) == [100.0] * 10 + [0.0]


def test_one_value_in_training_is_a_bin_of_its_own() -> None:
    reference = number_reference("flag", np.zeros(500))
    assert drift_of(reference, numbers(np.zeros(200))).score == 0
    assert drift_of(reference, numbers(np.ones(200))).score == 1
    assert drift_of(reference, numbers(np.ones(200))).psi > 5


def test_a_feature_that_goes_missing_drifts() -> None:
    reference = number_reference("age", np.random.default_rng(3).normal(size=1000))
    now = np.random.default_rng(4).normal(size=1000)
    now[:400] = np.nan
    assert drift_of(reference, numbers(now)).score == pytest.approx(0.4, abs=0.05)
    assert drift_of(reference, numbers(np.full(50, np.nan))).score == 1


def test_missing_values_of_training_keep_their_share_when_it_was_thinned_out() -> None:
    kept = KeptFeature("x", "x", "number", 20_000, 5_000, tuple(np.linspace(0, 1, 5000)), {})
    now = np.concatenate([np.random.default_rng(5).uniform(size=750), np.full(250, np.nan)])
    found = drift_of(reference_of(kept), numbers(now))
    assert found.score < 0.05
    assert found.by_chance == pytest.approx(ks_by_chance(20_000, 1000))


def test_texts_are_compared_by_their_shares() -> None:
    reference = text_reference("country", {"de": 50, "fr": 30, "it": 20})
    now = Column("text", np.asarray(["de"] * 5 + ["us"] * 5, dtype=object))
    found = drift_of(reference, now)
    assert found.training.words == ("de", "fr", "it", OTHER)
    assert found.now.shares == (0.5, 0.0, 0.0, 0.5)
    assert found.score == pytest.approx(0.5)


def test_entropy_of_a_score_is_that_of_a_coin() -> None:
    scores = np.array([[0.5], [0.0], [1.0], [0.25]])
    found = row_entropies(scores, batched=True, is_probability=True)
    assert found is not None
    by_hand = -(0.25 * math.log2(0.25) + 0.75 * math.log2(0.75))
    assert list(found) == pytest.approx([1, 0, 0, by_hand])


def test_entropy_of_classes_is_that_of_scipy() -> None:
    table = np.random.default_rng(6).dirichlet([1, 2, 3, 4], size=50)
    found = row_entropies(table, batched=True, is_probability=False)
    assert found is not None
    assert list(found) == pytest.approx([stats.entropy(row, base=4) for row in table])


def test_what_is_no_probability_has_no_entropy() -> None:
    logits = np.array([[1.5, -2.0]])
    assert row_entropies(logits, batched=True, is_probability=True) is None
    assert row_entropies(np.array([[0.5]]), batched=True, is_probability=False) is None
    assert row_entropies(np.array([[1, 0]]), batched=True, is_probability=True) is None
    assert row_entropies(np.array([[np.nan]]), batched=True, is_probability=True) is None
    assert row_entropies(np.zeros((0, 3)), batched=True, is_probability=True) is None


def test_chances_of_their_own_are_averaged() -> None:
    found = row_entropies(np.array([[0.5, 1.0, 1.0]]), batched=True, is_probability=True)
    assert found is not None
    assert list(found) == pytest.approx([1 / 3])


def test_columns_are_named_by_their_input() -> None:
    inputs = {
        "amount": np.array([[1.0], [2.0]]),
        "features": np.array([[1, 2, 3], [4, 5, 6]]),
        "image": np.ones((2, 3, 8, 8)),
        "country": np.array([["de"], ["fr"]], dtype=object),
        "text": np.array([["ab"] * 100, ["abcd"] * 100], dtype=object),
    }
    found = columns_of(inputs, batched=True)
    assert list(found) == [
        "amount", "features[0]", "features[1]", "features[2]", "image.mean", "image.deviation",
        "country", "text.length",
    ]  # fmt: skip
    assert list(found["features[1]"].values) == [2, 5]
    assert list(found["text.length"].values) == [2, 4]
    assert found["country"].kind == "text"
    assert len(columns_of({"x": np.ones((5, 2))}, batched=False)["x[0]"].values) == 1


def test_a_window_holds_the_newest_rows_and_none_that_is_old() -> None:
    window = Window(rows=10, seconds=60)
    for at in range(8):
        window.add({"x": numbers([at, at])}, at)
    assert window.rows(8) == 10
    assert list(window.columns(8)["x"].values) == [3, 3, 4, 4, 5, 5, 6, 6, 7, 7]
    assert window.rows(65) == 6
    assert window.since(65) == 5
    assert window.columns(1000) == {}
    assert window.since(1000) is None


def test_one_large_batch_is_not_all_that_is_seen() -> None:
    window = Window(rows=1000, seconds=60)
    window.add({"x": numbers(np.zeros(5000))}, 0)
    assert window.rows(0) == MOST_OF_ONE
