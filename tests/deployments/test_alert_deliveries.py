"""Telling of alerts end to end: routes, people, messages, retries, escalation, and the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from ipaddress import ip_network
from typing import Any

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone, translation
from django.utils.translation import gettext

from console.env_values import EmailServer
from console.errors import Conflict, Invalid, NotAllowed, Stale, Unavailable
from console.models import AuditEntry, Job, JobState, Notice, User
from console.services.job_runs import JobRun
from deployments.models import (
    Alert,
    AlertChannel,
    AlertDelivery,
    AlertEvent,
    AlertRoute,
    Endpoint,
    Escalation,
    Incident,
)
from deployments.rules.alerts.route_terms import LayerTerms, RouteTerms, ScheduleTerms, StepTerms
from deployments.services.alerts import (
    channel_tests,
    channels,
    deliveries,
    delivering,
    policies,
    routes,
    schedules,
)
from deployments.services.alerts.announcing import announce
from deployments.services.alerts.escalating import escalate_due
from deployments.services.incidents import acts as incident_acts
from deployments.services.incidents import records as incidents
from tests import factories
from tests.console.test_invitations import Postbox, postbox
from tests.deployments import vendors
from tests.deployments.conftest import Fleet, ready_version

__all__ = ["postbox"]
NOW = datetime(2026, 3, 1, 3, 0, tzinfo=UTC)
KEY = "0123456789abcdef0123456789abcdef"
Run = Callable[[], list[Job]]
Box = tuple[Postbox, EmailServer]


@pytest.fixture
def endpoint(fleet_rows: Fleet, settings: Any) -> Endpoint:
    settings.PRIVATE_ADDRESSES = (ip_network("127.0.0.0/8"),)
    model = factories.make_model()
    ready_version(fleet_rows, factories.make_version(model))
    return Endpoint.objects.select_related("model__team", "environment").get()


@pytest.fixture
def mail(postbox: Box, settings: Any) -> Postbox:
    settings.MAIL_SERVER = postbox[1]
    return postbox[0]


@pytest.fixture
def room() -> Iterator[vendors.Vendor]:
    with vendors.serving(vendors.slack()) as running:
        yield running


@pytest.fixture
def pager() -> Iterator[vendors.Vendor]:
    with vendors.serving(vendors.pagerduty(KEY)) as running:
        yield running


def make_alert(endpoint: Endpoint | None, severity: str = "P1", **more: Any) -> Alert:
    fields: dict[str, Any] = {
        "rule_name": "success-rate",
        "title": "Too few requests succeed",
        "value": 97.2,
        "threshold": 99.9,
        "unit": "%",
        "started_at": NOW - timedelta(minutes=2),
        "fired_at": NOW,
        "seen_at": NOW,
        "state": "firing",
        "signal": "success_rate_percent",
        "group_key": str(endpoint),
        "fingerprint": factories.make_user("x").username + str(Alert.objects.count()),
    }
    return Alert.objects.create(endpoint=endpoint, severity=severity, **{**fields, **more})


def told(alerts: list[Alert], what: str = "firing", now: datetime = NOW) -> None:
    with transaction.atomic():
        announce(alerts, what, now=now)


def channel(fleet: Fleet, kind: str, address: str, secret: str = "", name: str = "") -> None:
    channels.create_channel(
        name=name or kind, kind=kind, address=address, secret=secret, actor=fleet.sam
    )


def route(fleet: Fleet, *names: str, name: str = "first", **more: Any) -> AlertRoute:
    fields = {"position": 1, "channels": names, "people": "nobody", "goes_on": True, **more}
    return routes.set_route(name=name, terms=RouteTerms(**fields), actor=fleet.sam)


def subjects(box: Postbox) -> list[tuple[str, str]]:
    return sorted((str(one["To"]), str(one["Subject"])) for one in box.messages)


def test_an_urgent_alert_reaches_the_seat_by_mail_and_operators_in_the_inbox(
    endpoint: Endpoint, mail: Postbox, run_jobs: Run
) -> None:
    alert = make_alert(endpoint)
    told([alert])
    told([alert])
    assert [job.state for job in run_jobs()] == [JobState.SUCCEEDED]
    where = "P1 production/fraud_detector: Too few requests succeed"
    assert subjects(mail) == [("sam@example.com", where)]
    text = mail.messages[0].get_content()  # type: ignore[attr-defined]
    assert "Value: 97.2 %" in text
    assert f"/alerts/{alert.pk}/" in text
    notice = Notice.objects.get(recipient__username="sam", kind="alert.firing")
    assert (notice.severity, notice.subject) == ("critical", "production/fraud_detector")
    delivery = AlertDelivery.objects.get()
    assert (delivery.state, delivery.attempts, delivery.why) == ("sent", 1, "firing")
    assert "127.0.0.1 took it" in delivery.answer
    event = AlertEvent.objects.get(alert=alert, kind="called")
    assert event.data["people"] == ["sam"]


def test_a_title_of_several_lines_is_still_one_subject(
    endpoint: Endpoint, mail: Postbox, run_jobs: Run
) -> None:
    told([make_alert(endpoint, title="Too slow\r\nBcc: all@example.com\n\nsince noon")])
    assert [job.state for job in run_jobs()] == [JobState.SUCCEEDED]
    where = "P1 production/fraud_detector: Too slow Bcc: all@example.com since noon"
    assert subjects(mail) == [("sam@example.com", where)]


def test_a_mail_is_in_the_language_of_its_reader(
    endpoint: Endpoint, mail: Postbox, run_jobs: Run
) -> None:
    User.objects.filter(username="sam").update(language="zh-hans")
    told([make_alert(endpoint, version=3)])
    run_jobs()
    with translation.override("zh-hans"):
        words = gettext("Version")
    assert words != "Version"
    assert f"{words}: v3" in mail.messages[0].get_content()  # type: ignore[attr-defined]


def test_less_urgent_ones_go_to_the_inbox_alone(
    endpoint: Endpoint, mail: Postbox, run_jobs: Run
) -> None:
    told([make_alert(endpoint, "P2")])
    assert run_jobs() == []
    assert Notice.objects.get(recipient__username="sam").severity == "warning"
    assert not Escalation.objects.exists()


def test_who_is_on_call_by_the_schedule_goes_before_the_seat(
    endpoint: Endpoint, fleet_rows: Fleet, mail: Postbox, run_jobs: Run
) -> None:
    factories.make_user("ann", "sre")
    factories.make_user("ben", "sre")
    terms = ScheduleTerms(
        covers="everything",
        layers=(LayerTerms(("ann", "ben"), (NOW - timedelta(days=6)).date()),),
    )
    schedules.set_schedule(name="ops", terms=terms, actor=fleet_rows.sam)
    told([make_alert(endpoint)])
    schedules.take_over(
        schedule="ops", ends_at=timezone.now() + timedelta(hours=2), actor=fleet_rows.sam
    )
    far = timezone.now() + timedelta(days=401)
    with pytest.raises(Invalid):
        schedules.take_over(
            schedule="ops",
            starts_at=far,
            ends_at=far + timedelta(hours=1),
            actor=fleet_rows.sam,
        )
    told([make_alert(endpoint)], now=timezone.now())
    run_jobs()
    assert [to for to, _ in subjects(mail)] == ["ann@example.com", "sam@example.com"]
    User.objects.filter(username="ann").update(is_active=False)
    mail.messages.clear()
    told([make_alert(endpoint)])
    run_jobs()
    assert [to for to, _ in subjects(mail)] == ["sam@example.com"], "the seat, for who has left"


def test_channels_hear_of_it_and_of_its_end_in_the_thread_that_they_were_told_in(
    endpoint: Endpoint,
    fleet_rows: Fleet,
    room: vendors.Vendor,
    pager: vendors.Vendor,
    run_jobs: Run,
) -> None:
    channel(fleet_rows, "slack", f"{room.address}/services/x")
    channel(fleet_rows, "pagerduty", f"{pager.address}/v2/enqueue", KEY)
    route(fleet_rows, "slack", "pagerduty", severities=("P1", "P2"))
    pair = [make_alert(endpoint, "P2"), make_alert(endpoint, "P2", title="It is too slow")]
    told(pair)
    told(pair)
    run_jobs()
    assert [one["text"] for one in room.got] == [
        "P2 production/fraud_detector: Too few requests succeed (and 1 more)"
    ]
    assert len({one["dedup_key"] for one in pager.got}) == 2, "each is closed by itself"
    told(pair, "reminder", NOW + timedelta(hours=4))
    # The route is gone meanwhile; who was told hears the end all the same.
    routes.remove_route(name="first", actor=fleet_rows.sam)
    Alert.objects.update(state="resolved", resolved_at=NOW + timedelta(hours=5))
    for alert in pair:
        alert.refresh_from_db()
    run_jobs()
    told(pair, "resolved", NOW + timedelta(hours=5))
    told(pair, "resolved", NOW + timedelta(hours=5))
    run_jobs()
    actions = [(one["event_action"], one["dedup_key"]) for one in pager.got]
    assert [action for action, _ in actions] == ["trigger"] * 2 + ["resolve"] * 2
    assert {key for _, key in actions[:2]} == {key for _, key in actions[2:]}
    assert room.got[-1]["text"].startswith("Over – P2 production/fraud_detector")
    assert len(room.got) == 2, "the late reminder is no news any more"
    assert set(AlertDelivery.objects.filter(why="reminder").values_list("state", flat=True)) == {
        "skipped"
    }
    assert not Notice.objects.filter(kind="alert.firing", ended_at__isnull=True).exists()


def test_what_the_receiver_does_not_take_is_tried_again_and_said_when_it_fails(
    endpoint: Endpoint, fleet_rows: Fleet, room: vendors.Vendor, run_jobs: Run
) -> None:
    channel(fleet_rows, "slack", f"{room.address}/services/x")
    route(fleet_rows, "slack")
    room.scripted += [(503, "away"), (503, "away")]
    told([make_alert(endpoint, "P2")])
    run_jobs()
    delivery = AlertDelivery.objects.get()
    assert (delivery.state, delivery.attempts, len(room.got)) == ("sent", 3, 1)
    assert AlertChannel.objects.get().failures == 0

    room.scripted.append((404, "no_service"))
    told([make_alert(endpoint, "P2", title="Another")])
    run_jobs()
    failed = AlertDelivery.objects.exclude(pk=delivery.pk).get()
    assert (failed.state, "no_service" in failed.error, bool(failed.hint)) == ("failed", True, True)
    notice = Notice.objects.get(kind="alert_channel.failing", recipient__username="sam")
    assert "no_service" in notice.data["detail"]

    deliveries.retry(delivery_id=failed.pk, actor=fleet_rows.sam)
    with pytest.raises(Conflict):
        deliveries.retry(delivery_id=failed.pk, actor=fleet_rows.sam)
    run_jobs()
    failed.refresh_from_db()
    notice.refresh_from_db()
    assert (failed.state, notice.ended_at is not None) == ("sent", True)
    assert AuditEntry.objects.filter(action="alert_delivery.retry").count() == 1


def test_an_answer_with_null_characters_and_secrets_is_kept_without_them_and_sent_once(
    endpoint: Endpoint, fleet_rows: Fleet, room: vendors.Vendor, run_jobs: Run
) -> None:
    channel(fleet_rows, "slack", f"{room.address}/services/T1/geheimnis")
    route(fleet_rows, "slack")
    room.scripted.append((200, "took\0 it at /services/T1/geheimnis"))
    told([make_alert(endpoint, "P2")])
    assert [job.state for job in run_jobs()] == [JobState.SUCCEEDED]
    delivery = AlertDelivery.objects.get()
    assert (delivery.state, delivery.answer) == ("sent", "200 took it at …")
    assert len(room.seen) == 1


def test_to_a_channel_that_fails_one_message_at_a_time(
    endpoint: Endpoint, fleet_rows: Fleet, room: vendors.Vendor, run_jobs: Run
) -> None:
    channel(fleet_rows, "slack", f"{room.address}/services/x")
    route(fleet_rows, "slack")
    told([make_alert(endpoint, "P2")])
    told([make_alert(endpoint, "P2", title="Another")], now=NOW + timedelta(seconds=1))
    first, second = AlertDelivery.objects.order_by("created_at")
    AlertChannel.objects.update(failures=1)
    Job.objects.filter(pk=first.job_id).update(state=JobState.RUNNING)
    with pytest.raises(Unavailable, match="another message is being tried"):
        delivering.run_delivery(JobRun(Job.objects.get(pk=second.job_id)))
    assert room.seen == []
    AlertChannel.objects.update(failures=0)
    run_jobs()
    second.refresh_from_db()
    assert (second.state, len(room.seen)) == ("sent", 1)


def test_a_job_that_runs_twice_sends_once(
    endpoint: Endpoint, fleet_rows: Fleet, room: vendors.Vendor, run_jobs: Run
) -> None:
    channel(fleet_rows, "slack", f"{room.address}/services/x")
    route(fleet_rows, "slack")
    told([make_alert(endpoint, "P2")])
    [job] = run_jobs()
    Job.objects.filter(pk=job.pk).update(state=JobState.QUEUED)
    run_jobs()
    assert len(room.got) == 1


def test_silenced_ones_and_channels_that_are_off_are_told_to_nobody(
    endpoint: Endpoint, fleet_rows: Fleet, room: vendors.Vendor, run_jobs: Run
) -> None:
    channel(fleet_rows, "slack", f"{room.address}/services/x")
    route(fleet_rows, "slack")
    told([make_alert(endpoint, suppressed="maintenance")])
    assert not AlertDelivery.objects.exists()
    told([make_alert(endpoint, "P2")])
    channels.change_channel(name="slack", enabled=False, actor=fleet_rows.sam)
    run_jobs()
    assert AlertDelivery.objects.get().answer == "The channel is switched off."
    assert room.got == []


def test_that_nobody_can_be_reached_is_said_loudly_until_somebody_is(
    endpoint: Endpoint, fleet_rows: Fleet, settings: Any, postbox: Box
) -> None:
    settings.MAIL_SERVER = None
    first = make_alert(endpoint)
    told([first])
    notice = Notice.objects.get(kind="on_call.nobody", recipient__username="sam")
    assert (notice.data["why"], notice.severity) == ("mail", "critical")
    assert AlertEvent.objects.filter(alert=first, kind="nobody_reached").exists()
    settings.MAIL_SERVER = postbox[1]
    told([make_alert(endpoint)])
    notice.refresh_from_db()
    assert notice.ended_at is not None


def test_nobody_acknowledges_and_the_next_are_told_until_somebody_does(
    endpoint: Endpoint, fleet_rows: Fleet, mail: Postbox, room: vendors.Vendor, run_jobs: Run
) -> None:
    channel(fleet_rows, "slack", f"{room.address}/services/x")
    steps = [
        StepTerms(10, "on_call"),
        StepTerms(20, "channel", "slack"),
        StepTerms(30, "person", "ada"),
    ]
    policies.set_policy(name="default", steps=steps, repeats=1, actor=fleet_rows.sam)
    alert = make_alert(endpoint)
    told([alert])
    minutes = lambda number: NOW + timedelta(minutes=number)  # noqa: E731
    assert escalate_due(minutes(9)) == 0
    assert escalate_due(minutes(10)) == 1
    assert escalate_due(minutes(10)) == 0, "twice in one moment is once"
    assert escalate_due(minutes(20)) == 1
    run_jobs()
    assert [to for to, _ in subjects(mail)] == ["sam@example.com"] * 2
    assert room.got[0]["text"].startswith("Nobody sees to it – P1")
    assert Notice.objects.filter(kind="alert.escalated", ended_at__isnull=True).exists()
    Alert.objects.filter(pk=alert.pk).update(acknowledged_at=minutes(25))
    assert escalate_due(minutes(30)) == 0
    escalation = Escalation.objects.get()
    assert (escalation.ended_why, escalation.step) == ("acknowledged", 2)
    assert not Notice.objects.filter(kind="alert.escalated", ended_at__isnull=True).exists()


def test_an_escalation_rests_while_its_alert_is_silenced(endpoint: Endpoint, mail: Postbox) -> None:
    alert = make_alert(endpoint)
    told([alert])
    Alert.objects.filter(pk=alert.pk).update(suppressed="maintenance")
    assert escalate_due(NOW + timedelta(minutes=11)) == 0
    Alert.objects.filter(pk=alert.pk).update(suppressed="")
    assert escalate_due(NOW + timedelta(minutes=13)) == 1


def test_an_incident_is_told_of_the_same_way_and_closed_the_same_way(
    endpoint: Endpoint, fleet_rows: Fleet, mail: Postbox, pager: vendors.Vendor, run_jobs: Run
) -> None:
    channel(fleet_rows, "pagerduty", f"{pager.address}/v2/enqueue", KEY)
    route(fleet_rows, "pagerduty", rule_name="incident")
    now = timezone.now()
    incident = incidents.open_incident(
        endpoint=endpoint, cause="error_rate", title="v1 fails", severity="P1", at=now,
        actor=fleet_rows.system, level=1,
    )  # fmt: skip
    run_jobs()
    assert subjects(mail) == [("sam@example.com", "P1 production/fraud_detector: v1 fails")]
    assert escalate_due(now + timedelta(minutes=10)) == 1
    # An alert that joins it calls nobody a second time.
    alert = make_alert(endpoint, incident=incident)
    told([alert])
    assert AlertDelivery.objects.filter(why="firing", person__isnull=False).count() == 1
    incident_acts.acknowledge(incident_id=incident.pk, actor=fleet_rows.sam)
    assert escalate_due(now + timedelta(minutes=20)) == 0
    incident_acts.resolve(incident_id=incident.pk, summary="A bad build.", actor=fleet_rows.sam)
    run_jobs()
    assert [one["event_action"] for one in pager.got] == ["trigger", "resolve"]
    assert pager.got[0]["dedup_key"] == pager.got[1]["dedup_key"]
    assert Incident.objects.get().state == "resolved"
    overs = [subject for _, subject in subjects(mail) if subject.startswith("Over")]
    assert len(overs) == 1


def test_a_test_says_what_the_receiver_answered_and_keeps_no_secret(
    fleet_rows: Fleet, room: vendors.Vendor, settings: Any
) -> None:
    settings.PRIVATE_ADDRESSES = (ip_network("127.0.0.0/8"),)
    channel(fleet_rows, "slack", f"{room.address}/services/T0/geheimnis")
    [fine] = channel_tests.try_channel(name="slack", actor=fleet_rows.sam)
    assert (fine.state, fine.answer) == ("sent", "200 ok")
    room.scripted.append((404, "no_service"))
    [failed] = channel_tests.try_channel(name="slack", actor=fleet_rows.sam)
    assert (failed.state, "no_service" in failed.error) == ("failed", True)
    kept = str(list(AlertChannel.objects.values()) + list(AuditEntry.objects.values()))
    assert "geheimnis" not in kept
    assert "geheimnis" not in str(list(AlertDelivery.objects.values()))
    with pytest.raises(NotAllowed):
        channel_tests.try_channel(name="slack", actor=factories.actor(factories.people().vic))


def test_a_webhooks_secret_is_shown_once_and_can_be_made_anew(fleet_rows: Fleet) -> None:
    _, secret = channels.create_channel(
        name="hook", kind="webhook", address="https://hooks.example.com/x", actor=fleet_rows.sam
    )
    _, newer = channels.rotate_secret(name="hook", actor=fleet_rows.sam)
    assert secret.startswith("whsec_")
    assert newer != secret
    with pytest.raises(Stale):
        channels.change_channel(name="hook", enabled=False, revision=1, actor=fleet_rows.sam)
    with pytest.raises(Invalid):
        channels.change_channel(name="hook", secret="mine", actor=fleet_rows.sam)
    with pytest.raises(Conflict):
        channels.create_channel(
            name="hook", kind="slack", address="https://a.example.com/x", actor=fleet_rows.sam
        )


def test_each_address_of_a_mail_channel_gets_a_message_of_its_own(
    endpoint: Endpoint, fleet_rows: Fleet, mail: Postbox, run_jobs: Run
) -> None:
    channel(fleet_rows, "email", "ops@example.com, lead@example.com")
    route(fleet_rows, "email")
    told([make_alert(endpoint, "P2")])
    run_jobs()
    assert [to for to, _ in subjects(mail)] == ["lead@example.com", "ops@example.com"]


def test_what_no_route_takes_goes_to_the_operators(endpoint: Endpoint, fleet_rows: Fleet) -> None:
    AlertRoute.objects.all().delete()
    told([make_alert(None, group_key="installation")])
    assert Notice.objects.get(recipient__username="sam").subject == "installation"


def test_telling_of_many_takes_a_bounded_number_of_queries(
    endpoint: Endpoint, fleet_rows: Fleet, room: vendors.Vendor
) -> None:
    channel(fleet_rows, "slack", f"{room.address}/services/x")
    route(fleet_rows, "slack")
    counts = []
    for number in (2, 22):
        alerts = [make_alert(endpoint, "P2") for _ in range(number)]
        with CaptureQueriesContext(connection) as queries:
            told(alerts)
        counts.append(len(queries))
    # Those of one occasion are planned once, noted once and written in one message.
    assert counts[1] - counts[0] <= 3, counts


def test_old_messages_are_forgotten(endpoint: Endpoint, fleet_rows: Fleet) -> None:
    channel(fleet_rows, "slack", "https://hooks.example.com/x")
    route(fleet_rows, "slack")
    told([make_alert(endpoint, "P2")])
    assert deliveries.forget_old(NOW + timedelta(days=179)) == 0
    assert deliveries.forget_old(NOW + timedelta(days=181)) == 1
