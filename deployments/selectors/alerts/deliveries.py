"""The log of messages, and how the channels do."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Count, Q, QuerySet

from deployments.models import Alert, AlertChannel, AlertDelivery, DeliveryState

MOST_CHANNELS = 200
MOST_OF_ONE = 50
COUNTED = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class DeliveryFilter:
    """What to list; an empty value filters nothing."""

    state: str = ""
    why: str = ""
    channel: str = ""
    q: str = ""

    @property
    def is_empty(self) -> bool:
        return not (self.state or self.why or self.channel or self.q)


def delivery_list(wanted: DeliveryFilter) -> QuerySet[AlertDelivery]:
    """Messages, newest first; for who operates everything, and so sees every model."""
    found = AlertDelivery.objects.select_related("channel", "person", "job")
    if wanted.state:
        found = found.filter(state=wanted.state)
    if wanted.why:
        found = found.filter(why=wanted.why)
    if wanted.channel:
        found = found.filter(channel__name=wanted.channel)
    if wanted.q:
        found = found.filter(Q(receiver__icontains=wanted.q) | Q(subject__icontains=wanted.q[:200]))
    return found.order_by("-created_at", "-id")


def deliveries_of(alert: Alert) -> list[AlertDelivery]:
    """What was sent of one alert, newest first; at most fifty (one query)."""
    return list(alert.deliveries.select_related("channel", "person")[:MOST_OF_ONE])


def channel_list(now: datetime) -> list[AlertChannel]:
    """The channels with how many messages of a week were sent, wait and failed (one query).

    The counts are on each row: `sent`, `waiting`, `failed`.
    """
    recent = Q(deliveries__created_at__gte=now - COUNTED)

    def number(state: str) -> Count:
        return Count("deliveries", filter=recent & Q(deliveries__state=state), distinct=True)

    found = AlertChannel.objects.annotate(
        sent=number(DeliveryState.SENT),
        waiting=number(DeliveryState.WAITING),
        failed=number(DeliveryState.FAILED),
    )
    return list(found[:MOST_CHANNELS])
