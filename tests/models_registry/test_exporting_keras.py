"""Keras models through the real sandbox: both of its files, weights alone, code inside."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

os.environ["KERAS_BACKEND"] = "torch"

import h5py
import keras

from models_registry.adapters import formats
from tests.models_registry.exporting_runs import answers, axes, export, facts_of


@pytest.fixture(scope="module")
def model() -> Any:
    """Two inputs, one of them tokens, and two outputs with names."""
    keras.utils.set_random_seed(3)
    amounts = keras.Input((4,), name="amounts")
    tokens = keras.Input((6,), dtype="int32", name="tokens")
    words = keras.layers.Embedding(30, 5)(tokens)
    words = keras.layers.GlobalAveragePooling1D()(words)
    both = keras.layers.Concatenate()([amounts, words])
    both = keras.layers.Dropout(0.4)(keras.layers.BatchNormalization()(both))
    risk = keras.layers.Dense(1, activation="sigmoid", name="risk")(both)
    parts = keras.layers.Dense(3, name="parts")(both)
    return keras.Model([amounts, tokens], [risk, parts])


@pytest.mark.parametrize("ending", ["keras", "h5"])
def test_a_keras_model_says_its_inputs_and_is_exported_in_inference_mode(
    tmp_path: Path, model: Any, ending: str
) -> None:
    saved = tmp_path / f"saved.{ending}"
    model.save(saved)
    source = saved.rename(tmp_path / "upload")  # the name says nothing

    result = export(source, tmp_path / "box")

    facts = facts_of(result)
    assert formats.sniff(source).format == formats.KERAS
    assert axes(facts.inputs) == [
        ("amounts", "FP32", (-1, 4), ("batch", "")),
        ("tokens", "INT32", (-1, 6), ("batch", "")),
    ]
    assert [spec.name for spec in facts.outputs] == ["risk", "parts"]
    assert facts.ranges["tokens"] == [0.0, 29.0]
    rng = np.random.default_rng(0)
    amounts = rng.standard_normal((5, 4)).astype(np.float32)
    tokens = rng.integers(0, 30, (5, 6)).astype(np.int32)
    given = answers(result, amounts=amounts, tokens=tokens)
    wanted = model([amounts, tokens], training=False)
    for ours, theirs in zip(given, wanted, strict=True):
        assert np.allclose(ours, theirs.detach().numpy(), rtol=1e-4, atol=1e-5)


def test_weights_alone_data_and_code_inside_are_refused_with_the_way_out(
    tmp_path: Path, model: Any
) -> None:
    weights = tmp_path / "model.weights.h5"
    model.save_weights(weights)
    data = tmp_path / "data.h5"
    with h5py.File(data, "w") as file:
        file["table"] = np.zeros(3)
    code = tmp_path / "code.keras"
    keras.Sequential([keras.Input((2,)), keras.layers.Lambda(lambda x: x + 1)]).save(code)

    refusals = {}
    for path in (weights, data, code):
        result = export(path, tmp_path / path.stem)
        assert result.ending == "refused", result.stderr_tail
        assert result.refusal is not None
        assert result.refusal.hint
        refusals[path.name] = result.refusal.code

    assert refusals == {
        "model.weights.h5": "weights_only",
        "data.h5": "not_a_model",
        "code.keras": "unsafe_lambda",
    }
