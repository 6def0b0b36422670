"""Trying a channel: a real message that says that it is a test, sent now, and what came of it."""

from __future__ import annotations

from django.db import transaction
from django.utils import timezone

from console.actors import Actor, require
from console.errors import CovenantError
from console.services import audit
from deployments.models import AlertChannel, AlertDelivery, DeliveryState
from deployments.services.alerts import deliveries, messages
from deployments.services.alerts.channels import find_channel
from deployments.services.alerts.deliveries import Receiver
from deployments.services.alerts.delivering import note_sent, send


def try_channel(*, name: str, actor: Actor) -> list[AlertDelivery]:
    """Send a test to each receiver of the channel, and give what each answered.

    A channel that is switched off is tried as well. Blocks for at most twenty seconds each.
    Raises NotFound.
    """
    require(actor, "alert_channel.manage")
    channel = find_channel(name)
    tried = [_try(channel, one, actor) for one in deliveries.receivers_of(channel)]
    with transaction.atomic():
        audit.record(
            actor=actor,
            action="alert_channel.test",
            subject=f"alert channel {channel.name}",
            subject_url=f"/settings/alert-channels/{channel.name}/",
            after={"outcome": [f"{one.receiver}: {one.state}" for one in tried]},
        )
    return tried


def _try(channel: AlertChannel, receiver: Receiver, actor: Actor) -> AlertDelivery:
    """Written before it is sent, so that the log has it whatever becomes of this process."""
    now = timezone.now()
    delivery = AlertDelivery(
        channel=channel,
        receiver=receiver.name,
        kind=receiver.kind,
        why="test",
        subject=f"alert channel {channel.name}",
        subject_url=f"/settings/alert-channels/{channel.name}/",
        message={**messages.of_test(now=now), "to": receiver.to},
        request_id=actor.request_id,
        created_at=now,
        attempts=1,
        state=DeliveryState.FAILED,
        error="It was not sent to its end.",
    )
    delivery.thread = delivery.dedup_key = f"test:{delivery.pk}"
    delivery.save(force_insert=True)
    try:
        answer = send(delivery)
    except CovenantError as error:
        delivery.error, delivery.hint = error.message, error.hint
        delivery.save(update_fields=["error", "hint"])
    else:
        with transaction.atomic():
            note_sent(delivery, answer)
    return delivery
