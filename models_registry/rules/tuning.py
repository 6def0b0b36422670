"""How a version is run on Triton: batching, queue, instances, warm-up, each with its reason.

Defaults follow the house's table: batches of 32 for small convolutional and tabular models, 8 for
transformers, 1 for multimodal ones, lowered by what validation measured (`batch_choice`); a queue
delay of 0.6 × the mean latency of one inference, so that waiting for a fuller batch never costs
more than most of an inference.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from console.errors import FieldError, Invalid
from models_registry.rules.batch_choice import BatchLatency, largest_batch
from models_registry.rules.tuning_settings import Origin, Setting

__all__ = [
    "MAX_BATCH_SIZES",
    "BatchLatency",
    "ConfigPlan",
    "Origin",
    "Setting",
    "Tensor",
    "TuningChoice",
    "TuningFacts",
    "WarmupInput",
    "has_batch_dimension",
    "plan",
    "settings",
]

T = TypeVar("T")

BATCH_NAMES = frozenset({"batch", "batch_size", "n", "N"})
"""Names of a first dimension that mean: as many rows as the caller sends."""

MAX_BATCH_SIZES: Mapping[str, int] = {"tabular": 32, "cnn": 32, "transformer": 8, "multimodal": 1}
DELAY_SHARE = 0.6
QUEUE_TIMEOUT_US = 500_000
"""What a queue time-out would be, and what the gateway's own time-out is by default."""

STALL = (
    "A queue time-out, a queue limit or priority levels stop Triton's batcher from preparing a "
    "batch ahead, and then it misses wake-ups: single requests wait for 500 ms, or are refused "
    "(triton-inference-server/server issue 8870; measured on release 24.10)."
)
"""Why queue limits are off unless somebody asks for them: 2 to 500 of 10,000 requests met it."""

LONGEST_DELAY_US = 100_000
UNMEASURED_DELAY_US = 100


@dataclass(frozen=True, slots=True)
class Tensor:
    """One input or output of the graph, all its dimensions; a str is a dynamic one, by name."""

    name: str
    datatype: str
    dims: tuple[int | str, ...]


@dataclass(frozen=True, slots=True)
class TuningFacts:
    """What is known of a version. `sample` gives the recorded inputs' shapes, batch included.

    `measured` holds one row for each batch size that was run, `p95_ms` the contract's budget for
    an inference; `kept_batch` is the largest batch of the version before, with its number.
    """

    model: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    model_class: str = "tabular"
    mean_latency_ms: float | None = None
    sample: Mapping[str, tuple[int, ...]] | None = None
    measured: tuple[BatchLatency, ...] = ()
    p95_ms: float | None = None
    kept_batch: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class TuningChoice:
    """What a person set; None leaves the value to the rule."""

    max_batch_size: int | None = None
    queue_delay_us: int | None = None
    preferred_batch_sizes: tuple[int, ...] | None = None
    instance_count: int | None = None
    max_queue_size: int | None = None
    default_timeout_us: int | None = None
    priority_levels: int | None = None
    default_priority_level: int | None = None
    response_cache: bool | None = None
    warmup: bool | None = None


@dataclass(frozen=True, slots=True)
class WarmupInput:
    """One input of the warm-up request: its row's shape, and whether a recorded file feeds it."""

    tensor: Tensor
    shape: tuple[int, ...]
    recorded: bool


@dataclass(frozen=True, slots=True)
class ConfigPlan:
    """Everything that `config.pbtxt` says, before it is written.

    A batch size of 0 means not batched; a time-out, queue size or level of 0 means no such limit.
    `notes` warn of choices that work but have a price.
    """

    model: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    max_batch_size: Setting[int]
    preferred_batch_sizes: Setting[tuple[int, ...]]
    queue_delay_us: Setting[int]
    default_timeout_us: Setting[int]
    max_queue_size: Setting[int]
    priority_levels: Setting[int]
    default_priority_level: Setting[int]
    instance_count: Setting[int]
    response_cache: Setting[bool]
    warmup: Setting[tuple[WarmupInput, ...]]
    notes: tuple[str, ...] = field(default=())

    @property
    def batched(self) -> bool:
        """Whether Triton may join requests into batches."""
        return self.max_batch_size.value > 0


def has_batch_dimension(facts: TuningFacts) -> bool:
    """Whether every input and output begins with one and the same batch dimension."""
    first = {t.dims[0] if t.dims else None for t in (*facts.inputs, *facts.outputs)}
    return len(first) == 1 and first <= BATCH_NAMES


def plan(facts: TuningFacts, choice: TuningChoice = TuningChoice()) -> ConfigPlan:
    """Decide every value, with its origin.

    Raises Invalid, with a pointer for each fault, for a choice that Triton would not take or that
    the graph cannot follow.
    """
    _check(facts, choice)
    batch = _max_batch_size(facts, choice)
    levels = _set(choice.priority_levels, 0, "One level: every request waits its turn.")
    middle = math.ceil(levels.value / 2)
    return ConfigPlan(
        model=facts.model,
        inputs=facts.inputs,
        outputs=facts.outputs,
        max_batch_size=batch,
        preferred_batch_sizes=_set(
            choice.preferred_batch_sizes, (), "Triton sends whatever has gathered."
        ),
        queue_delay_us=_queue_delay(facts, choice),
        default_timeout_us=_set(
            choice.default_timeout_us,
            0,
            f"Off: the gateway ends a request that takes too long. {STALL}",
        ),
        max_queue_size=_set(
            choice.max_queue_size,
            0,
            f"Off: the gateway limits the requests at one time. {STALL}",
        ),
        priority_levels=levels,
        default_priority_level=_set(
            choice.default_priority_level, middle, "The middle of the priority levels."
        ),
        instance_count=_set(choice.instance_count, 1, "One copy on each GPU, or one on a CPU."),
        response_cache=_set(choice.response_cache, False, "Every request is computed."),
        warmup=_warmup(facts, choice, batched=batch.value > 0),
        notes=(STALL,) if batch.value and _limits_queue(choice) else (),
    )


def _limits_queue(choice: TuningChoice) -> bool:
    return bool(choice.default_timeout_us or choice.max_queue_size or choice.priority_levels)


def settings(config: ConfigPlan) -> tuple[tuple[str, Setting[object]], ...]:
    """(name, setting) rows in the order in which a page shows them."""
    names = [
        "max_batch_size",
        "preferred_batch_sizes",
        "queue_delay_us",
        "default_timeout_us",
        "max_queue_size",
        "priority_levels",
        "default_priority_level",
        "instance_count",
        "response_cache",
    ]
    rows = [(name, getattr(config, name)) for name in names]
    warm = config.warmup
    inputs = ", ".join(item.tensor.name for item in warm.value) or "none"
    return (*rows, ("warmup", Setting(inputs, warm.origin, warm.reason)))


def _set(chosen: T | None, default: T, reason: str) -> Setting[T]:
    if chosen is None:
        return Setting(default, Origin.DEFAULT, reason)
    return Setting(chosen, Origin.USER, "Set for this version.")


def _max_batch_size(facts: TuningFacts, choice: TuningChoice) -> Setting[int]:
    if not has_batch_dimension(facts):
        return Setting(0, Origin.DEFAULT, "The graph has no batch dimension in every tensor.")
    if choice.max_batch_size is not None:
        return Setting(choice.max_batch_size, Origin.USER, "Set for this version.")
    default = MAX_BATCH_SIZES[facts.model_class]
    usual = Setting(default, Origin.DEFAULT, f"The default for a {facts.model_class} model.")
    return largest_batch(usual, facts.measured, facts.p95_ms, facts.kept_batch)


def _queue_delay(facts: TuningFacts, choice: TuningChoice) -> Setting[int]:
    if choice.queue_delay_us is not None or facts.mean_latency_ms is None:
        reason = "No latency has been measured yet, so requests hardly wait for each other."
        return _set(choice.queue_delay_us, UNMEASURED_DELAY_US, reason)
    wanted = round(DELAY_SHARE * facts.mean_latency_ms * 1000)
    text = f"{DELAY_SHARE} × {facts.mean_latency_ms:g} ms, the mean latency at validation"
    if wanted > LONGEST_DELAY_US:
        return Setting(LONGEST_DELAY_US, Origin.MEASURED, f"{text}, but at most 100 ms.")
    return Setting(wanted, Origin.MEASURED, f"{text}.")


def _warmup(
    facts: TuningFacts, choice: TuningChoice, *, batched: bool
) -> Setting[tuple[WarmupInput, ...]]:
    origin = Origin.DEFAULT if choice.warmup is None else Origin.USER
    if choice.warmup is False:
        return Setting((), origin, "Switched off for this version.")
    items = tuple(_warmup_input(tensor, facts.sample, batched) for tensor in facts.inputs)
    if all(item.recorded for item in items):
        return Setting(items, origin, "The recorded sample is run once before traffic.")
    return Setting(items, origin, "No complete sample was recorded, so zeros are run once.")


def _warmup_input(
    tensor: Tensor, sample: Mapping[str, tuple[int, ...]] | None, batched: bool
) -> WarmupInput:
    shape = (sample or {}).get(tensor.name)
    dims = tensor.dims[1:] if batched else tensor.dims
    # A file holds numbers of a fixed width one after the other; text has none, so it is zeroed.
    if shape is None or tensor.datatype in ("STRING", "BYTES"):
        sizes = tuple(d if isinstance(d, int) and d > 0 else 1 for d in dims)
        return WarmupInput(tensor, sizes or (1,), False)
    return WarmupInput(tensor, tuple(shape[1:] if batched else shape), True)


def _check(facts: TuningFacts, choice: TuningChoice) -> None:
    faults: list[FieldError] = []
    if facts.model_class not in MAX_BATCH_SIZES:
        known = ", ".join(MAX_BATCH_SIZES)
        faults.append(FieldError("/model_class", f"Known classes are {known}."))
    limits = {
        "max_batch_size": (0, 4096),
        "queue_delay_us": (0, 10_000_000),
        "instance_count": (1, 64),
        "max_queue_size": (0, 1_000_000),
        "default_timeout_us": (0, 600_000_000),
        "priority_levels": (0, 100),
    }
    for name, (low, high) in limits.items():
        value = getattr(choice, name)
        if value is not None and not low <= value <= high:
            faults.append(FieldError(f"/{name}", f"It lies between {low} and {high}."))
    if choice.max_batch_size and not has_batch_dimension(facts):
        detail = "The graph has no batch dimension in every tensor, so it cannot be batched."
        faults.append(FieldError("/max_batch_size", detail))
    top = choice.max_batch_size
    if top is None:
        top = MAX_BATCH_SIZES.get(facts.model_class, 0) if has_batch_dimension(facts) else 0
    if any(not 1 <= size <= top for size in choice.preferred_batch_sizes or ()):
        detail = f"Each lies between 1 and the largest batch, {top}."
        faults.append(FieldError("/preferred_batch_sizes", detail))
    levels = choice.priority_levels or 0
    if choice.default_priority_level is not None and not (
        1 <= choice.default_priority_level <= levels
    ):
        detail = f"It lies between 1 and the number of levels, {levels}."
        faults.append(FieldError("/default_priority_level", detail))
    if faults:
        raise Invalid(
            "The tuning of this version cannot be used.",
            code="invalid_tuning",
            errors=tuple(faults),
        )
