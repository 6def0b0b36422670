"""Every value of a version's config has an origin, and impossible choices are told apart."""

from __future__ import annotations

from dataclasses import replace

import pytest

from console.errors import Invalid
from models_registry.rules.tuning import (
    LONGEST_DELAY_US,
    STALL,
    Origin,
    Tensor,
    TuningChoice,
    TuningFacts,
    has_batch_dimension,
    plan,
    settings,
)

FACTS = TuningFacts(
    model="fraud_detector",
    inputs=(Tensor("features", "FP32", ("batch", 10)),),
    outputs=(Tensor("risk_score", "FP32", ("batch", 1)),),
    mean_latency_ms=2.5,
    sample={"features": (1, 10)},
)


@pytest.mark.parametrize(
    ("model_class", "size"), [("tabular", 32), ("cnn", 32), ("transformer", 8), ("multimodal", 1)]
)
def test_the_largest_batch_follows_the_class(model_class: str, size: int) -> None:
    setting = plan(replace(FACTS, model_class=model_class)).max_batch_size
    assert (setting.value, setting.origin) == (size, Origin.DEFAULT)
    assert model_class in setting.reason


def test_the_queue_delay_is_six_tenths_of_the_mean_latency() -> None:
    setting = plan(FACTS).queue_delay_us
    assert (setting.value, setting.origin) == (1500, Origin.MEASURED)
    assert "2.5 ms" in setting.reason
    assert plan(replace(FACTS, mean_latency_ms=0.333)).queue_delay_us.value == 200
    assert plan(replace(FACTS, mean_latency_ms=9999)).queue_delay_us.value == LONGEST_DELAY_US


def test_without_a_measurement_the_delay_is_a_default() -> None:
    setting = plan(replace(FACTS, mean_latency_ms=None)).queue_delay_us
    assert (setting.value, setting.origin) == (100, Origin.DEFAULT)


def test_what_a_person_sets_is_kept_and_shown_as_theirs() -> None:
    choice = TuningChoice(max_batch_size=16, queue_delay_us=0, instance_count=2, warmup=False)
    chosen = plan(FACTS, choice)
    for setting, value in (
        (chosen.max_batch_size, 16),
        (chosen.queue_delay_us, 0),
        (chosen.instance_count, 2),
        (chosen.warmup, ()),
    ):
        assert (setting.value, setting.origin) == (value, Origin.USER)
    assert chosen.max_queue_size.origin is Origin.DEFAULT


def test_queue_limits_are_off_unless_asked_for_and_then_warned_of() -> None:
    untouched = plan(FACTS)
    assert untouched.default_timeout_us.value == untouched.max_queue_size.value == 0
    assert STALL in untouched.default_timeout_us.reason
    assert untouched.notes == ()
    chosen = plan(FACTS, TuningChoice(default_timeout_us=500_000, priority_levels=3))
    assert (chosen.default_timeout_us.value, chosen.default_priority_level.value) == (500_000, 2)
    assert chosen.notes == (STALL,)


@pytest.mark.parametrize(
    ("inputs", "outputs"),
    [
        ((("batch", 10),), ((10,),)),
        (((10,),), (("batch", 1),)),
        ((("rows", 10),), (("rows", 1),)),
        ((("batch", 10), ("N", 3)), (("batch", 1),)),
        (((),), (("batch", 1),)),
    ],
)
def test_a_graph_without_common_batch_dimension_is_not_batched(
    inputs: tuple[tuple[int | str, ...], ...], outputs: tuple[tuple[int | str, ...], ...]
) -> None:
    facts = replace(
        FACTS,
        inputs=tuple(Tensor(f"in{i}", "FP32", dims) for i, dims in enumerate(inputs)),
        outputs=tuple(Tensor(f"out{i}", "FP32", dims) for i, dims in enumerate(outputs)),
        sample=None,
    )
    assert not has_batch_dimension(facts)
    assert plan(facts).max_batch_size.value == 0
    assert not plan(facts).batched
    with pytest.raises(Invalid) as caught:
        plan(facts, TuningChoice(max_batch_size=4))
    assert caught.value.errors[0].pointer == "/max_batch_size"


def test_the_warm_up_runs_the_recorded_row() -> None:
    (warm,) = plan(FACTS).warmup.value
    assert (warm.shape, warm.recorded) == ((10,), True)


def test_the_warm_up_runs_zeros_without_a_sample() -> None:
    dynamic = Tensor("tokens", "INT64", ("batch", "sequence"))
    text = Tensor("text", "BYTES", ("batch", 1))
    facts = replace(FACTS, inputs=(dynamic, text), sample={"text": (1, 1)})
    setting = plan(facts).warmup
    assert [(warm.shape, warm.recorded) for warm in setting.value] == [((1,), False), ((1,), False)]
    assert "zeros" in setting.reason


@pytest.mark.parametrize(
    ("choice", "pointer"),
    [
        (TuningChoice(max_batch_size=-1), "/max_batch_size"),
        (TuningChoice(max_batch_size=5000), "/max_batch_size"),
        (TuningChoice(queue_delay_us=-1), "/queue_delay_us"),
        (TuningChoice(instance_count=0), "/instance_count"),
        (TuningChoice(preferred_batch_sizes=(4, 64)), "/preferred_batch_sizes"),
        (TuningChoice(preferred_batch_sizes=(8,), max_batch_size=4), "/preferred_batch_sizes"),
        (TuningChoice(default_priority_level=1), "/default_priority_level"),
        (TuningChoice(priority_levels=2, default_priority_level=3), "/default_priority_level"),
    ],
)
def test_an_impossible_choice_is_told_where_it_is(choice: TuningChoice, pointer: str) -> None:
    with pytest.raises(Invalid) as caught:
        plan(FACTS, choice)
    assert [fault.pointer for fault in caught.value.errors] == [pointer]


def test_an_unknown_class_is_refused() -> None:
    with pytest.raises(Invalid) as caught:
        plan(replace(FACTS, model_class="quantum"))
    assert caught.value.errors[0].pointer == "/model_class"


def test_every_value_is_shown_with_its_reason() -> None:
    rows = settings(plan(FACTS))
    assert [name for name, _ in rows][-1] == "warmup"
    assert len({name for name, _ in rows}) == len(rows) == 10
    assert all(setting.reason.endswith(".") for _, setting in rows)
