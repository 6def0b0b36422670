"""Sending one message: the job, its retries, and what is said when it cannot be delivered.

A message is sent at least once: a worker that dies between sending and noting it leaves it to be
sent again. Webhooks then carry the same id and PagerDuty the same key, so that they can tell.
"""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.db.models import F, Q
from django.utils import timezone

from console.adapters.mail import send_mail
from console.env_values import EmailServer
from console.errors import CovenantError, Invalid, NotFound, Unavailable
from console.models import Job, JobState, Role, Severity, User
from console.services import notices
from console.services.job_runs import JobRun
from deployments.adapters.alert_channels.places import Place
from deployments.adapters.alert_channels.sending import SENDERS
from deployments.documents.alert_letters import letter_of
from deployments.models import (
    AlertChannel,
    AlertDelivery,
    AlertState,
    ChannelKind,
    DeliveryState,
    IncidentState,
)
from deployments.rules.alerts.letters import RESOLVED, TEST, plain
from deployments.services.alerts.channels import failing_key
from deployments.services.alerts.secrets import opened

NOTICE = "alert_channel.failing"


def run_delivery(run: JobRun) -> dict[str, Any]:
    """Send the message of a job, unless it was sent, or is no news any more.

    Raises Unavailable, retried, when the receiver does not take it.
    """
    delivery = _find(run.job.arguments.get("delivery"))
    if delivery.state == DeliveryState.SENT:
        return {"sent": delivery.receiver}
    if why := _not_sent(delivery):
        _skip(delivery, why)
        run.log(why, level="warning")
        return {"skipped": why}
    _wait_for_the_first(delivery)
    _wait_while_the_channel_hangs(delivery)
    run.check()
    AlertDelivery.objects.filter(pk=delivery.pk).update(attempts=F("attempts") + 1)
    try:
        answer = send(delivery)
    except CovenantError as error:
        _note_refusal(delivery, error)
        raise
    with run.transaction():
        note_sent(delivery, answer)
    return {"sent": delivery.receiver, "answer": answer}


def delivery_ended(job: Job) -> None:
    """The job has ended without success: the message failed, and somebody has to know."""
    delivery = (
        AlertDelivery.objects.select_related("channel", "person")
        .filter(pk=job.arguments.get("delivery"))
        .first()
    )
    if delivery is None or delivery.state == DeliveryState.SENT:
        return
    delivery.state = DeliveryState.FAILED
    if job.state == JobState.CANCELLED:
        delivery.state, delivery.error = DeliveryState.SKIPPED, "It was cancelled."
    elif not delivery.error:
        delivery.error, delivery.hint = job.error_message, job.error_hint
    delivery.save(update_fields=["state", "error", "hint"])
    if delivery.state == DeliveryState.FAILED:
        _say_that_it_failed(delivery)


def send(delivery: AlertDelivery) -> str:
    """Send it now; gives what the receiver said. Blocks for seconds: never in a transaction.

    Raises Unavailable, Invalid.
    """
    channel, now = delivery.channel, timezone.now()
    language = (
        channel.language if channel else (delivery.person.language if delivery.person else "")
    )
    letter = letter_of(delivery, language=language)
    if delivery.kind == ChannelKind.EMAIL:
        server: EmailServer | None = settings.MAIL_SERVER
        if server is None:
            raise Invalid(
                "No mail server is set.",
                code="no_mail_server",
                hint="Set COVENANT_EMAIL_URL and COVENANT_EMAIL_FROM.",
            )
        to = delivery.message["to"]
        send_mail(server, to=[to], subject=letter.headline, text=plain(letter))
        return f"{server.host} took it"
    if channel is None:
        raise Invalid("The channel is gone.", code="channel_gone")
    return SENDERS[delivery.kind](_place(channel), letter, now=now)


def note_sent(delivery: AlertDelivery, answer: str) -> None:
    """Write that it was sent, and that its channel works."""
    now = timezone.now()
    delivery.state, delivery.sent_at = DeliveryState.SENT, now
    delivery.answer, delivery.error, delivery.hint = answer[:2000], "", ""
    delivery.save(update_fields=["state", "sent_at", "answer", "error", "hint"])
    channel = delivery.channel
    if channel is not None:
        AlertChannel.objects.filter(pk=channel.pk).update(
            last_sent_at=now, failures=0, last_error=""
        )
        if channel.failures:
            notices.end(key=failing_key(channel))


def _find(delivery_id: str | None) -> AlertDelivery:
    found = (
        AlertDelivery.objects.select_related("channel", "person", "incident")
        .filter(pk=delivery_id)
        .first()
        if delivery_id
        else None
    )
    if found is None:
        raise NotFound("There is no such message any more.", hint="Nothing is to be done.")
    return found


def _not_sent(delivery: AlertDelivery) -> str:
    """Why the message is not sent though nothing fails; empty when it is."""
    if delivery.channel is None and delivery.person is None:
        return "The channel was removed."
    if delivery.channel is not None and not delivery.channel.enabled:
        return "The channel is switched off."
    if delivery.person is not None and not delivery.person.is_active:
        return "The account is closed."
    late = delivery.why not in (RESOLVED, TEST) and not delivery.message.get("again")
    if late and _is_over(delivery):
        return "It was over before it could be sent."
    return ""


def _is_over(delivery: AlertDelivery) -> bool:
    if delivery.incident is not None:
        return delivery.incident.state == IncidentState.RESOLVED
    return not delivery.alerts.exclude(state=AlertState.RESOLVED).exists()


def _wait_for_the_first(delivery: AlertDelivery) -> None:
    """That it is over must not arrive before that it began: it is tried again a little later."""
    if delivery.why != RESOLVED:
        return
    earlier = AlertDelivery.objects.filter(
        thread=delivery.thread,
        state=DeliveryState.WAITING,
        job__state=JobState.RUNNING,
        created_at__lt=delivery.created_at,
    )
    if earlier.exists():
        raise Unavailable("The message before it is being sent.", code="not_its_turn")


def _wait_while_the_channel_hangs(delivery: AlertDelivery) -> None:
    """To a channel that fails, one message at a time: a receiver that never answers would hold
    every worker, and with them what goes to the other channels."""
    channel = delivery.channel
    if channel is None or not channel.failures:
        return
    before = Q(created_at__lt=delivery.created_at) | Q(
        created_at=delivery.created_at, pk__lt=delivery.pk
    )
    trying = AlertDelivery.objects.filter(
        before, channel=channel, state=DeliveryState.WAITING, job__state=JobState.RUNNING
    )
    if trying.exists():
        raise Unavailable(
            f"{channel.name} fails, and another message is being tried.", code="not_its_turn"
        )


def _skip(delivery: AlertDelivery, why: str) -> None:
    AlertDelivery.objects.filter(pk=delivery.pk).update(state=DeliveryState.SKIPPED, answer=why)


def _note_refusal(delivery: AlertDelivery, error: CovenantError) -> None:
    AlertDelivery.objects.filter(pk=delivery.pk).update(error=error.message, hint=error.hint)
    if delivery.channel is not None:
        AlertChannel.objects.filter(pk=delivery.channel.pk).update(
            failures=F("failures") + 1, last_error=f"{error.message} {error.hint}".strip()[:1000]
        )


def _say_that_it_failed(delivery: AlertDelivery) -> None:
    """Whoever operates the installation reads in the inbox that a message did not arrive."""
    channel = delivery.channel
    people = User.objects.filter(
        Q(roles__contains=[Role.PLATFORM_ADMIN]) | Q(roles__contains=[Role.SRE]), is_active=True
    )
    notices.notify(
        people=people,
        kind=NOTICE,
        key=failing_key(channel) if channel else f"alert_mail:{delivery.receiver}",
        subject=f"alert channel {channel.name}" if channel else f"mail to {delivery.receiver}",
        subject_url="/settings/alert-deliveries/?state=failed",
        severity=Severity.CRITICAL if delivery.severity == "P1" else Severity.WARNING,
        data={"name": delivery.receiver, "detail": delivery.error},
    )


def _place(channel: AlertChannel) -> Place:
    return Place(
        address=opened(channel.address, of=channel.name),
        secret=opened(channel.secret, of=channel.name),
        options=channel.options,
        allowed=tuple(settings.PRIVATE_ADDRESSES),
    )
