"""`config.pbtxt` of a version: what was measured and what was set, rendered and explained."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from django.conf import settings

from console.errors import Invalid
from models_registry.adapters import triton_config
from models_registry.exporting.protocol import ExportFacts, TensorSpec
from models_registry.models import ModelVersion, VersionState
from models_registry.rules import tuning
from models_registry.services.version_requests import tuning_choice

# Two measurements of one model on a busy machine differ by this much without meaning anything;
# and half a millisecond of waiting is nothing that a caller sees.
SAME_DELAY_FACTOR = 2.0
SAME_DELAY_US = 500


@dataclass(frozen=True, slots=True)
class RenderedConfig:
    """The text, and for each setting its value, where it came from and why."""

    text: str
    origins: dict[str, dict[str, Any]]
    notes: tuple[str, ...]


def render_config(
    version: ModelVersion,
    *,
    mean_latency_ms: float | None,
    sample: bytes | None,
    measured: tuple[tuning.BatchLatency, ...] = (),
    p95_ms: float | None = None,
) -> RenderedConfig:
    """Render for a version whose export facts are there; `sample` is the recorded request.

    `measured` is what validation saw at each batch size, `p95_ms` the contract's budget. A queue
    delay or largest batch that was measured for the version before is kept while the new
    measurement is near it, so that a version which differs in nothing else can share its Triton
    model.
    """
    before = _before(version)
    facts = ExportFacts.from_json(version.facts)
    plan = tuning.plan(
        tuning.TuningFacts(
            model=version.model.name,
            inputs=tuple(_tensor(spec, facts) for spec in facts.inputs),
            outputs=tuple(_tensor(spec, facts) for spec in facts.outputs),
            model_class=version.model_class,
            mean_latency_ms=mean_latency_ms,
            sample=_shapes(sample),
            measured=measured,
            p95_ms=p95_ms,
            kept_batch=_kept_batch(version, before),
        ),
        tuning_choice(version.tuning),
    )
    plan = replace(plan, queue_delay_us=_steady_delay(before, plan.queue_delay_us))
    origins = {
        name: {
            "value": list(setting.value) if isinstance(setting.value, tuple) else setting.value,
            "origin": str(setting.origin),
            "reason": setting.reason,
        }
        for name, setting in tuning.settings(plan)
    }
    text = triton_config.render(plan, operator_libraries=_libraries(version, facts))
    return RenderedConfig(text, origins, plan.notes)


def _libraries(version: ModelVersion, facts: ExportFacts) -> list[str]:
    """Paths of the custom operator libraries that the graph needs, as the site offers them now."""
    offered = {path.name: str(path) for path in settings.CONFIG.custom_op_libraries}
    gone = [name for name in facts.libraries if name not in offered]
    if gone:
        raise Invalid(
            f"{version} needs the custom operator library {gone[0]}, which this site no longer "
            "offers.",
            code="library_missing",
            hint="Ask the administrator to name it in COVENANT_CUSTOM_OP_LIBRARIES, then retry "
            "the validation.",
        )
    return [offered[name] for name in facts.libraries]


def _tensor(spec: TensorSpec, facts: ExportFacts) -> tuning.Tensor:
    dims: list[int | str] = [
        name if size == -1 else size
        for size, name in zip(spec.shape, spec.dims or ("",) * len(spec.shape), strict=True)
    ]
    if dims and facts.batch_axis == 0:
        dims[0] = "batch"
    elif dims and dims[0] in tuning.BATCH_NAMES:
        # Free, but proven not to be a batch.
        dims[0] = -1
    return tuning.Tensor(spec.name, spec.dtype, tuple(dims))


def _shapes(sample: bytes | None) -> Mapping[str, tuple[int, ...]] | None:
    if sample is None:
        return None
    inputs = json.loads(sample)["request"]["inputs"]
    return {item["name"]: tuple(item["shape"]) for item in inputs}


def largest_batch(version: ModelVersion) -> int:
    """The largest batch that the version's configuration could have; 0 where it cannot batch.

    What a person set, else the default of its class: what validation measures may lower it.
    """
    if version.facts.get("batch_axis") != 0:
        return 0
    chosen = tuning_choice(version.tuning).max_batch_size
    return tuning.MAX_BATCH_SIZES[version.model_class] if chosen is None else chosen


def _before(version: ModelVersion) -> ModelVersion | None:
    """The version before that has a configuration of its own kind: a derived one compares with
    what was derived in the same way."""
    return (
        ModelVersion.objects.filter(
            model=version.model,
            state=VersionState.VALIDATED,
            number__lt=version.number,
            optimisation=version.optimisation,
        )
        .order_by("-number")
        .first()
    )


def _kept_batch(version: ModelVersion, before: ModelVersion | None) -> tuple[int, int] | None:
    kept = before.config_origins.get("max_batch_size", {}) if before else {}
    if (
        before is None
        or before.model_class != version.model_class
        or kept.get("origin") not in (tuning.Origin.DEFAULT, tuning.Origin.MEASURED)
        or not kept.get("value")
    ):
        return None
    return int(kept["value"]), before.number


def _steady_delay(
    before: ModelVersion | None, measured: tuning.Setting[int]
) -> tuning.Setting[int]:
    if measured.origin != tuning.Origin.MEASURED:
        return measured
    kept = before.config_origins.get("queue_delay_us", {}) if before else {}
    if before is None or kept.get("origin") != tuning.Origin.MEASURED or not kept.get("value"):
        return measured
    value = int(kept["value"])
    near = value / SAME_DELAY_FACTOR <= measured.value <= value * SAME_DELAY_FACTOR
    if not near and abs(value - measured.value) > SAME_DELAY_US:
        return measured
    return tuning.Setting(
        value,
        tuning.Origin.MEASURED,
        f"As for v{before.number}: {measured.value} µs measured now is near it.",
    )
