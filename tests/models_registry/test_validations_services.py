"""The rendered configuration: measured values that do not wander, and what a person set."""

from __future__ import annotations

import pytest

from console.errors import Invalid
from models_registry.adapters import triton_config
from models_registry.models import ModelVersion
from models_registry.services.sandboxed import finite
from models_registry.services.triton_settings import render_config
from tests import factories

pytestmark = pytest.mark.django_db


def render(version: ModelVersion, mean_ms: float | None):
    return render_config(version, mean_latency_ms=mean_ms, sample=factories.recorded_sample())


def settle(version: ModelVersion, mean_ms: float) -> ModelVersion:
    version.config_origins = render(version, mean_ms).origins
    version.save()
    return version


@pytest.mark.parametrize(
    ("mean_ms", "shared"), [(10.1, True), (19.0, True), (6.0, True), (40.0, False), (1.0, False)]
)
def test_a_latency_near_the_last_one_keeps_the_configuration(mean_ms: float, shared: bool) -> None:
    first = settle(factories.make_version(), 10.0)
    second = factories.make_version(first.model)
    one, two = render(first, 10.0), render(second, mean_ms)
    assert triton_config.same_serving_config(one.text, two.text) is shared
    assert ("As for v1" in two.origins["queue_delay_us"]["reason"]) is shared


def test_below_half_a_millisecond_every_delay_is_the_same() -> None:
    first = settle(factories.make_version(), 0.02)
    second = factories.make_version(first.model)
    assert render(second, 0.5).text == render(first, 0.02).text


def test_what_a_person_set_wins_and_is_marked() -> None:
    first = settle(factories.make_version(), 10.0)
    second = factories.make_version(first.model)
    second.tuning = {"queue_delay_us": 6000, "preferred_batch_sizes": [4, 8]}
    config = render(second, 10.0)
    assert config.origins["queue_delay_us"]["origin"] == "set_by_user"
    assert config.origins["preferred_batch_sizes"]["value"] == [4, 8]
    parsed = triton_config.parse(config.text)
    assert list(parsed.dynamic_batching.preferred_batch_size) == [4, 8]


def test_an_axis_that_is_no_batch_is_not_batched_whatever_its_name() -> None:
    version = factories.make_version()
    version.facts = {**version.facts, "batch_axis": None}
    config = render(version, 1.0)
    assert triton_config.parse(config.text).max_batch_size == 0
    version.tuning = {"max_batch_size": 8}
    with pytest.raises(Invalid):
        render(version, 1.0)


def test_numbers_that_json_does_not_have_become_words() -> None:
    report = {"a": [float("nan"), float("inf")], "b": {"c": float("-inf"), "d": 1.5, "e": None}}
    assert finite(report) == {
        "a": ["NaN", "Infinity"],
        "b": {"c": "-Infinity", "d": 1.5, "e": None},
    }
