"""Messages: written once in the transaction of what they tell, each sent by a job of its own."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any

from django.conf import settings
from django.db import IntegrityError, transaction
from django.utils import timezone

from console.actors import Actor, require
from console.errors import Conflict, NotFound
from console.models import Job, User
from console.services import audit, jobs
from deployments.models import (
    Alert,
    AlertChannel,
    AlertDelivery,
    ChannelKind,
    DeliveryReason,
    DeliveryState,
    Incident,
)
from deployments.rules.alerts.channel_options import addresses

KIND = "deliver_alert"
KEPT_FOR = timedelta(days=180)
MOST_FORGOTTEN = 5000


@dataclass(frozen=True, slots=True)
class Receiver:
    """One receiver of one message: a channel (there, one address or number), or a person."""

    kind: str
    name: str
    channel: AlertChannel | None = None
    person: User | None = None
    to: str = ""

    @property
    def key(self) -> str:
        """What tells this receiver from every other."""
        of = f"p{self.person.pk}" if self.person else f"c{self.channel.pk if self.channel else 0}"
        return f"{of}:{self.to}" if self.to else of


@dataclass(frozen=True, slots=True)
class Occurrence:
    """What a message is about; `thread` is the same for all that is said of it."""

    thread: str
    subject: str
    url: str
    severity: str
    alerts: tuple[Alert, ...] = ()
    incident: Incident | None = None


def receivers_of(channel: AlertChannel) -> list[Receiver]:
    """The receivers behind a channel: each mail address and each number gets its own message."""
    each: Iterable[str] = ("",)
    if channel.kind == ChannelKind.EMAIL:
        each = addresses(channel.shown)
    elif channel.kind == ChannelKind.SMS:
        each = channel.options.get("to", [])
    return [
        Receiver(channel.kind, f"{channel.name} {to}".strip()[:120], channel, to=to) for to in each
    ]


def by_mail(person: User) -> Receiver | None:
    """A person as a receiver of mail, where there is an address and a mail server."""
    if not person.email or settings.MAIL_SERVER is None:
        return None
    return Receiver(ChannelKind.EMAIL, person.username, person=person, to=person.email)


def write(
    occurrence: Occurrence,
    receiver: Receiver,
    *,
    message: Mapping[str, Any],
    dedup: str,
    actor: Actor,
    now: datetime,
) -> AlertDelivery | None:
    """Write the message and its job; None when the same was written before (`dedup`).

    Belongs inside the transaction of what it tells of.
    """
    key = f"{dedup}:{receiver.key}"[:200]
    if AlertDelivery.objects.filter(dedup_key=key).exists():
        return None
    try:
        with transaction.atomic():
            delivery = AlertDelivery.objects.create(
                channel=receiver.channel,
                person=receiver.person,
                receiver=receiver.name,
                kind=receiver.kind,
                why=message["why"],
                incident=occurrence.incident,
                subject=occurrence.subject[:200],
                subject_url=occurrence.url[:300],
                severity=occurrence.severity,
                message={**message, "to": receiver.to},
                thread=f"{occurrence.thread}:{receiver.key}"[:200],
                dedup_key=key,
                request_id=actor.request_id,
                created_at=now,
            )
    except IntegrityError:
        return None
    if occurrence.alerts:
        delivery.alerts.set(occurrence.alerts)
    _ask(delivery, actor, f"{KIND}:{delivery.pk}")
    return delivery


def retry(*, delivery_id: uuid.UUID, actor: Actor) -> AlertDelivery:
    """Send a message that failed or was not sent once more, as it was.

    Raises NotFound, Conflict (`delivery_not_retryable`) when it was sent or still waits.
    """
    require(actor, "alert_channel.manage")
    with transaction.atomic():
        delivery = AlertDelivery.objects.select_for_update().filter(pk=delivery_id).first()
        if delivery is None:
            raise NotFound("There is no such message.", hint="Look at the log of deliveries.")
        if delivery.state not in (DeliveryState.FAILED, DeliveryState.SKIPPED) or (
            delivery.why == DeliveryReason.TEST
        ):
            raise Conflict(
                f"The message to {delivery.receiver} is not one that failed.",
                code="delivery_not_retryable",
                hint="Only a message that failed or was not sent can be sent again.",
            )
        before = delivery.state
        delivery.state, delivery.error, delivery.hint = DeliveryState.WAITING, "", ""
        delivery.message = {**delivery.message, "again": True}
        delivery.save(update_fields=["state", "error", "hint", "message"])
        _ask(delivery, actor, f"{KIND}:{delivery.pk}:{delivery.attempts}")
        audit.record(
            actor=actor,
            action="alert_delivery.retry",
            subject=delivery.subject,
            subject_url=delivery.subject_url,
            before={"state": before},
            after={"state": delivery.state, "receiver": delivery.receiver},
        )
    return delivery


def forget_old(now: datetime | None = None) -> int:
    """Remove messages older than half a year, at most 5,000 in a turn; gives how many."""
    before = (now or timezone.now()) - KEPT_FOR
    old = AlertDelivery.objects.filter(created_at__lt=before).order_by("created_at")
    ids = list(old.values_list("pk", flat=True)[:MOST_FORGOTTEN])
    AlertDelivery.objects.filter(pk__in=ids).delete()
    return len(ids)


def told_of(
    *, alerts: Sequence[Alert] = (), incident: Incident | None = None
) -> list[tuple[AlertDelivery, frozenset[uuid.UUID]]]:
    """The first message of each thread that told of these, with the alerts told of in it.

    Two queries, whatever their number.
    """
    told = AlertDelivery.objects.exclude(why__in=[DeliveryReason.RESOLVED, DeliveryReason.TEST])
    told = told.filter(incident=incident) if incident else told.filter(alerts__in=alerts)
    members: dict[str, set[uuid.UUID]] = {}
    if not incident:
        for thread, alert in told.values_list("thread", "alerts"):
            members.setdefault(thread, set()).add(alert)
    found = told.select_related("channel", "person").order_by("thread", "created_at")
    return [(one, frozenset(members.get(one.thread, ()))) for one in found.distinct("thread")]


def thread_of(alert: Alert, receiver: Receiver) -> str:
    """What ties messages about an alert together: PagerDuty closes each by itself, people read
    what is said of one endpoint or node as one."""
    alone = receiver.kind == ChannelKind.PAGERDUTY
    return f"alert:{alert.pk}" if alone else f"group:{alert.group_key}"[:150]


def digest(text: str) -> str:
    """A short name for something long, the same for the same."""
    return sha256(text.encode()).hexdigest()[:32]


def _ask(delivery: AlertDelivery, actor: Actor, key: str) -> None:
    job: Job = jobs.enqueue(
        kind=KIND,
        subject=delivery.subject,
        subject_url=delivery.subject_url,
        arguments={"delivery": str(delivery.pk)},
        idempotency_key=key,
        actor=actor,
    )
    delivery.job = job
    delivery.save(update_fields=["job"])
