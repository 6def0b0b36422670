"""What is kept quiet and what is told: silences, maintenance, groups, reminders, incidents."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterable
from datetime import datetime, timedelta

from django.db import OperationalError, transaction
from django.db.models import Q, QuerySet

from deployments.models import Alert, AlertState, Silence
from deployments.rules.alerts.grouping import REMIND_AFTER, Waiting, groups_to_tell
from deployments.rules.alerts.silences import Matchers, Traits, silence_of
from deployments.selectors.objectives.exclusions import under_maintenance
from deployments.services.alerts.announcing import announce
from deployments.services.alerts.incidents import join_incident, settle_incident
from deployments.services.alerts.records import add_event, publish

MAINTENANCE = "maintenance"
MOST_SILENCES = 500
MOST_TOLD = 500
MOST_GROUPS = 100
"""Groups told of in one look; when everything fails at once, the others follow with the next."""
TELL_OVER_WITHIN = timedelta(days=1)

log = logging.getLogger(__name__)


def quieten(now: datetime) -> int:
    """Mark which unresolved alerts a silence or maintenance keeps quiet; gives how many changed.

    Three queries, and one that writes where something changed.
    """
    alerts = list(Alert.objects.unresolved().select_related("endpoint"))
    if not alerts:
        return 0
    silences = active_silences(now)
    endpoints = {one.endpoint_id for one in alerts if one.endpoint_id is not None}
    resting = under_maintenance(endpoints, now) if endpoints else set()
    changed = []
    for alert in alerts:
        silence = silence_of(silences, traits_of(alert))
        suppressed = MAINTENANCE if alert.endpoint_id in resting else ""
        if (alert.silenced_by_id, alert.suppressed) != (silence, suppressed):
            alert.silenced_by_id, alert.suppressed = silence, suppressed
            changed.append(alert)
    if changed:
        with transaction.atomic():
            Alert.objects.bulk_update(changed, ["silenced_by", "suppressed"])
            for alert in changed:
                kind = "quiet" if not alert.told else "loud"
                if alert.state == AlertState.FIRING:
                    add_event(alert, kind, now, data={"suppressed": alert.suppressed})
            publish([])
    return len(changed)


def active_silences(now: datetime) -> list[tuple[uuid.UUID, Matchers, datetime]]:
    """The silences in force with what each matches (one query)."""
    rows = Silence.objects.filter(starts_at__lte=now, ends_at__gt=now, ended_at__isnull=True)
    return [(row.pk, matchers_of(row), row.ends_at) for row in rows[:MOST_SILENCES]]


def matchers_of(silence: Silence) -> Matchers:
    """A silence as the rule takes it."""
    return Matchers(
        silence.rule_name,
        silence.severity,
        silence.environment_id,
        silence.model_id,
        silence.node_id,
        silence.label,
    )


def traits_of(alert: Alert) -> Traits:
    """An alert as silences match it."""
    endpoint = alert.endpoint
    return Traits(
        alert.rule_name,
        alert.severity,
        endpoint.environment_id if endpoint else None,
        endpoint.model_id if endpoint else None,
        alert.node_id,
        alert.label,
    )


def tell(now: datetime) -> int:
    """Tell of what is new, of what is over, and again of what nobody saw to; gives of how many.

    Each group is told of in a transaction of its own, with what it does to incidents: one that
    fails leaves the others alone, and is tried again at the next look.
    """
    told = 0
    audible = Alert.objects.firing().filter(silenced_by__isnull=True, suppressed="")
    waiting = audible.filter(told_at__isnull=True, acknowledged_at__isnull=True)
    wanted = groups_to_tell(
        (Waiting(group, severity, at or now) for group, severity, at in _facts(waiting)),
        _told_last(now),
        now,
    )
    for group in sorted(wanted)[:MOST_GROUPS]:
        told += _tell_group(waiting.filter(group_key=group), "firing", now)
    over = Alert.objects.filter(
        state=AlertState.RESOLVED,
        told_at__isnull=False,
        well_told_at__isnull=True,
        resolved_at__gte=now - TELL_OVER_WITHIN,
    )
    for group in _groups(over)[:MOST_GROUPS]:
        told += _tell_group(over.filter(group_key=group), "resolved", now)
    again = audible.filter(acknowledged_at__isnull=True, told_at__lte=now - REMIND_AFTER)
    for group in _groups(again)[:MOST_GROUPS]:
        told += _tell_group(again.filter(group_key=group), "reminder", now)
    return told


def _tell_group(rows: QuerySet[Alert], what: str, now: datetime) -> int:
    try:
        with transaction.atomic():
            alerts = list(
                rows.select_for_update(of=("self",), skip_locked=True)
                .select_related("endpoint__model", "endpoint__environment", "node", "incident")
                .order_by("severity", "fired_at", "pk")[:MOST_TOLD]
            )
            if not alerts:
                return 0
            for alert in alerts:
                if what == "firing":
                    join_incident(alert, now)
                elif what == "resolved":
                    settle_incident(alert, now)
            announce(alerts, what, now=now)
            column = "well_told_at" if what == "resolved" else "told_at"
            keys = [one.pk for one in alerts]
            Alert.objects.filter(pk__in=keys).update(**{column: now})
            publish(alerts)
    except OperationalError:
        raise
    except Exception:
        log.exception("a group of alerts could not be told (%s)", what)
        return 0
    return len(alerts)


def _facts(rows: QuerySet[Alert]) -> Iterable[tuple[str, str, datetime | None]]:
    return rows.order_by("fired_at").values_list("group_key", "severity", "fired_at")[:MOST_TOLD]


def _groups(rows: QuerySet[Alert]) -> list[str]:
    return sorted(set(rows.order_by().values_list("group_key", flat=True)[:MOST_TOLD]))


def _told_last(now: datetime) -> dict[str, datetime]:
    """When each group with something unresolved was told of last."""
    rows = Alert.objects.filter(
        ~Q(state=AlertState.RESOLVED), told_at__gte=now - timedelta(minutes=5)
    ).values_list("group_key", "told_at")
    last: dict[str, datetime] = {}
    for group, at in rows:
        if at is not None:
            last[group] = max(last.get(group, at), at)
    return last
