"""Telling of alerts and incidents: who hears of them, where, and what when nobody can.

One way for both. Routes say which channels get a message and which people are told; whoever is
called gets a mail, and an escalation watches that somebody acknowledges. People are called once:
of an alert that belongs to an incident, the incident calls them.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from django.conf import settings

from console.actors import Actor
from console.models import Severity, User
from console.services import notices
from deployments.models import (
    Alert,
    AlertChannel,
    AlertDelivery,
    AlertEvent,
    AlertRoute,
    ChannelKind,
    EscalationPolicy,
    TellPeople,
)
from deployments.rules.alerts.routing import Occasion, routes_of
from deployments.selectors.alerts.on_call import operators_of, who_is_called
from deployments.selectors.alerts.routes import match_of, occasion_of_alert, routes
from deployments.services.alerts import deliveries, messages
from deployments.services.alerts.deliveries import Occurrence, Receiver
from deployments.services.alerts.escalations import begin_escalation, end_escalations
from models_registry.models import RegisteredModel

SEVERITIES = {"P1": Severity.CRITICAL, "P2": Severity.WARNING, "P3": Severity.INFO}
FIRING, REMINDER, RESOLVED = "firing", "reminder", "resolved"
MOST_LEFT = 500
CALLED = ("called", "nobody_reached")
NOBODY_KEY = "on_call.nobody"
BY_ALERT = "alert"
"""The cause of an incident that an alert began: the alert tells of both, and calls people."""


@dataclass(slots=True)
class Plan:
    """Who is told of one thing: channels, people's inboxes, people who are called by mail.

    `why_them` says how those who are called were found; `policy` is that of the first route that
    calls and has one.
    """

    channels: dict[int, AlertChannel] = field(default_factory=dict)
    inbox: dict[int, User] = field(default_factory=dict)
    called: dict[int, User] = field(default_factory=dict)
    why_them: str = ""
    calls: bool = False
    policy: EscalationPolicy | None = None


def announce(alerts: Sequence[Alert], what: str, *, now: datetime) -> None:
    """Tell of alerts that belong together: `what` is "firing", "reminder" or "resolved".

    Belongs inside the transaction of what it tells of; messages are jobs of their own. The same
    alerts are told of once for each `what` (reminders: once a minute). Silenced and suppressed
    ones are told of to nobody; that one is over is told to whoever was told that it fires.
    """
    actor = Actor.system("alerts")
    if what == RESOLVED:
        _tell_that_it_is_over(alerts, actor, now)
        return
    told = [one for one in alerts if one.told]
    if not told:
        return
    bundles: dict[str, tuple[Receiver, list[Alert]]] = {}
    ordered = routes()
    plans: dict[Occasion, Plan] = {}
    noted: set[str] = set()
    for alert in told:
        occasion = occasion_of_alert(alert)
        plan = plans.get(occasion) or planned(occasion, _model(alert), now, ordered)
        plans[occasion] = plan
        _gather(bundles, alert, plan)
        if what == FIRING and not _called_by_incident(alert):
            _tell_people(alert, plan, now, noted)
    for key, (receiver, members) in bundles.items():
        _write(key, receiver, members, what, actor, now)


def planned(
    occasion: Occasion,
    model: RegisteredModel | None,
    now: datetime,
    ordered: Sequence[AlertRoute] | None = None,
) -> Plan:
    """Who is told, by the routes in their order; what no route takes goes to the operators."""
    every = [one for one in (routes() if ordered is None else ordered) if one.enabled]
    found = set(routes_of([match_of(one) for one in every], occasion))
    taken = [one for one in every if one.pk in found]
    plan = Plan()
    for route in taken:
        plan.channels |= {one.pk: one for one in route.channels.all() if one.enabled}
        if route.people != TellPeople.NOBODY:
            plan.inbox |= {one.pk: one for one in operators_of(model)}
        if route.people == TellPeople.CALL:
            called = who_is_called(model, now, schedule=route.schedule)
            plan.calls, plan.why_them = True, called.why
            plan.called |= {one.pk: one for one in called.people}
            plan.policy = plan.policy or route.policy
    if not taken:
        plan.inbox = {one.pk: one for one in operators_of(model)}
    # Whoever is called reads it in the inbox as well.
    plan.inbox |= plan.called
    return plan


def reached(plan: Plan, but: User | None = None) -> list[Receiver]:
    """The mails to those who are called."""
    found = (deliveries.by_mail(one) for one in plan.called.values() if one != but)
    return [one for one in found if one is not None]


def say_nobody(subject: str, url: str, plan: Plan, mails: Sequence[Receiver]) -> bool:
    """Say loudly when something urgent reaches nobody outside the console; gives whether it did.

    A notice to the platform admins, which ends by itself with the next one that is reached.
    """
    if not plan.calls:
        return False
    if mails or plan.channels:
        notices.end(key=NOBODY_KEY)
        return False
    why = "mail" if settings.MAIL_SERVER is None else ("address" if plan.called else "person")
    notices.notify(
        people=operators_of(None),
        kind="on_call.nobody",
        key=NOBODY_KEY,
        subject=subject,
        subject_url=url,
        severity=Severity.CRITICAL,
        data={"why": why, "people": [one.username for one in plan.called.values()]},
    )
    return True


def notice_key(alert: Alert) -> str:
    """What the notices of a group's alerts of one severity are known by."""
    return _key_of(alert.severity, alert.group_key)


def _key_of(severity: str, group: str) -> str:
    return f"alerts:{severity}:{group}"[:200]


def _end_notices(alerts: Sequence[Alert]) -> None:
    """Notices of what is over leave every inbox; where others of the group fire, they name one.

    Of every severity: a rule may have become more or less grave since people were told.
    """
    over = [one.pk for one in alerts]
    told = Alert.objects.firing().filter(told_at__isnull=False).exclude(pk__in=over)
    for group in {one.group_key for one in alerts}:
        left: dict[str, Alert] = {}
        rows = told.filter(group_key=group).select_related(
            "endpoint__model", "endpoint__environment", "node"
        )
        for alert in rows.order_by("-fired_at")[:MOST_LEFT]:
            left[alert.severity] = alert
        for severity in SEVERITIES:
            key = _key_of(severity, group)
            other = left.get(severity)
            if other is None:
                notices.end(key=key)
                continue
            notices.point_elsewhere(
                key=key,
                gone=[_url(one) for one in over],
                subject=other.subject,
                subject_url=_url(other.pk),
                data=_said(other),
            )


def _url(alert_id: uuid.UUID) -> str:
    return f"/alerts/{alert_id}/"


def _said(alert: Alert) -> dict[str, Any]:
    return {"severity": alert.severity, "title": alert.title, "data": alert.data}


def _tell_people(alert: Alert, plan: Plan, now: datetime, noted: set[str]) -> None:
    """The inbox, and what watches that somebody acknowledges; mails are bundled with the rest.

    `noted` are the notices of this announcement: a group has one for each severity.
    """
    if (key := notice_key(alert)) not in noted:
        noted.add(key)
        notices.notify(
            people=plan.inbox.values(),
            kind="alert.firing",
            key=key,
            subject=alert.subject,
            subject_url=f"/alerts/{alert.pk}/",
            severity=SEVERITIES[alert.severity],
            data=_said(alert),
        )
    if not plan.calls or alert.events.filter(kind__in=CALLED).exists():
        return
    mails = reached(plan)
    nobody = say_nobody(alert.subject, f"/alerts/{alert.pk}/", plan, mails)
    AlertEvent.objects.create(
        alert=alert,
        at=now,
        kind="nobody_reached" if nobody else "called",
        data={
            "people": [one.username for one in plan.called.values()],
            "why": plan.why_them,
            "channels": [one.name for one in plan.channels.values()],
        },
    )
    if plan.policy is not None:
        begin_escalation(policy=plan.policy, now=now, alert=alert)


def _gather(bundles: dict[str, tuple[Receiver, list[Alert]]], alert: Alert, plan: Plan) -> None:
    """Put the alert into the message of each receiver; PagerDuty closes each by itself."""
    for channel in plan.channels.values():
        for receiver in deliveries.receivers_of(channel):
            alone = channel.kind == ChannelKind.PAGERDUTY
            key = f"{receiver.key}|{alert.pk if alone else alert.group_key}"
            bundles.setdefault(key, (receiver, []))[1].append(alert)
    if _called_by_incident(alert):
        return
    for receiver in reached(plan):
        key = f"{receiver.key}|{alert.group_key}"
        bundles.setdefault(key, (receiver, []))[1].append(alert)


def _write(
    key: str, receiver: Receiver, members: list[Alert], what: str, actor: Actor, now: datetime
) -> None:
    first = min(members, key=lambda one: (one.severity, one.started_at))
    ids = "+".join(sorted(str(one.pk) for one in members))
    slot = f":{now:%Y%m%d%H%M}" if what == REMINDER else ""
    deliveries.write(
        Occurrence(
            thread=deliveries.thread_of(first, receiver),
            subject=first.subject,
            url=f"/alerts/{first.pk}/" if len(members) == 1 else "/alerts/",
            severity=first.severity,
            alerts=tuple(members),
        ),
        receiver,
        message=messages.of_alerts(members, what, now=now),
        dedup=f"{what}{slot}:{deliveries.digest(ids)}",
        actor=actor,
        now=now,
    )


def _tell_that_it_is_over(alerts: Sequence[Alert], actor: Actor, now: datetime) -> None:
    end_escalations(why="resolved", now=now, alerts=alerts)
    _end_notices(alerts)
    by_id = {one.pk: one for one in alerts}
    for first, ids in deliveries.told_of(alerts=alerts):
        members = [by_id[pk] for pk in ids if pk in by_id]
        told = "+".join(sorted(str(one.pk) for one in members))
        about = Occurrence(
            thread=first.thread,
            subject=first.subject,
            url=first.subject_url,
            severity=first.severity,
            alerts=tuple(members),
        )
        message = messages.of_alerts(members, RESOLVED, now=now)
        tell_that_it_is_over(first, about, message, dedup=told, actor=actor, now=now)


def tell_that_it_is_over(
    first: AlertDelivery,
    about: Occurrence,
    message: Mapping[str, Any],
    *,
    dedup: str,
    actor: Actor,
    now: datetime,
) -> None:
    """Write to the receiver of `first` that it is over, into the same thread."""
    if first.channel is None and first.person is None:
        return
    receiver = Receiver(
        first.kind,
        first.receiver,
        channel=first.channel,
        person=first.person,
        to=str(first.message.get("to") or ""),
    )
    thread = first.thread.removesuffix(f":{receiver.key}")
    deliveries.write(
        replace(about, thread=thread),
        receiver,
        message=message,
        dedup=f"{RESOLVED}:{deliveries.digest(f'{thread} {dedup}')}",
        actor=actor,
        now=now,
    )


def _called_by_incident(alert: Alert) -> bool:
    """Whether people were called already, by an urgent incident that no alert began."""
    incident = alert.incident
    return incident is not None and incident.cause != BY_ALERT and incident.severity == "P1"


def _model(alert: Alert) -> RegisteredModel | None:
    return alert.endpoint.model if alert.endpoint is not None else None
