"""Writing alerts: what one look at one rule makes of those that there are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from console import live
from console.actors import Actor
from console.services import audit
from deployments.models import Alert, AlertEvent, AlertRule, AlertState
from deployments.rules.alerts.catalogue import Target, signal_of
from deployments.rules.alerts.documents import RuleDocument
from deployments.rules.alerts.evaluate import (
    Finding,
    Measured,
    Standing,
    Step,
    Turn,
    fingerprint,
    step,
)
from deployments.selectors.alerts.things import Things

SYSTEM = "alerts"
TOPIC = "alerts"
"""Live topic of the list of alerts; its events name nothing."""
MOST_OF_A_RULE = 200
"""A rule that finds more things wrong at once says so, and leaves the others out."""
SEEN_EVERY = timedelta(seconds=15)
"""How often an alert of which nothing else changed is written: its value is that old at most."""
STANDING_FIELDS = (
    "state",
    "severity",
    "title",
    "value",
    "threshold",
    "started_at",
    "seen_at",
    "fired_at",
    "clear_since",
    "quiet_since",
    "resolved_at",
    "evidence",
)


@dataclass(slots=True)
class Changes:
    """What is to be written for one rule."""

    new: list[Alert] = field(default_factory=list)
    changed: list[Alert] = field(default_factory=list)
    dropped: list[Alert] = field(default_factory=list)
    fired: list[Alert] = field(default_factory=list)
    resolved: list[tuple[Alert, str]] = field(default_factory=list)
    left_out: int = 0

    @property
    def any(self) -> bool:
        """Whether there is anything to write."""
        return bool(self.new or self.changed or self.dropped)


def changes_of(
    row: AlertRule,
    rule: RuleDocument,
    findings: Mapping[Target, Finding],
    known: Mapping[str, Alert],
    things: Things,
    now: datetime,
) -> Changes:
    """What one look makes of the unresolved alerts of a rule (by fingerprint) and of new ones."""
    changes = Changes()
    seen = set()
    for target, finding in findings.items():
        name = fingerprint(row.pk, target)
        alert = known.get(name)
        if alert is not None:
            seen.add(name)
            _take(changes, row, alert, step(rule, _standing(alert), finding, now), finding, now)
        elif finding.wrong and len(known) + len(changes.new) >= MOST_OF_A_RULE:
            changes.left_out += 1
        elif finding.wrong:
            alert = _new(row, rule, target, name, things, now)
            changes.new.append(alert)
            _take(changes, row, alert, step(rule, None, finding, now), finding, now)
    for name, alert in known.items():
        if name not in seen:
            _take(changes, row, alert, step(rule, _standing(alert), None, now), None, now)
    return changes


def write(changes: Changes, now: datetime) -> None:
    """Write what one look at one rule found. Belongs inside a transaction."""
    if changes.new:
        Alert.objects.bulk_create(changes.new)
    if changes.changed:
        Alert.objects.bulk_update(changes.changed, STANDING_FIELDS)
    if changes.dropped:
        Alert.objects.filter(pk__in=[one.pk for one in changes.dropped]).delete()
    for alert in changes.fired:
        add_event(alert, "fired", now, data=_numbers(alert))
        record_act(alert, "alert.fire", Actor.system(SYSTEM))
    for alert, why in changes.resolved:
        add_event(alert, "resolved", now, message=why, data=_numbers(alert))
        record_act(alert, "alert.resolve", Actor.system(SYSTEM), reason=why)
    if changes.fired or changes.resolved:
        publish([*changes.fired, *(alert for alert, _ in changes.resolved)])


def end_alerts(alerts: Iterable[Alert], why: str, now: datetime) -> int:
    """Resolve alerts whose rule or thing is gone; gives how many. Belongs in a transaction."""
    changes = Changes()
    for alert in alerts:
        if alert.state == AlertState.PENDING:
            changes.dropped.append(alert)
            continue
        alert.state, alert.resolved_at = AlertState.RESOLVED, now
        changes.changed.append(alert)
        changes.resolved.append((alert, why))
    write(changes, now)
    return len(changes.dropped) + len(changes.changed)


def add_event(
    alert: Alert,
    kind: str,
    at: datetime,
    *,
    actor: Actor | None = None,
    message: str = "",
    data: dict[str, Any] | None = None,
) -> AlertEvent:
    """Write a line of an alert's timeline."""
    return AlertEvent.objects.create(
        alert=alert,
        at=at,
        kind=kind,
        actor=actor.user if actor is not None else None,
        message=message,
        data=data or {},
    )


def record_act(alert: Alert, action: str, actor: Actor, *, reason: str = "") -> None:
    """The audit entry of an act upon an alert."""
    audit.record(
        actor=actor,
        action=action,
        subject=alert.subject,
        subject_url=f"/alerts/{alert.pk}/",
        reason=reason,
        after={
            "alert": str(alert.pk),
            "rule": alert.rule_name,
            "severity": alert.severity,
            "state": alert.state,
            "version": alert.version,
            "device": alert.device,
            "label": alert.label,
            "value": alert.value,
            "threshold": alert.threshold,
        },
    )


def publish(alerts: Iterable[Alert]) -> None:
    """Tell viewers of the list, and of the endpoints' pages, that something changed."""
    live.publish(TOPIC, "alert.changed")
    for topic in {str(one.endpoint) for one in alerts if one.endpoint is not None}:
        live.publish(f"endpoint:{topic}", "alert.changed")


def _take(
    changes: Changes,
    row: AlertRule,
    alert: Alert,
    taken: Step,
    finding: Finding | None,
    now: datetime,
) -> None:
    """Put what a step says onto the alert, and the alert where it will be written."""
    if taken.turn is Turn.DROPPED:
        changes.dropped.append(alert)
        return
    if taken.standing is None:
        return
    before, is_new = alert.seen_at, alert in changes.new
    _stand(alert, taken.standing)
    alert.title, alert.severity = row.title, row.severity
    if finding is not None:
        _note(alert, finding.measured, first=taken.turn is Turn.FIRED)
    if taken.turn is Turn.FIRED:
        alert.state = AlertState.FIRING
        changes.fired.append(alert)
    elif taken.turn is Turn.RESOLVED:
        alert.state, alert.resolved_at = AlertState.RESOLVED, now
        changes.resolved.append((alert, taken.why))
    refreshed = alert.seen_at == now and not timedelta(0) <= now - before < SEEN_EVERY
    if not is_new and (taken.turn is not Turn.NONE or refreshed):
        changes.changed.append(alert)


def _new(
    row: AlertRule,
    rule: RuleDocument,
    target: Target,
    name: str,
    things: Things,
    now: datetime,
) -> Alert:
    signal = signal_of(rule.conditions[0].signal)
    return Alert(
        rule=row,
        rule_name=row.name,
        severity=row.severity,
        endpoint_id=target.endpoint,
        node_id=target.node,
        device=target.device,
        version=target.version,
        label=target.label[:120],
        signal=rule.conditions[0].signal,
        title=row.title,
        unit=signal.unit if signal else "",
        started_at=now,
        seen_at=now,
        fingerprint=name,
        group_key=things.name_of(target)[:200],
        runbook=rule.runbook,
    )


def _standing(alert: Alert) -> Standing:
    return Standing(
        alert.started_at, alert.seen_at, alert.fired_at, alert.clear_since, alert.quiet_since
    )


def _stand(alert: Alert, standing: Standing) -> None:
    alert.started_at, alert.seen_at = standing.started_at, standing.seen_at
    alert.fired_at, alert.clear_since = standing.fired_at, standing.clear_since
    alert.quiet_since = standing.quiet_since


def _note(alert: Alert, measured: tuple[Measured, ...], *, first: bool) -> None:
    """Keep what was measured: at the moment it fired, and the newest."""
    alert.value, alert.threshold = measured[0].value, measured[0].threshold
    newest = [one.to_json() for one in measured]
    alert.evidence = {**alert.evidence, "newest": newest}
    if first or "fired" not in alert.evidence:
        alert.evidence["fired"] = newest


def _numbers(alert: Alert) -> dict[str, Any]:
    return {"value": alert.value, "threshold": alert.threshold, "unit": alert.unit}
