"""The one engine of alerts: reads what the rules ask, judges them, and has people told.

It runs as ticks of the traffic control, which one process alone carries out. What comes of a look
is in the database; what it remembers between looks is only what it has read.
"""

from __future__ import annotations

import logging
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.db import OperationalError, transaction
from django.db.models import Q, QuerySet

from console.errors import Invalid
from deployments.models import Alert, AlertRule
from deployments.rules.alerts.catalogue import Source, Target
from deployments.rules.alerts.documents import RuleDocument, parse_rule
from deployments.rules.alerts.evaluate import Finding, judge
from deployments.rules.alerts.questions import question_of, questions_of
from deployments.rules.incidents.beginnings import Beginning
from deployments.selectors.alerts.reader import Answers, SignalReader
from deployments.selectors.alerts.things import Things, watched_things
from deployments.services.alerts.records import changes_of, end_alerts, write
from deployments.services.alerts.telling import quieten, tell

SLOW: Final = frozenset({Source.BURN, Source.LEAK})
"""Sources that read far back: rules on them are looked at by an engine of their own, so that no
long query holds up what has to be told within seconds."""
THINGS_EVERY = timedelta(seconds=15)
MOST_RULES = 1000

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one look did: rules judged, alerts that fired and that are over, alerts told of."""

    judged: int = 0
    fired: int = 0
    resolved: int = 0
    told: int = 0


class AlertEngine:
    """Looks at all rules on fast sources, or with `slow` at the others, each time it is called.

    What is seen while everything has only begun raises no alert. The fast one also tells.
    """

    def __init__(self, *, slow: bool = False) -> None:
        self._slow = slow
        self._reader = SignalReader()
        self._beginning = Beginning()
        self._things = Things()
        self._things_at: datetime | None = None

    def __call__(self, now: datetime) -> Outcome:
        # Counts of hours and days say the same whether or not everything has only begun.
        return self.look(now, starting=not self._slow and self._beginning.lasts(now))

    def look(self, now: datetime, *, starting: bool = False) -> Outcome:
        """One look; `starting` reads and judges nothing."""
        if self._things_at is None or not self._things_at <= now < self._things_at + THINGS_EVERY:
            self._things, self._things_at = watched_things(), now
        rules = self._rules()
        answers, read = self._reader.read(
            questions_of(document for _, document in rules), self._things, now
        )
        if starting:
            return Outcome()
        known = _unresolved([row.pk for row, _ in rules])
        judged = fired = resolved = 0
        for row, document in rules:
            if not document.sources & read:
                continue
            done = self._judge(row, document, answers, known.get(row.pk, {}), now)
            judged, fired, resolved = judged + 1, fired + done[0], resolved + done[1]
        if self._slow:
            return Outcome(judged, fired, resolved)
        resolved += _end_orphans(now)
        quieten(now)
        return Outcome(judged, fired, resolved, tell(now))

    def _rules(self) -> list[tuple[AlertRule, RuleDocument]]:
        """The rules that are on and can be read, of this engine's sources (one query)."""
        found = []
        for row in AlertRule.objects.filter(enabled=True).order_by("pk")[:MOST_RULES]:
            try:
                document = parse_rule(row.document)
            except Invalid as error:
                _note_fault(row, error.message)
                continue
            if bool(document.sources & SLOW) == self._slow:
                found.append((row, document))
        return found

    def _judge(
        self,
        row: AlertRule,
        document: RuleDocument,
        answers: Answers,
        known: dict[str, Alert],
        now: datetime,
    ) -> tuple[int, int]:
        """Judge one rule and write what comes of it; one that fails leaves the others alone."""
        try:
            questions = [question_of(document, one) for one in document.conditions]
            if not all(question in answers for question in questions):
                return 0, 0
            gone = self._out_of_scope(row, known)
            left = {name: one for name, one in known.items() if name not in gone}
            found = self._in_scope(row, judge(document, [answers[one] for one in questions]))
            changes = changes_of(row, document, found, left, self._things, now)
            with transaction.atomic() if gone or changes.any else nullcontext():
                ended = end_alerts(gone.values(), "out_of_scope", now)
                write(changes, now)
            fault = f"{changes.left_out} more are wrong than are told." if changes.left_out else ""
            _note_fault(row, fault)
        except OperationalError:
            raise
        except Exception as error:
            log.exception("the alert rule %s could not be judged", row.name)
            _note_fault(row, f"It could not be judged: {type(error).__name__}.")
            return 0, 0
        return len(changes.fired), len(changes.resolved) + ended

    def _in_scope(self, row: AlertRule, findings: dict[Target, Finding]) -> dict[Target, Finding]:
        return {
            target: finding
            for target, finding in findings.items()
            if self._things.exists(target) and self._things.in_scope(row, target)
        }

    def _out_of_scope(self, row: AlertRule, known: dict[str, Alert]) -> dict[str, Alert]:
        """Alerts of things that are gone, or that the rule is not about any more."""
        found = {}
        for name, alert in known.items():
            target = Target(
                alert.endpoint_id, alert.node_id, alert.device, alert.version, alert.label
            )
            if not (self._things.exists(target) and self._things.in_scope(row, target)):
                found[name] = alert
        return found


def _unresolved(rules: list[int]) -> dict[int, dict[str, Alert]]:
    """Rule → fingerprint → its unresolved alert (one query)."""
    found: dict[int, dict[str, Alert]] = {}
    rows = Alert.objects.unresolved().filter(rule__in=rules)
    for alert in _with_things(rows):
        if alert.rule_id is not None:
            found.setdefault(alert.rule_id, {})[alert.fingerprint] = alert
    return found


def _end_orphans(now: datetime) -> int:
    """Alerts whose rule was removed or switched off are over."""
    rows = Alert.objects.unresolved().filter(Q(rule__isnull=True) | Q(rule__enabled=False))
    orphans = list(_with_things(rows))
    if not orphans:
        return 0
    with transaction.atomic():
        return end_alerts(orphans, "rule_off", now)


def _with_things(rows: QuerySet[Alert]) -> QuerySet[Alert]:
    return rows.select_related("endpoint__model", "endpoint__environment", "node")


def _note_fault(row: AlertRule, fault: str) -> None:
    """Keep why a rule's newest look came to nothing, where that is new."""
    if row.fault != fault:
        AlertRule.objects.filter(pk=row.pk).update(fault=fault)
