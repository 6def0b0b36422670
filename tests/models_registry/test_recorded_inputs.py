"""What is made of a recorded sample, and when a batch is too large to try."""

from __future__ import annotations

import numpy as np

from models_registry.exporting import recorded
from models_registry.exporting.measuring import Growth, room, sizes, timed
from models_registry.exporting.protocol import TensorSpec
from models_registry.exporting.sampling import Feeds, Group

AMOUNT = TensorSpec("amount", "FP32", (-1, 2), ("batch", ""), minimum=0.0, maximum=1.0)
TOKENS = TensorSpec("tokens", "INT64", (-1, -1), ("batch", "length"))
COUNTRY = TensorSpec("country", "BYTES", (-1, 1), ("batch", ""))
IMAGE = TensorSpec("image", "UINT8", (-1, 2, 2), ("batch", "", ""))
SAMPLE: Feeds = {
    "amount": np.array([[0.0, 0.5], [1.0, 0.2], [0.3, 0.9]], np.float32),
    "tokens": np.array([[1, 2, 3, 0], [7, 7, 0, 0], [9, 8, 7, 6]]),
    "country": np.array([["CN"], ["DE"], ["MT"]], dtype=object),
    "image": np.array([[[0, 255], [1, 2]]] * 3, np.uint8),
}
SPECS = (AMOUNT, TOKENS, COUNTRY, IMAGE)


def made(specs: tuple[TensorSpec, ...], sample: Feeds, batches: tuple[int, ...]) -> list[Group]:
    batch = "batch" if specs[0].dims[0] else None
    return list(recorded.groups(specs, sample, batch=batch, start=100, seed=3, batches=batches))


def test_rows_come_as_they_are_and_then_varied_within_their_ranges() -> None:
    groups = made(SPECS, SAMPLE, (1, 2, 8))
    first, *varied = groups
    assert (first.origin, first.samples) == ("recorded", (100, 101, 102))
    assert all(np.array_equal(first.feeds[name], SAMPLE[name]) for name in SAMPLE)
    assert first.sizes == {"batch": 3, "length": 4}
    assert [len(group.samples) for group in varied] == [1, 2, 8, 1, 2, 8, 1, 1]
    assert [n for group in varied for n in group.samples] == list(range(103, 127))
    known = [tuple(row) for row in SAMPLE["tokens"].tolist()]
    seen = set()
    for group in varied:
        feeds = group.feeds
        assert feeds["amount"].min() >= 0
        assert feeds["amount"].max() <= 1
        assert feeds["image"].dtype == np.uint8
        assert np.abs(feeds["image"].astype(int) - SAMPLE["image"][:1]).max() <= 3
        for row in range(len(group.samples)):
            # Categories that were recorded together stay together.
            at = known.index(tuple(feeds["tokens"][row].tolist()))
            assert feeds["country"][row, 0] == SAMPLE["country"][at, 0]
            seen.add(at)
    assert seen == {0, 1, 2}
    again = made(SPECS, SAMPLE, (1, 2, 8))
    assert all(
        np.array_equal(a.feeds["amount"], b.feeds["amount"])
        for a, b in zip(groups, again, strict=True)
    )


def test_one_row_of_words_has_no_variation_and_many_rows_are_cut() -> None:
    one = {name: value[:1] for name, value in SAMPLE.items()}
    assert [g.origin for g in made((TOKENS, COUNTRY), one, (1, 2))] == ["recorded"]
    many = {"tokens": np.arange(400).reshape(100, 4)}
    found = [g for g in made((TOKENS,), many, (1, 2, 32)) if g.origin == "recorded"]
    assert [len(group.samples) for group in found] == [32, 32]


def test_without_a_batch_each_variation_is_run_alone() -> None:
    whole = TensorSpec("x", "FP64", (4,), ("",))
    first, *varied = made((whole,), {"x": np.array([1.0, np.nan, 3.0, 4.0])}, (1, 2, 8))
    assert first.samples == (100,)
    assert [group.samples for group in varied] == [(n,) for n in range(101, 125)]
    assert all(np.isnan(group.feeds["x"][1]) for group in varied)


def test_a_batch_beyond_time_or_memory_is_not_tried() -> None:
    growth = Growth(seconds=30.0)
    assert growth.fits(1_000_000)
    growth.saw(8, 1.0, 1 << 20)
    assert growth.fits(64)
    assert not growth.fits(128)
    assert growth.stopped == {"batch": 128, "seconds": 16.0, "bytes": 16 << 20}
    growth.saw(8, 0.001, room() // 4)
    assert not growth.fits(32)
    assert sizes(32) == [1, 2, 4, 8, 16, 32]
    assert sizes(12, (3,)) == [1, 2, 3, 4, 8, 12]


def test_memory_that_a_batch_takes_is_seen() -> None:
    held: list[np.ndarray] = []
    row = timed(lambda: held.append(np.ones(1 << 20)), 4, 5)
    assert (row["batch"], row["runs"]) == (4, 5)
    assert row["peak_bytes"] >= 5 * (8 << 20)
    assert row["rows_per_second"] == 4000 / row["p50_ms"]
