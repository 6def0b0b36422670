"""The largest batch: what a contract allows and what does no harm, without following noise."""

from __future__ import annotations

import pytest

from models_registry.rules.batch_choice import BatchLatency, largest_batch
from models_registry.rules.tuning_settings import Origin, Setting

USUAL = Setting(32, Origin.DEFAULT, "The default for a cnn model.")
SIZES = (1, 2, 4, 8, 16, 32)


def rows(*milliseconds: float) -> list[BatchLatency]:
    return [
        BatchLatency(size, taken, taken * 1.1)
        for size, taken in zip(SIZES, milliseconds, strict=False)
    ]


GROWS = rows(1, 1.1, 1.2, 1.5, 2.0, 3.0)
FLAT = rows(1, 1.9, 3.6, 7.2, 14.4, 28.8)
HARMS = rows(1, 1.2, 1.6, 2.4, 8.0, 20.0)


@pytest.mark.parametrize(
    ("measured", "p95_ms", "expected", "words"),
    [
        ([], 1.0, 32, "default"),
        (GROWS, None, 32, "default"),
        (GROWS, 5.0, 32, "default"),
        (GROWS, 2.5, 16, "3.3 ms (P95) at validation, above the contract's 2.5 ms"),
        (GROWS, 0.5, 1, "above the contract's 0.5 ms"),
        (FLAT, None, 32, "default"),
        (HARMS, None, 8, "Larger batches are slower: 3333 rows/s at 8, 1600 at 32"),
        (HARMS, 3.0, 8, "above the contract's 3 ms"),
        (GROWS[:4], None, 8, "The largest batch that validation could run: one of 32"),
    ],
)
def test_the_default_is_lowered_by_what_was_measured(
    measured: list[BatchLatency], p95_ms: float | None, expected: int, words: str
) -> None:
    found = largest_batch(USUAL, measured, p95_ms, None)
    assert found.value == expected
    assert words in found.reason
    assert found.origin == (Origin.DEFAULT if expected == 32 else Origin.MEASURED)


@pytest.mark.parametrize(
    ("measured", "p95_ms", "kept", "expected"),
    [
        # 32 takes a little longer today; that is noise.
        (rows(1, 1.1, 1.2, 1.5, 2.0, 3.9), None, 32, 32),
        # 28 ms instead of 27 at a limit of 28: noise as well.
        (FLAT, 30.0, 32, 32),
        (FLAT, 16.0, 32, 16),
        (GROWS, None, 8, 32),
        (GROWS, 3.4, 16, 16),
        (GROWS, 10.0, 16, 16),
        (FLAT, None, 4, 4),
        (FLAT, None, 3, 32),
        (HARMS, None, 32, 8),
    ],
)
def test_the_size_of_the_version_before_stays_unless_it_is_clearly_worse(
    measured: list[BatchLatency], p95_ms: float | None, kept: int, expected: int
) -> None:
    found = largest_batch(USUAL, measured, p95_ms, (kept, 4))
    assert found.value == expected
    assert ("As for v4" in found.reason) is (expected == kept != 32)
