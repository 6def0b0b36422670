"""What a rollout does, waits for and came to, in the reader's language."""

from __future__ import annotations

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from console.templatetags.console_formats import (
    NBSP,
    latency,
    percentage,
    span,
    trimmed,
    whole_number,
)
from console.templatetags.console_phrases import phrase
from deployments.models import Measurement, RolloutEvent
from deployments.rules.rollouts.conditions import Condition
from deployments.rules.rollouts.progress import Cause
from deployments.rules.rollouts.types import (
    Analyse,
    FastCheck,
    Metric,
    MetricKind,
    Pause,
    Plan,
    SetWeight,
)
from deployments.rules.states import RolloutState
from deployments.selectors.rollouts.pages import RolloutPage

METRICS = {
    MetricKind.ERROR_RATE: gettext_lazy("Error rate"),
    MetricKind.SUCCESS_RATE: gettext_lazy("Success rate"),
    MetricKind.P50: gettext_lazy("Latency P50"),
    MetricKind.P95: gettext_lazy("Latency P95"),
    MetricKind.P99: gettext_lazy("Latency P99"),
    MetricKind.OUTPUT_FAULTS: gettext_lazy("Answers that break the contract"),
    MetricKind.OUTPUT_DIFFERENCE: gettext_lazy("Answers unlike the baseline’s"),
    MetricKind.CONVERSION_DIFFERENCE: gettext_lazy("Conversion against the baseline"),
    MetricKind.TELEMETRY: gettext_lazy("Telemetry"),
    MetricKind.PROMETHEUS: gettext_lazy("Prometheus query"),
}
IN_MS = frozenset({MetricKind.P50, MetricKind.P95, MetricKind.P99})
BY_QUERY = frozenset({MetricKind.PROMETHEUS, MetricKind.TELEMETRY})
COMPARISONS = {"<=": "≤", ">=": "≥", "==": "=", "!=": "≠", "<": "<", ">": ">"}
CHANGES = {"*": "×", "+": "+", "-": "−"}

# Cause of a rollout that stands still or has ended → sentence; v%(b)s is the new version.
WAITING = {
    Cause.FROZEN: gettext_lazy(
        "The environment is frozen. No step begins until that ends; then it goes on by itself."
    ),
    Cause.OUTSIDE_WINDOW: gettext_lazy(
        "No step begins outside the plan’s times of the week; it goes on by itself."
    ),
    Cause.NOT_ACKNOWLEDGED: gettext_lazy(
        "Not every gateway has acknowledged v%(b)s’s new share yet."
    ),
    Cause.TOO_FEW_REQUESTS: gettext_lazy(
        "v%(b)s got too few requests to be judged. The next step begins once there are enough."
    ),
    Cause.BY_HAND: gettext_lazy("It was paused by hand. v%(b)s keeps its share until it goes on."),
    Cause.APPROVAL: gettext_lazy(
        "It waits for a person’s approval. Resume lets the next step begin."
    ),
    Cause.INCONCLUSIVE: gettext_lazy(
        "The analysis could not tell whether v%(b)s is good. Resume measures anew."
    ),
    Cause.TRAFFIC_MOVED: gettext_lazy(
        "Somebody moved the traffic by hand. Resume gives v%(b)s this step’s share again."
    ),
    Cause.REFUSED_BY_GATEWAY: gettext_lazy(
        "A gateway refused the new shares. Resume tries this step again."
    ),
    Cause.NOT_READY: gettext_lazy(
        "No node has v%(b)s ready, so it cannot take traffic. Resume tries again."
    ),
}
ENDINGS = {
    Cause.PROMOTED: gettext_lazy("v%(b)s has all the traffic."),
    Cause.BY_HAND: gettext_lazy("It was aborted by hand; v%(a)s has the traffic again."),
    Cause.ROLLED_BACK_BY_HAND: gettext_lazy(
        "The endpoint was rolled back by hand, which ended the rollout."
    ),
    Cause.ANALYSIS_FAILED: gettext_lazy(
        "A metric of the analysis failed; v%(a)s has the traffic again."
    ),
    Cause.ANALYSIS_ERROR: gettext_lazy(
        "The analysis could not be taken, so v%(b)s was not trusted; v%(a)s has the traffic again."
    ),
    Cause.ERROR_RATE: gettext_lazy(
        "The fast check saw too many failed requests; v%(a)s has the traffic again."
    ),
    Cause.LATENCY: gettext_lazy(
        "The fast check saw too many slow requests; v%(a)s has the traffic again."
    ),
    Cause.OUTPUTS: gettext_lazy(
        "The fast check saw answers that break the contract; v%(a)s has the traffic again."
    ),
    Cause.NO_NODE: gettext_lazy("No node had v%(b)s ready any more; v%(a)s has the traffic again."),
}


def situation(page: RolloutPage) -> str:
    """What it waits for now, or how it ended, in one sentence."""
    versions = {"a": page.rollout.baseline, "b": page.rollout.version}
    known = ENDINGS if page.rollout.ended_at else WAITING
    try:
        sentence = known.get(Cause(page.rollout.cause))
    except ValueError:
        sentence = None
    if sentence is not None:
        return str(sentence) % versions
    if page.rollout.ended_at:
        return phrase(page.rollout.message)
    return _under_way(page) % {**versions, "percent": percentage(page.progress.weight / 100)}


def _under_way(page: RolloutPage) -> str:
    """What the step under way does; with %(b)s and %(percent)s to be filled in."""
    if page.progress.step >= len(page.plan.steps):
        return _("All steps are done; the last share is being applied.")
    step = page.plan.steps[page.progress.step]
    if isinstance(step, SetWeight):
        share = percentage(step.points / 100).replace("%", "%%")
        return _("The gateways are being told: v%(b)s gets {share}.").replace("{share}", share)
    if isinstance(step, Analyse):
        return _("v%(b)s keeps %(percent)s while the analysis of this step is taken.")
    if step.seconds is None:
        return _("It waits for a person’s approval. Resume lets the next step begin.")
    return _(
        "v%(b)s keeps %(percent)s for the time of this step; its metrics must be good at the end."
    )


def time_text(seconds: float) -> str:
    """A length of time as people say it, without zeros: "15 min", "1 h", "90 s"."""
    for size, unit in ((86400, _("d")), (3600, _("h")), (60, _("min"))):
        if seconds >= size and seconds % size == 0:
            return f"{trimmed(seconds / size, 0)}{NBSP}{unit}"
    return span(seconds)


def metric_name(metric: Metric) -> str:
    """The metric's own name where the plan gave it one, else its kind in words."""
    if metric.kind in BY_QUERY or metric.name != metric.kind.value:
        return metric.name
    return str(METRICS[metric.kind])


def metric_how(metric: Metric) -> str:
    """How often it is measured, and over what."""
    parts = []
    if metric.count == 1:
        parts.append(_("once"))
    elif metric.interval_s:
        parts.append(_("every %(time)s") % {"time": time_text(metric.interval_s)})
    if metric.count and metric.count > 1:
        parts.append(
            ngettext("%(count)s time", "%(count)s times", metric.count) % {"count": metric.count}
        )
    if metric.kind is not MetricKind.PROMETHEUS:
        parts.append(_("over %(time)s") % {"time": time_text(metric.window_s)})
    if metric.failure_limit:
        parts.append(
            ngettext(
                "%(count)s failure is allowed",
                "%(count)s failures are allowed",
                metric.failure_limit,
            )
            % {"count": metric.failure_limit}
        )
    return ", ".join(parts)


def value_text(metric: Metric, value: float | None) -> str:
    """A value with its unit; a dash where there is none."""
    if value is None:
        return "—"
    if metric.kind in IN_MS:
        return latency(value)
    if metric.kind in BY_QUERY:
        return trimmed(value, 4)
    if metric.kind is MetricKind.CONVERSION_DIFFERENCE:
        return _("%(value)s points") % {"value": f"{value:+.3g}"}
    return percentage(value, 3)


def limit_text(metric: Metric, baseline: float | None) -> str:
    """What success (or failure) is: "≤ 80 ms", "≤ baseline × 1.2 = 48 ms"."""
    if metric.success is not None:
        return _condition(metric, metric.success, baseline)
    if metric.failure is not None:
        limit = _condition(metric, metric.failure, baseline)
        return _("failure: %(limit)s") % {"limit": limit}
    return ""


def _condition(metric: Metric, condition: Condition, baseline: float | None) -> str:
    compare = COMPARISONS[condition.compare]
    if not condition.change:
        return f"{compare} {value_text(metric, condition.number)}"
    shown = _("baseline")
    if (condition.change, condition.number) != ("*", 1.0):
        by = (
            trimmed(condition.number, 3)
            if condition.change == "*"
            else value_text(metric, condition.number)
        )
        shown = f"{shown} {CHANGES[condition.change]} {by}"
    limit = condition.limit(baseline)
    return f"{compare} {shown}" + (f" = {value_text(metric, limit)}" if limit is not None else "")


def verdict_sentence(metric: Metric, found: Measurement) -> str:
    """One measurement in a sentence of the reader's language."""
    given = {
        "metric": metric_name(metric),
        "value": value_text(metric, found.value),
        "limit": limit_text(metric, found.baseline_value),
        "requests": whole_number(found.requests),
        "needed": whole_number(metric.min_requests),
    }
    if found.value is None or (found.requests or 0) < metric.min_requests:
        if found.phase == "error":
            return phrase(found.message)
        if metric.kind is MetricKind.TELEMETRY:
            return (
                _("%(metric)s: %(requests)s measured values, and %(needed)s are needed to judge.")
                % given
            )
        if metric.kind is not MetricKind.PROMETHEUS:
            return (
                _("%(metric)s: %(requests)s requests, and %(needed)s are needed to judge.") % given
            )
    if found.requests is None or metric.kind is MetricKind.TELEMETRY:
        return _("%(metric)s was %(value)s; success is %(limit)s.") % given
    return _("%(metric)s was %(value)s over %(requests)s requests; success is %(limit)s.") % given


def step_words(plan: Plan, index: int) -> str:
    """One step of the plan: "5 %", "15 min", "until approved", "analysis"."""
    if index >= len(plan.steps):
        return _("the end")
    step = plan.steps[index]
    if isinstance(step, SetWeight):
        return percentage(step.points / 100)
    if isinstance(step, Pause):
        return _("until approved") if step.seconds is None else time_text(step.seconds)
    return _("analysis of %(names)s") % {
        "names": ", ".join(metric_name(metric) for metric in step.metrics)
    }


def fast_words(check: FastCheck | None) -> list[str]:
    """What ends the rollout within seconds."""
    if check is None:
        return []
    found = []
    if check.max_error_rate is not None:
        found.append(
            _("more than %(limit)s of its requests fail")
            % {"limit": percentage(check.max_error_rate, 3)}
        )
    if check.max_p99_ms is not None:
        found.append(
            _("more than 1 %% of its requests take longer than %(limit)s")
            % {"limit": latency(check.max_p99_ms)}
        )
    if check.max_output_faults is not None:
        found.append(
            _("more than %(limit)s of its sampled answers break the contract")
            % {"limit": percentage(check.max_output_faults, 3)}
        )
    return found


EVENTS = {
    "started": (gettext_lazy("Rollout started"), "play", ""),
    "paused": (gettext_lazy("Paused"), "pause", "warn"),
    "resumed": (gettext_lazy("Resumed"), "play", ""),
    "skipped": (gettext_lazy("Step skipped"), "arrow-right", ""),
    "promoted": (gettext_lazy("Promoted"), "check", "ok"),
    "aborted": (gettext_lazy("Aborted"), "close", "warn"),
    "rolled_back": (gettext_lazy("Rolled back"), "rollback", "bad"),
    "held": (gettext_lazy("Waits"), "clock", ""),
    "released": (gettext_lazy("Goes on"), "play", ""),
    "step": (gettext_lazy("Next step"), "arrow-right", ""),
    "weight": (gettext_lazy("Share set"), "branch", ""),
}


def event_words(event: RolloutEvent, plan: Plan) -> tuple[str, str, str]:
    """Title, icon and tone of an event of the timeline."""
    title, icon, tone = EVENTS.get(event.kind, (event.kind, "info", ""))
    text = str(title)
    if event.kind == "weight" and event.step is not None:
        text = _("%(what)s: %(share)s") % {"what": text, "share": step_words(plan, event.step)}
    return text, icon, tone


def state_line(state: str) -> str:
    """How an ended rollout is called in its heading."""
    return {
        RolloutState.PROMOTED: _("Promoted"),
        RolloutState.ABORTED: _("Aborted"),
        RolloutState.ROLLED_BACK: _("Rolled back by its analysis"),
        RolloutState.RUNNING: _("Under way"),
        RolloutState.PAUSED: _("Paused"),
    }[RolloutState(state)]
