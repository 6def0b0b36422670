"""A rollout's plan: from a document (JSON or YAML) to typed steps, and back; and the usual one."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from console.errors import FieldError, Invalid
from deployments.rules.rollouts.conditions import Condition
from deployments.rules.rollouts.metrics import MOST_METRICS, metric_json, read_metrics
from deployments.rules.rollouts.reading import Fields, Place, duration_word
from deployments.rules.rollouts.types import (
    DAYS,
    LONGEST_WINDOW_S,
    AdvanceWindow,
    Analyse,
    FastCheck,
    Metric,
    MetricKind,
    Pause,
    Plan,
    SetWeight,
    Step,
)
from deployments.rules.rollouts.windows import read_window
from deployments.rules.traffic.splits import WHOLE
from models_registry.rules.contract_types import Rollout as RolloutClause
from models_registry.rules.contract_yaml import load_yaml

MOST_STEPS = 200
MOST_WINDOWS = 20
LONGEST_PAUSE_S = 30 * 86400.0
_FIELDS = ("steps", "analysis", "windows", "fast_check")
_FAST = ("max_error_rate", "max_p99_ms", "max_output_faults")
_ANALYSIS = ("metrics", "starting_step", "interval", "initial_delay")
_STEP = ("set_weight", "pause", "analyse")


def default_plan(clause: RolloutClause | None = None) -> Plan:
    """The plan that a contract's `rollout` clause asks for.

    `start` percent, then `step` more every `every`, to 100. Beside it the error rate and P99 are
    measured each minute (over what the version did at its present weight, 15 minutes at most).
    """
    clause = clause or RolloutClause()
    shares = [max(round(clause.start * 100), 1)]
    while shares[-1] < WHOLE:
        shares.append(min(shares[-1] + max(round(clause.step * 100), 1), WHOLE))
    if len(shares) > MOST_STEPS // 2:
        # A step so small that it would take hundreds is taken in as many as a plan may have.
        size = (WHOLE - shares[0]) / (MOST_STEPS // 2 - 1)
        shares = [round(shares[0] + size * number) for number in range(MOST_STEPS // 2)]
        shares[-1] = WHOLE
    steps: list[Step] = []
    for points in shares:
        steps.append(SetWeight(points))
        if points < WHOLE:
            steps.append(Pause(float(clause.every_seconds)))
    limits = clause.analysis
    shared: dict[str, Any] = {
        "interval_s": min(60.0, float(clause.every_seconds)),
        "window_s": min(LONGEST_WINDOW_S, max(float(clause.every_seconds), 1.0)),
        "min_requests": limits.min_requests,
    }
    background = (
        Metric(
            "error_rate",
            MetricKind.ERROR_RATE,
            success=Condition("<=", limits.max_error_rate),
            **shared,
        ),
        Metric("p99_ms", MetricKind.P99, success=Condition("<=", limits.max_p99_ms), **shared),
    )
    fast = FastCheck(limits.max_error_rate, limits.max_p99_ms)
    return Plan(tuple(steps), background, fast=fast)


def parse_plan(document: object, clause: RolloutClause | None = None) -> Plan:
    """A plan from its document; parts left out come from the contract's clause.

    A text is read as YAML. A plan that does not end at 100 % gets that as its last step. Raises
    Invalid `invalid_rollout_plan` with a pointer for each fault.
    """
    if isinstance(document, str):
        document = load_yaml(document)
    faults: list[FieldError] = []
    usual = default_plan(clause)
    fields = Fields(document, (), faults, _FIELDS)
    steps = _steps(fields, faults) if fields.has("steps") else usual.steps
    background, starting = usual.background, 0
    if fields.raw("analysis") is False:
        background = ()
    elif fields.has("analysis"):
        background, starting = _analysis(fields.raw("analysis"), steps, faults)
    windows = tuple(
        read_window(one, place, faults) for place, one in fields.items("windows", MOST_WINDOWS)
    )
    fast = _fast(fields.raw("fast_check"), usual.fast or FastCheck(), faults)
    if not faults:
        _check_names(background, faults)
    if faults:
        first = faults[0]
        raise Invalid(
            f"The plan cannot be used: {first.pointer or 'it'} {first.detail}.",
            code="invalid_rollout_plan",
            hint="docs/rollouts.md describes every field.",
            errors=tuple(faults[:50]),
        )
    return Plan(steps, background, starting, windows, fast)


def plan_json(plan: Plan) -> dict[str, Any]:
    """The plan's document, complete: `parse_plan` reads the same plan from it."""
    return {
        "steps": [_step_json(step) for step in plan.steps],
        "analysis": {
            "metrics": [metric_json(one) for one in plan.background],
            "starting_step": plan.background_from,
        }
        if plan.background
        else False,
        "windows": [_window_json(one) for one in plan.windows],
        "fast_check": {name: getattr(plan.fast, name) for name in _FAST} if plan.fast else False,
    }


def _steps(fields: Fields, faults: list[FieldError]) -> tuple[Step, ...]:
    raw = fields.items("steps", MOST_STEPS)
    if not raw:
        fields.fault("has no step", "steps")
        return (SetWeight(WHOLE),)
    steps = [_step(one, place, faults) for place, one in raw]
    weights = [one.points for one in steps if isinstance(one, SetWeight)]
    if not weights:
        fields.fault("gives the version no weight: begin with set_weight", "steps")
    elif not isinstance(steps[0], SetWeight):
        # Nothing could be measured or waited for where nobody calls the version yet.
        fields.fault("is not set_weight, which comes first", "steps", 0)
    if weights and weights[-1] != WHOLE:
        steps.append(SetWeight(WHOLE))
    return tuple(steps)


def _step(raw: object, place: Place, faults: list[FieldError]) -> Step:
    step = Fields(raw, place, faults, _STEP)
    named = [name for name in _STEP if isinstance(raw, Mapping) and name in raw]
    if len(named) != 1:
        step.fault("is not one of set_weight, pause, analyse")
        return Pause(None)
    if named[0] == "set_weight":
        # With nothing on it there is nothing to wait for or to measure.
        percent = step.number("set_weight", 1.0, 0.01, 100.0)
        if abs(percent * 100 - round(percent * 100)) > 1e-6:
            step.fault("has more than two decimals", "set_weight")
        return SetWeight(round(percent * 100))
    if named[0] == "pause":
        return _pause(step, faults)
    metrics, _ = _metrics_of(step.raw("analyse"), (*place, "analyse"), faults, inline=True)
    return Analyse(metrics)


def _pause(step: Fields, faults: list[FieldError]) -> Pause:
    raw = step.raw("pause")
    if isinstance(raw, Mapping):
        inner = Fields(raw, (*step.place, "pause"), faults, ("duration",))
        if not inner.has("duration"):
            return Pause(None)
        return Pause(inner.seconds("duration", 0.0, 0.0, LONGEST_PAUSE_S))
    if raw is None:
        return Pause(None)
    return Pause(step.seconds("pause", 0.0, 0.0, LONGEST_PAUSE_S))


def _analysis(
    raw: object, steps: tuple[Step, ...], faults: list[FieldError]
) -> tuple[tuple[Metric, ...], int]:
    metrics, fields = _metrics_of(raw, ("analysis",), faults, inline=False)
    starting = fields.whole("starting_step", 0, 0, max(len(steps) - 1, 0))
    return metrics, starting


def _metrics_of(
    raw: object, place: Place, faults: list[FieldError], *, inline: bool
) -> tuple[tuple[Metric, ...], Fields]:
    known = tuple(name for name in _ANALYSIS if not (inline and name == "starting_step"))
    if isinstance(raw, list | tuple):
        raw = {"metrics": raw}
    fields = Fields(raw, place, faults, known)
    items = fields.items("metrics", MOST_METRICS)
    if not items and isinstance(raw, Mapping):
        fields.fault("has no metric", "metrics")
    metrics = read_metrics(items, faults, inline=inline, shared=fields)
    if not faults:
        _check_names(metrics, faults, (*place, "metrics"))
    return metrics, fields


def _check_names(
    metrics: tuple[Metric, ...],
    faults: list[FieldError],
    place: Place = ("analysis", "metrics"),
) -> None:
    names = [metric.name for metric in metrics]
    for index, name in enumerate(names):
        if name in names[:index]:
            pointer = "".join(f"/{part}" for part in (*place, index, "name"))
            faults.append(FieldError(pointer, f"is given twice: {name}"))


def _fast(raw: object, usual: FastCheck, faults: list[FieldError]) -> FastCheck | None:
    if raw is None or raw is True:
        return usual
    if raw is False:
        return None
    fields = Fields(raw, ("fast_check",), faults, _FAST)

    def limit(name: str, standing: float | None, high: float) -> float | None:
        # An explicit null turns one of the three off.
        if isinstance(raw, Mapping) and name in raw and raw[name] is None:
            return None
        return fields.number(name, 0.0, 0.0, high) if fields.has(name) else standing

    return FastCheck(
        limit("max_error_rate", usual.max_error_rate, 100.0),
        limit("max_p99_ms", usual.max_p99_ms, 600_000.0),
        limit("max_output_faults", usual.max_output_faults, 100.0),
    )


def _step_json(step: Step) -> dict[str, Any]:
    if isinstance(step, SetWeight):
        return {"set_weight": step.points / 100}
    if isinstance(step, Pause):
        return {"pause": {} if step.seconds is None else {"duration": duration_word(step.seconds)}}
    return {"analyse": {"metrics": [metric_json(one) for one in step.metrics]}}


def _window_json(window: AdvanceWindow) -> dict[str, Any]:
    def clock(at: timedelta) -> str:
        minutes = int(at.total_seconds() // 60) % 1440
        return f"{minutes // 60:02d}:{minutes % 60:02d}"

    return {
        "days": [DAYS[day] for day in sorted(window.days)],
        "from": clock(window.start),
        "to": clock(window.start + window.length),
        "time_zone": window.time_zone,
    }
