"""The Python helper: the same figures as Covenant's own, sent to the real door."""

from __future__ import annotations

import importlib.util
import math
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from scipy import stats

from console.services.tokens import create_token
from deployments.models import Endpoint, SeriesMinute
from deployments.rules.telemetry.drift import drift_of, number_reference
from deployments.rules.telemetry.entropy import row_entropies
from models_registry.rules.feature_values import Column
from tests import factories

SOURCE = Path(__file__).resolve().parents[2] / "clients" / "python" / "covenant_telemetry.py"


@pytest.fixture(scope="module")
def helper() -> ModuleType:
    """The file as people copy it, on no path of ours."""
    spec = importlib.util.spec_from_file_location("covenant_telemetry", SOURCE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["covenant_telemetry"] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("seed", range(5))
def test_the_figures_are_covenants_own_and_scipys(helper: Any, seed: int) -> None:
    source = np.random.default_rng(seed)
    training = source.normal(size=(1500, 3))
    now = np.column_stack(
        [source.normal(size=400), source.normal(0.5, 2, size=400), source.gamma(2, size=400)]
    )
    now[:40, 1] = np.nan
    found = helper.feature_drift(training, now, ["a", "b", "c"])
    for place, name in enumerate("abc"):
        reference = number_reference(name, training[:, place])
        ours = drift_of(reference, Column("number", now[:, place]))
        assert found[name].score == pytest.approx(ours.score)
        assert found[name].psi == pytest.approx(ours.psi)
        assert found[name].by_chance == pytest.approx(ours.by_chance)
    assert found["c"].score == pytest.approx(stats.ks_2samp(training[:, 2], now[:, 2]).statistic)
    table = source.dirichlet([1, 1, 2], size=30)
    entropies = row_entropies(table, batched=True, is_probability=False)
    assert entropies is not None
    assert helper.output_entropy(table) == pytest.approx(float(entropies.mean()))
    assert helper.output_entropy(table) == pytest.approx(
        float(np.mean([stats.entropy(row) for row in table]) / math.log(3))
    )
    assert helper.output_entropy([0.5, 1.0]) == pytest.approx(0.5)


def test_what_makes_no_sense_is_refused(helper: Any) -> None:
    with pytest.raises(ValueError, match="columns"):
        helper.feature_drift(np.ones((5, 2)), np.ones((5, 3)))
    with pytest.raises(ValueError, match="names"):
        helper.feature_drift(np.ones((5, 2)), np.ones((5, 2)), ["a"])
    with pytest.raises(ValueError, match="no rows"):
        helper.feature_drift(np.ones((0, 2)), np.ones((5, 2)))
    with pytest.raises(ValueError, match="probabilities"):
        helper.output_entropy([3.0])
    telemetry = helper.Telemetry("http://127.0.0.1:9", "", environment="e", model="m")
    with pytest.raises(ValueError, match="never falls"):
        telemetry.count("x", -1)
    with pytest.raises(ValueError, match="successes"):
        telemetry.rate("x", successes=2, trials=1)


@pytest.mark.django_db(transaction=True)
def test_what_it_sends_is_kept_once(helper: Any, live_server: Any) -> None:
    model = factories.make_model("fraud_detector")
    factories.make_version(model)
    Endpoint.objects.create(model=model, environment=factories.make_environment())
    dana = factories.make_user("dana", "data_scientist")
    _, clear = create_token(name="metrics", scopes=["write"], actor=factories.actor(dana))
    options = {"environment": "production", "model": "fraud_detector"}
    telemetry = helper.Telemetry(live_server.url, clear, version=1, **options)
    with telemetry:
        telemetry.drift(np.arange(200.0), np.arange(200.0) + 100, names=["amount"])
        telemetry.entropy([0.5, 0.5])
        telemetry.rate("conversion_rate", successes=31, trials=412)
        telemetry.count("orders", 3)
        waiting = list(telemetry._points)
    telemetry._points = waiting
    assert telemetry.send() == helper.Sent(True, len(waiting))
    rows = {
        (row.series.name, row.series.label): row
        for row in SeriesMinute.objects.select_related("series")
    }
    assert rows["feature_drift_score", ""].newest == pytest.approx(0.5)
    assert rows["feature_drift_score", "amount"].newest == pytest.approx(0.5)
    assert rows["model_output_entropy", ""].newest == pytest.approx(1.0)
    # What was sent a second time adds to no count.
    conversion = rows["conversion_rate", ""]
    assert (conversion.count, conversion.total) == (412, 31)
    assert rows["orders_total", ""].total == 3
    refused = helper.Telemetry(live_server.url, clear, version=9, **options)
    refused.gauge("x", 1)
    found = refused.send()
    assert (found.ok, found.rejected) == (True, 1)
    assert "no version 9" in found.message
    denied = helper.Telemetry(live_server.url, "cvt_wrong", **options)
    denied.gauge("x", 1)
    assert denied.send().message.startswith("401")


def test_a_console_that_is_away_costs_nothing_but_time(helper: Any) -> None:
    telemetry = helper.Telemetry("http://127.0.0.1:9", "t", environment="e", model="m")
    telemetry.gauge("x", 1)
    found = telemetry.send()
    assert not found.ok
    assert "not reached" in found.message
    assert len(telemetry._points) == 1
    for number in range(helper.MOST_POINTS + 9):
        telemetry.gauge("x", number)
    assert telemetry.dropped == 10
