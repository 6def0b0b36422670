"""Alerts and silences as lists and pages show them."""

from __future__ import annotations

import uuid
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Case, Count, IntegerField, Q, QuerySet, Value, When

from console.errors import NotFound
from console.models import User
from deployments.models import (
    Alert,
    AlertEvent,
    AlertSeverity,
    AlertState,
    Endpoint,
    Silence,
)

MOST_LINES = 200
MOST_OF_ENDPOINT = 5
EARLIER = timedelta(days=30)
QUIET = Q(silenced_by__isnull=False) | ~Q(suppressed="")


@dataclass(frozen=True, slots=True)
class AlertFilter:
    """What to list; an empty value filters nothing.

    `state` may also be `unresolved`, `silenced` (or under maintenance), or `unacknowledged`
    (firing, told, and nobody sees to it).
    """

    state: str = ""
    severity: str = ""
    environment: str = ""
    model: str = ""
    node: str = ""
    rule: str = ""
    q: str = ""

    @property
    def is_empty(self) -> bool:
        return self == AlertFilter()


@dataclass(frozen=True, slots=True)
class AlertPage:
    """One alert with its timeline, and how often the same was wrong in the last 30 days."""

    alert: Alert
    events: list[AlertEvent]
    times_before: int
    others: list[Alert]


def alert_list(wanted: AlertFilter, *, user: User) -> QuerySet[Alert]:
    """Alerts that match: what fires, gravest first, what is kept quiet, what is pending, the rest.

    Each newest first; one query. Pages of an API are by time alone, see `alerts_by_time`.
    """
    rank = Case(
        When(state=AlertState.RESOLVED, then=Value(9)),
        When(state=AlertState.PENDING, then=Value(8)),
        When(QUIET, then=Value(7)),
        *(
            When(severity=severity, then=Value(place))
            for place, severity in enumerate(AlertSeverity.values)
        ),
        default=Value(6),
        output_field=IntegerField(),
    )
    found = _matching(wanted, Alert.objects.visible_to(user))
    return found.annotate(rank=rank).order_by("rank", "-started_at", "-pk")


def alerts_by_time(wanted: AlertFilter, *, user: User) -> QuerySet[Alert]:
    """Alerts that match, newest first (one query)."""
    return _matching(wanted, Alert.objects.visible_to(user)).order_by("-started_at", "-pk")


def _matching(wanted: AlertFilter, rows: QuerySet[Alert]) -> QuerySet[Alert]:
    found = rows.select_related(
        "endpoint__model", "endpoint__environment", "node", "acknowledged_by", "silenced_by"
    )
    match wanted.state:
        case "":
            pass
        case "unresolved":
            found = found.exclude(state=AlertState.RESOLVED)
        case "silenced":
            found = found.exclude(state=AlertState.RESOLVED).filter(QUIET)
        case "unacknowledged":
            found = found.filter(state=AlertState.FIRING, acknowledged_at__isnull=True)
            found = found.exclude(QUIET)
        case state:
            found = found.filter(state=state)
    exact = {
        "severity": wanted.severity,
        "endpoint__environment__name": wanted.environment,
        "endpoint__model__name": wanted.model,
        "node__name": wanted.node,
        "rule_name": wanted.rule,
    }
    found = found.filter(**{name: value for name, value in exact.items() if value})
    if wanted.q:
        found = found.filter(
            Q(endpoint__model__name__icontains=wanted.q)
            | Q(node__name__icontains=wanted.q)
            | Q(title__icontains=wanted.q)
            | Q(rule_name__icontains=wanted.q)
        )
    return found


def counts(user: User) -> dict[str, int]:
    """How many fire of each severity, and how many of them nobody sees to (one query)."""
    firing = Alert.objects.visible_to(user).filter(state=AlertState.FIRING)
    told = Q(silenced_by__isnull=True, suppressed="")
    each = {
        severity: Count("pk", filter=Q(severity=severity) & told)
        for severity in AlertSeverity.values
    }
    return firing.aggregate(
        **each,
        unseen=Count("pk", filter=told & Q(acknowledged_at__isnull=True)),
        quiet=Count("pk", filter=~told),
    )


def find_alert(alert_id: uuid.UUID, *, user: User) -> Alert:
    """One alert (one query). Raises NotFound, also for what is not to be seen."""
    found = (
        Alert.objects.visible_to(user)
        .select_related(
            "rule",
            "endpoint__model",
            "endpoint__environment",
            "node",
            "acknowledged_by",
            "silenced_by__author",
            "incident",
        )
        .filter(pk=alert_id)
        .first()
    )
    if found is None:
        raise NotFound("There is no such alert.", hint="Look at the list of alerts.")
    return found


def alert_page(alert: Alert, *, user: User, now: datetime) -> AlertPage:
    """The alert with its timeline, oldest first, and what else is wrong there; three queries."""
    events = list(alert.events.select_related("actor").order_by("-at", "-pk")[:MOST_LINES])
    before = (
        Alert.objects.filter(fingerprint=alert.fingerprint, started_at__gte=now - EARLIER)
        .exclude(pk=alert.pk)
        .count()
    )
    others = (
        Alert.objects.visible_to(user)
        .filter(group_key=alert.group_key, state=AlertState.FIRING)
        .exclude(pk=alert.pk)
        .select_related("endpoint__model", "endpoint__environment", "node")
        .order_by("severity", "-fired_at")[:10]
    )
    return AlertPage(alert, events[::-1], before, list(others))


def firing_of(endpoints: Collection[Endpoint]) -> dict[int, list[Alert]]:
    """Endpoint → its alerts that fire and are told, gravest first (one query)."""
    rows = (
        Alert.objects.firing()
        .filter(endpoint__in=[one.pk for one in endpoints], silenced_by__isnull=True)
        .filter(suppressed="")
        .select_related("endpoint__model", "endpoint__environment", "node", "acknowledged_by")
        .order_by("severity", "-fired_at")[:500]
    )
    found: dict[int, list[Alert]] = {}
    for row in rows:
        if row.endpoint_id is not None:
            found.setdefault(row.endpoint_id, []).append(row)
    return found


def alerts_on_models_of(user: User, most: int = 10) -> list[Alert]:
    """What fires and is told on models that are this person's, gravest first (one query).

    Theirs are those that they own, sit in a seat of, or that belong to a team of theirs; whoever
    operates the installation sees to all, and to the machines.
    """
    rows = Alert.objects.visible_to(user).firing().filter(silenced_by__isnull=True, suppressed="")
    if not user.roles_anywhere & {"sre", "platform_admin"}:
        mine = (
            Q(endpoint__model__owner=user)
            | Q(endpoint__model__team__memberships__user=user)
            | Q(endpoint__model__seats__user=user)
        )
        rows = rows.filter(pk__in=Alert.objects.firing().filter(mine).values("pk"))
    return list(
        rows.select_related(
            "endpoint__model", "endpoint__environment", "node", "acknowledged_by"
        ).order_by("severity", "-fired_at", "-pk")[:most]
    )


def silence_list(*, user: User, now: datetime, over: bool = False) -> QuerySet[Silence]:
    """Silences in force or to come, or those that are over; newest first (one query)."""
    rows = (
        Silence.objects.visible_to(user)
        .select_related("environment", "model", "node", "author", "ended_by")
        .order_by("-starts_at", "-pk")
    )
    ended = Q(ended_at__isnull=False) | Q(ends_at__lte=now)
    return rows.filter(ended) if over else rows.exclude(ended)


def find_silence(silence_id: uuid.UUID, *, user: User) -> Silence:
    """One silence (one query). Raises NotFound, also for what is not to be seen."""
    found = (
        Silence.objects.visible_to(user)
        .select_related("environment", "model", "node", "author", "ended_by")
        .filter(pk=silence_id)
        .first()
    )
    if found is None:
        raise NotFound("There is no such silence.", hint="Look at the list of silences.")
    return found
