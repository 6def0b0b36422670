"""Alerts, signals and rules in the reader's own words."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC
from typing import Any, Final

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from console.templatetags.console_phrases import objective, phrase
from deployments.models import Alert, AlertEvent
from deployments.rules.alerts.catalogue import SIGNALS as FIXED
from deployments.rules.alerts.catalogue import Source, signal_of
from deployments.rules.alerts.documents import Condition, RuleDocument

SIGNALS: Final = {
    "success_rate_percent": gettext_lazy("Requests that succeed"),
    "error_rate_percent": gettext_lazy("Requests that fail"),
    "caller_fault_percent": gettext_lazy("Requests with a caller’s fault"),
    "latency_p50_ms": gettext_lazy("Latency P50"),
    "latency_p95_ms": gettext_lazy("Latency P95"),
    "latency_p99_ms": gettext_lazy("Latency P99"),
    "requests_per_second": gettext_lazy("Requests a second"),
    "requests_of_usual_percent": gettext_lazy("Requests against the hour before"),
    "no_data_seconds": gettext_lazy("Time since the last measurement"),
    "fast_burn": gettext_lazy("Burn rate over an hour"),
    "slow_burn": gettext_lazy("Burn rate over six hours"),
    "steady_burn": gettext_lazy("Burn rate over three days"),
    "gpu_memory_growth_bytes_per_hour": gettext_lazy("Growth of GPU memory"),
    "node_lost": gettext_lazy("Node lost"),
    "artifact_faults": gettext_lazy("Faults of the files on the node"),
    "split_unacknowledged_seconds": gettext_lazy("Time that a split is not acknowledged"),
    "gateway_away": gettext_lazy("Gateway away"),
    "certificate_days_left": gettext_lazy("Days until a certificate ends"),
    "collector_silent_seconds": gettext_lazy("Time since anything was counted"),
    "queue_p95_ms": gettext_lazy("Queue P95"),
    "compute_p95_ms": gettext_lazy("Execution P95"),
    "model_output_entropy": gettext_lazy("Output entropy"),
    "feature_drift_score": gettext_lazy("Feature drift"),
    "gpu_nvlink_utilization_percent": gettext_lazy("NVLink utilisation"),
    "gpu_temperature_celsius": gettext_lazy("GPU temperature"),
}
SOURCES: Final = {
    Source.TRAFFIC: gettext_lazy("Requests, as the gateways count them"),
    Source.SERIES: gettext_lazy("Measured series"),
    Source.BURN: gettext_lazy("Error budgets"),
    Source.LEAK: gettext_lazy("GPU memory"),
    Source.STATE: gettext_lazy("States"),
}
STATES_ALONE: Final = frozenset({"node_lost", "gateway_away"})
"""Signals that are only there or not: their number says nothing more."""

COUNTED: Final = frozenset(
    key for key, one in FIXED.items() if one.source is Source.TRAFFIC and key != "no_data_seconds"
)
"""Signals of requests within the rule's window."""

# Kind of an event → words, icon, tone.
EVENTS: Final = {
    "fired": (gettext_lazy("It fires"), "bell", "bad"),
    "resolved": (gettext_lazy("It is over"), "check", "ok"),
    "acknowledged": (gettext_lazy("Somebody sees to it"), "person", "info"),
    "comment": (gettext_lazy("Comment"), "pen", "neutral"),
    "quiet": (gettext_lazy("Nobody is told for now"), "pause", "neutral"),
    "loud": (gettext_lazy("People are told again"), "bell", "warn"),
    "called": (gettext_lazy("People were called"), "bell", "warn"),
    "nobody_reached": (gettext_lazy("Nobody could be reached outside the console"), "bell", "bad"),
    "escalated": (gettext_lazy("The next were called"), "arrow-up", "warn"),
}
WHYS: Final = {
    "well": gettext_lazy("Nothing was wrong for long enough."),
    "not_measured": gettext_lazy("Nothing was measured any more."),
    "rule_off": gettext_lazy("Its rule was switched off or removed."),
    "out_of_scope": gettext_lazy("Its rule is not about this any more, or the thing is gone."),
}
FACTS: Final = {
    "requests": gettext_lazy("Requests"),
    "valid": gettext_lazy("Valid requests"),
    "faults": gettext_lazy("Failed requests"),
    "hour_before": gettext_lazy("Requests in the hour before"),
    "codes": gettext_lazy("Faults"),
    "revision": gettext_lazy("Split revision"),
    "long_rate": gettext_lazy("Burn rate, long window"),
    "short_rate": gettext_lazy("Burn rate, short window"),
    "bad": gettext_lazy("Bad requests"),
}


def signal_title(key: str) -> str:
    """A signal in words; a series that has none of its own by its name."""
    return str(SIGNALS.get(key, key))


def number(value: float | None, unit: str) -> str:
    """A value with its unit, as short as it can be without hiding anything.

    >>> number(99.2, "%")
    '99.2 %'
    """
    if value is None:
        return "–"
    if value and unit in ("B", "B/s", "B/h"):
        return _bytes(value, unit)
    size = abs(value)
    digits = 0 if size >= 1000 or value == int(value) else 1 if size >= 100 else 3
    text = f"{value:,.{digits}f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return f"{text} {unit}".strip()


def duration(seconds: int) -> str:
    """A time span in the largest whole unit."""
    if seconds and seconds % 86_400 == 0:
        n, words = seconds // 86_400, ngettext("%(n)s day", "%(n)s days", seconds // 86_400)
    elif seconds and seconds % 3600 == 0:
        n, words = seconds // 3600, ngettext("%(n)s hour", "%(n)s hours", seconds // 3600)
    elif seconds and seconds % 60 == 0:
        n, words = seconds // 60, ngettext("%(n)s minute", "%(n)s minutes", seconds // 60)
    else:
        n, words = seconds, ngettext("%(n)s second", "%(n)s seconds", seconds)
    return words % {"n": n}


def title_of(alert: Alert) -> str:
    """What is wrong, in a few words."""
    return phrase(alert.title)


def sentence_of(alert: Alert) -> str:
    """What was measured against what: "Queue P95: 143 ms, the limit is 100 ms; now 90 ms".

    The value that it fired with leads: the newest may be well by now, and explains nothing.
    """
    words = signal_title(alert.signal)
    fired, newest = alert.fired_value, alert.value
    if alert.signal in STATES_ALONE or fired is None:
        newest = fired = None
    else:
        words = _("%(signal)s: %(value)s, the limit is %(limit)s") % {
            "signal": words,
            "value": number(fired, alert.unit),
            "limit": number(alert.threshold, alert.unit),
        }
    facts = {"sentence": words, "value": number(newest, alert.unit)}
    if alert.resolved_at is not None:
        facts["when"] = f"{alert.resolved_at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
        if newest in (None, fired):
            return _("%(sentence)s; over at %(when)s") % facts
        return _("%(sentence)s; over at %(when)s with %(value)s") % facts
    if newest in (None, fired):
        return words
    return _("%(sentence)s; now %(value)s") % facts


def about_of(alert: Alert) -> str:
    """What it is of: endpoint or node, with version, device and label."""
    parts = [str(alert.endpoint)] if alert.endpoint is not None else []
    if alert.version:
        parts.append(f"v{alert.version}")
    if alert.node is not None:
        parts.append(_("node %(name)s") % {"name": alert.node.name})
    if alert.device:
        parts.append(alert.device)
    if alert.label:
        parts.append(phrase(objective(alert.label)))
    return " · ".join(parts) or _("The whole installation")


def condition_words(condition: Condition) -> str:
    """One comparison in words: "Queue P95 > 100 ms"."""
    signal = signal_of(condition.signal)
    unit = signal.unit if signal else ""
    words = signal_title(condition.signal)
    if condition.signal not in STATES_ALONE:
        op = {"<=": "≤", ">=": "≥"}.get(condition.op, condition.op)
        words = f"{words} {op} {number(condition.threshold, unit)}"
    if condition.own_limit:
        words = _("%(words)s, or its contract’s own limit") % {"words": words}
    if condition.label:
        words = _("%(words)s of %(label)s") % {"words": words, "label": objective(condition.label)}
    return words


def rule_words(rule: RuleDocument) -> list[str]:
    """A rule in sentences: what, over which time, since when, until when."""
    lines = [_(" and ").join(condition_words(one) for one in rule.conditions)]
    if any(one.signal in COUNTED for one in rule.conditions):
        each = _("each version") if rule.each == "version" else _("each endpoint")
        lines.append(
            _("Counted for %(each)s over %(window)s, from %(least)s valid requests on")
            % {"each": each, "window": duration(rule.window_s), "least": rule.min_requests}
        )
        if rule.min_faults > 1:
            lines.append(
                _("Only with at least %(least)s failed requests") % {"least": rule.min_faults}
            )
    elif Source.SERIES in rule.sources:
        lines.append(_("Measured over %(window)s") % {"window": duration(rule.window_s)})
    lines.append(
        _("Fires when it has held for %(time)s") % {"time": duration(rule.for_s)}
        if rule.for_s
        else _("Fires at once")
    )
    lines.append(
        _("Over when nothing was wrong for %(time)s") % {"time": duration(rule.keep_firing_s)}
        if rule.keep_firing_s
        else _("Over as soon as nothing is wrong")
    )
    return lines


def line_words(event: AlertEvent) -> dict[str, Any]:
    """A line of the timeline as it is drawn."""
    said, icon, tone = EVENTS.get(event.kind, (phrase(event.kind), "info", "neutral"))
    detail = str(WHYS.get(event.message, "")) or phrase(event.message)
    if event.kind in ("fired", "resolved") and event.data.get("value") is not None:
        shown = number(event.data["value"], event.data.get("unit", ""))
        detail = f"{shown} · {detail}" if detail else shown
    if people := event.data.get("people"):
        detail = ", ".join([*people, *event.data.get("channels", [])])
    if event.kind == "quiet" and event.data.get("suppressed") == "maintenance":
        detail = _("The endpoint is under agreed maintenance.")
    return {
        "at": event.at,
        "title": str(said),
        "icon": icon,
        "tone": tone,
        "detail": detail,
        "actor": event.actor.username if event.actor and event.actor.is_active else "",
    }


def evidence_words(alert: Alert) -> list[dict[str, Any]]:
    """Each condition with what was measured when it fired, and the newest."""
    fired = alert.evidence.get("fired", [])
    newest = alert.evidence.get("newest", fired)
    rows = []
    for index, one in enumerate(newest):
        signal = signal_of(str(one.get("signal", "")))
        unit = signal.unit if signal else ""
        first = fired[index] if index < len(fired) else {}
        rows.append(
            {
                "title": signal_title(str(one.get("signal", ""))),
                "op": one.get("op", ""),
                "limit": number(one.get("threshold"), unit),
                "fired": number(first.get("value"), unit),
                "newest": number(one.get("value"), unit),
                "facts": " · ".join(
                    f"{name}: {value}" for name, value in _facts(one.get("facts", {}))
                ),
            }
        )
    return rows


def _facts(facts: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [
        (str(FACTS[name]), number(value, "") if isinstance(value, int | float) else str(value))
        for name, value in facts.items()
        if name in FACTS
    ]


def _bytes(value: float, unit: str) -> str:
    size, prefix = float(value), ""
    for following in ("Ki", "Mi", "Gi", "Ti"):
        if abs(size) < 1024:
            break
        size, prefix = size / 1024, following
    return f"{size:,.1f} {prefix}{unit}"
