"""A version's training sample: read, kept, replaced, and what it is measured against."""

from __future__ import annotations

import json

import numpy as np
import pytest

from console.errors import Invalid, NotAllowed, TooLarge
from console.models import AuditEntry
from deployments.selectors.telemetry.measured_endpoints import TrainedOn
from deployments.services.telemetry.trained_on import load_training
from models_registry.exporting.protocol import TensorSpec
from models_registry.rules import reference_samples as rules
from models_registry.selectors.reference_samples import reference_history, reference_samples
from models_registry.services.artifacts import collect_garbage
from models_registry.services.reference_samples import (
    load_reference_sample,
    record_reference_sample,
    recorded_as_reference,
)
from tests import factories
from tests.deployments.reference_rows import record_rows, rows_of

INPUTS = [
    TensorSpec("features", "FP32", (-1, 3), ("batch", "")),
    TensorSpec("country", "BYTES", (-1,)),
]


def test_csv_is_read_by_names_or_in_order() -> None:
    lines = [f"{row},{row * 2},{row * 3},de" for row in range(100)]
    text = "\n".join(["amount,age,days,country", *lines])
    found = rules.read_rows(text.encode(), INPUTS, batched=True)
    assert found.rows == 100
    assert [one.name for one in found.features] == [
        "features[0]", "features[1]", "features[2]", "country",
    ]  # fmt: skip
    assert [one.title for one in found.features] == ["amount", "age", "days", "country"]
    assert found.features[1].values == tuple(float(row * 2) for row in range(100))
    assert found.features[3].counts == {"de": 100}
    named = "\n".join(
        ["x,country,features[2],features[1],features[0]", *[f"9,fr,3,2,{r}" for r in range(100)]]
    )
    by_name = rules.read_rows(named.encode(), INPUTS, batched=True)
    assert by_name.features[0].values[:2] == (0.0, 1.0)
    assert by_name.features[2].values[0] == 3.0
    assert by_name.features[0].title == "features[0]"


def test_the_document_comes_back_as_it_went() -> None:
    lines = [f"{row},,{row},it" for row in range(150)]
    found = rules.read_rows("\n".join(["a,b,c,d", *lines]).encode(), INPUTS, batched=True)
    assert found.features[1].missing == 150
    assert rules.from_bytes(rules.to_bytes(found)) == found


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "empty"),
        ("a,b\n" + "1,2\n" * 200, "2 columns"),
        ("a,b,c,d\n" + "1,2,3,x\n" * 20, "20 rows"),
        ("a,b,c,d\n" + "1,two,3,x\n" * 200, "cannot be read"),
        ("{", "no JSON"),
        ('{"inputs": 5}', "no list"),
        ('{"inputs": [{"name": "features", "shape": [1, 3], "data": [1, 2]}]}', "Input 1"),
        ('{"inputs": []}', "missing"),
        (
            '{"inputs": [{"name": "x", "shape": [1], "data": [' + "9" * 400 + "]}]}",
            "Input 1",
        ),
        ("a,b,c,d\n" + "1,2,3,x\n" * 100_001, "more than 100000 rows"),
        ('"a,b,c,d\n1', "no CSV"),
    ],
)
def test_what_is_no_sample_is_refused(text: str, words: str) -> None:
    with pytest.raises(Invalid, match=words) as raised:
        rules.read_rows(text.encode(), INPUTS, batched=True)
    assert raised.value.code == "bad_reference_sample"


def test_too_much_is_refused() -> None:
    with pytest.raises(TooLarge):
        rules.read_rows(b" " * (rules.MOST_BYTES + 1), INPUTS, batched=True)
    with pytest.raises(Invalid, match="0 rows"):
        rules.read_rows(b"a,b,c,d\n" + b"\n" * 100_000, INPUTS, batched=True)
    with pytest.raises(Invalid, match="UTF-8"):
        rules.read_rows(b"\xff\xfe", INPUTS, batched=True)


def test_a_large_sample_is_thinned_out_and_stays_the_same_distribution() -> None:
    values = np.random.default_rng(3).gamma(2, size=40_000)
    text = "x\n" + "\n".join(f"{value:.6f}" for value in values)
    (kept,) = rules.read_rows(
        text.encode(), [TensorSpec("x", "FP32", (-1, 1))], batched=True
    ).features
    assert (kept.rows, len(kept.values)) == (40_000, rules.MOST_VALUES)
    places = np.linspace(0.01, 0.99, 50)
    assert np.quantile(kept.values, places) == pytest.approx(np.quantile(values, places), abs=0.01)


def test_a_sample_is_recorded_once_and_the_newest_holds(db: None) -> None:
    version = factories.make_version(factories.make_model())
    first = record_rows(version)
    assert record_rows(version).pk == first.pk
    second = record_rows(version, shift=1.0)
    assert reference_samples([version.pk])[version.pk] == second
    assert [one.pk for one in reference_history(version)] == [second.pk, first.pk]
    entries = AuditEntry.objects.filter(action="version.reference_sample")
    assert [entry.after["rows"] for entry in entries.order_by("sequence")] == [200, 200]
    assert load_reference_sample(second.artifact).rows == 200
    assert collect_garbage() == 0
    training = load_training(TrainedOn(version.pk, second.artifact_id))
    assert training is not None
    assert training.rows == 200
    assert training.features[0].rows == 200


def test_only_who_makes_the_model_records(db: None) -> None:
    version = factories.make_version(factories.make_model())
    for name, role in (("sue", "sre"), ("dan", "data_scientist")):
        with pytest.raises(NotAllowed):
            record_reference_sample(
                version=version,
                data=rows_of(version),
                actor=factories.actor(factories.make_user(name, role)),
            )


def test_one_recorded_row_stands_for_nothing(db: None) -> None:
    version = factories.make_version(factories.make_model())
    assert recorded_as_reference(version) is None
    version.sample = factories.make_artifact(
        json.dumps({"request": json.loads(rows_of(version))}).encode()
    )
    version.save()
    found = recorded_as_reference(version)
    assert found is not None
    assert found.rows == 200
