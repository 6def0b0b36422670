"""Incidents as services write them: one for each disturbance, told, acknowledged, closed."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta

import pytest
from django.db import transaction
from django.utils import timezone

from console.errors import Conflict, Invalid, NotAllowed, NotFound
from console.models import AuditEntry, Notice, Team, TeamMembership
from deployments.documents.sla_words import promise_context
from deployments.models import Alert, Endpoint, Incident, IncidentSeverity, Rollout, TrafficSplit
from deployments.rules.incidents.spells import seconds_of
from deployments.selectors.alerts.on_call import operators_of
from deployments.selectors.incidents.pages import IncidentFilter, incident_list
from deployments.selectors.incidents.spells import began_last, spells_of
from deployments.selectors.objectives.sla import sla
from deployments.services.alerts import messages
from deployments.services.alerts.incidents import join_incident
from deployments.services.incidents import acts as incident_acts
from deployments.services.incidents import records as incidents
from deployments.services.traffic.splits import offer_first_traffic
from models_registry.models import SeatHolder, Visibility
from tests import factories
from tests.deployments.conftest import Fleet, ready_version


@pytest.fixture
def endpoint(fleet_rows: Fleet) -> Endpoint:
    model = factories.make_model()
    version = factories.make_version(model)
    ready_version(fleet_rows, version)
    return Endpoint.objects.select_related("model", "environment").get()


def open_one(
    endpoint: Endpoint, fleet: Fleet, *, at: datetime | None = None, level: int = 1, **more: object
) -> Incident:
    fields: dict[str, object] = {
        "cause": "error_rate",
        "title": "v1 fails",
        "severity": IncidentSeverity.P2,
        **more,
    }
    return incidents.open_incident(
        endpoint=endpoint,
        at=at or timezone.now(),
        actor=fleet.system,
        level=level,
        **fields,  # type: ignore[arg-type]
    )


def test_a_second_sign_of_the_same_disturbance_joins_its_incident(
    endpoint: Endpoint, fleet_rows: Fleet
) -> None:
    first = open_one(endpoint, fleet_rows)
    second = open_one(endpoint, fleet_rows, level=3, severity="P1", title="Nothing answers")

    assert first.pk == second.pk
    assert (second.level, second.severity) == (3, "P1")
    kinds = list(second.events.values_list("kind", flat=True))
    assert kinds == ["opened", "called", "joined", "called"]
    actions = list(
        AuditEntry.objects.filter(action__startswith="incident").values_list("action", flat=True)
    )
    assert sorted(actions) == ["incident.escalate", "incident.open"]


def test_what_begins_long_after_callers_were_well_is_another_incident(
    endpoint: Endpoint, fleet_rows: Fleet
) -> None:
    now = timezone.now()
    first = open_one(endpoint, fleet_rows, at=now - timedelta(hours=5))
    incidents.end_incident(incident=first, at=now - timedelta(hours=4), actor=fleet_rows.system)
    second = open_one(endpoint, fleet_rows, at=now)

    first.refresh_from_db()
    assert second.pk != first.pk
    assert first.state == "resolved"
    assert first.summary
    assert not Notice.objects.filter(key__contains=str(first.pk), ended_at__isnull=True).exists()


def test_what_begins_again_soon_is_the_same_incident_and_called_anew(
    endpoint: Endpoint, fleet_rows: Fleet
) -> None:
    now = timezone.now()
    first = open_one(endpoint, fleet_rows, at=now - timedelta(minutes=30))
    incident_acts.acknowledge(incident_id=first.pk, actor=fleet_rows.sam)
    Notice.objects.update(done_at=now)
    incidents.end_incident(incident=first, at=now - timedelta(minutes=12), actor=fleet_rows.system)
    again = open_one(endpoint, fleet_rows, at=now, title="No node")
    assert again.pk == first.pk
    assert (again.ended_at, again.state, again.title) == (None, "open", "No node")
    assert Notice.objects.filter(recipient__username="sam", done_at__isnull=True).exists()


def test_another_cause_after_callers_were_well_is_another_incident(
    endpoint: Endpoint, fleet_rows: Fleet
) -> None:
    now = timezone.now()
    first = open_one(endpoint, fleet_rows, at=now - timedelta(minutes=12, seconds=5))
    ended = now - timedelta(minutes=12)
    incidents.end_incident(incident=first, at=ended, actor=fleet_rows.system)
    second = open_one(
        endpoint, fleet_rows, at=now, cause="no_node", title="No node has v1", severity="P1"
    )
    first.refresh_from_db()
    assert second.pk != first.pk
    assert (first.state, first.ended_at, first.severity) == ("resolved", ended, "P2")
    assert (second.started_at, second.severity, second.title) == (now, "P1", "No node has v1")
    assert (
        messages.of_incident(second, "firing", now=now)["items"][0]["started_at"]
        == second.started_at.isoformat()
    )


def test_a_fault_that_flaps_is_one_incident_that_counts_its_bad_spells_alone(
    endpoint: Endpoint, fleet_rows: Fleet
) -> None:
    now = timezone.now()
    for minutes in (30, 20, 10):
        began = now - timedelta(minutes=minutes)
        incident = open_one(endpoint, fleet_rows, at=began)
        incidents.end_incident(
            incident=incident, at=began + timedelta(seconds=5), actor=fleet_rows.system
        )
    # One fault that shows itself in several ways: hardly well, then something else.
    soon = now - timedelta(minutes=9)
    incident = open_one(endpoint, fleet_rows, at=soon, cause="no_node", severity="P1", version=2)
    assert Incident.objects.count() == 1
    assert (incident.severity, incident.cause, incident.version) == ("P1", "no_node", 2)
    assert began_last(incident) == soon
    assert messages.of_incident(incident, "firing", now=now)["items"][0]["started_at"] == (
        soon.isoformat()
    )
    assert seconds_of(spells_of([incident])[incident.pk]) is None
    incidents.end_incident(
        incident=incident, at=soon + timedelta(seconds=7), actor=fleet_rows.system
    )
    incident.refresh_from_db()
    assert seconds_of(spells_of([incident])[incident.pk]) == 22
    listed = incident_list(IncidentFilter(), user=fleet_rows.sam.user).get()
    assert listed.since == soon  # type: ignore[attr-defined] # annotated


def test_a_promise_counts_the_bad_spells_of_an_incident_and_not_the_time_between(
    endpoint: Endpoint, fleet_rows: Fleet
) -> None:
    start = datetime(2026, 3, 10, 12, tzinfo=UTC)
    for minutes in (0, 10):
        began = start + timedelta(minutes=minutes)
        incident = open_one(endpoint, fleet_rows, at=began)
        incidents.end_incident(
            incident=incident, at=began + timedelta(seconds=5), actor=fleet_rows.system
        )
    now = start + timedelta(hours=1)
    context = promise_context(sla(endpoint, "2026-03", now), now)
    assert [one["lasted"] for one in context["incidents"]] == [10]


def test_an_urgent_alert_makes_the_incident_that_it_joins_as_grave(
    endpoint: Endpoint, fleet_rows: Fleet
) -> None:
    incident = open_one(endpoint, fleet_rows)
    now = timezone.now()
    alert = Alert.objects.create(
        rule_name="success-rate", severity="P1", state="firing", endpoint=endpoint,
        signal="success_rate_percent", title="Too few requests succeed", started_at=now,
        fired_at=now, seen_at=now, fingerprint="f", group_key=str(endpoint),
    )  # fmt: skip
    assert join_incident(alert, now) == incident
    incident.refresh_from_db()
    assert (incident.severity, incident.title, incident.cause) == ("P1", "v1 fails", "error_rate")
    kinds = list(incident.events.values_list("kind", flat=True))
    assert kinds == ["opened", "called", "alert", "called"]


def test_those_on_call_are_told_once_and_no_longer_once_it_is_resolved(
    endpoint: Endpoint, fleet_rows: Fleet
) -> None:
    incident = open_one(endpoint, fleet_rows)
    open_one(endpoint, fleet_rows)
    notice = Notice.objects.get(recipient__username="sam", kind="incident.open")
    assert notice.severity == "warning"
    assert not Notice.objects.filter(recipient__username="dana").exists()

    incident_acts.resolve(incident_id=incident.pk, summary="A bad build.", actor=fleet_rows.sam)
    notice.refresh_from_db()
    assert notice.ended_at is not None


def test_becoming_graver_is_said_anew(endpoint: Endpoint, fleet_rows: Fleet) -> None:
    open_one(endpoint, fleet_rows)
    open_one(endpoint, fleet_rows, severity="P1", level=3)
    severities = set(
        Notice.objects.filter(recipient__username="sam").values_list("severity", flat=True)
    )
    assert severities == {"warning", "critical"}


def test_on_call_are_the_seat_and_the_sres_of_the_installation_and_of_the_team(
    endpoint: Endpoint, fleet_rows: Fleet
) -> None:
    model = endpoint.model
    team, other = Team.objects.create(slug="risk", name="Risk"), Team.objects.create(slug="x")
    model.team, model.visibility = team, Visibility.TEAM
    model.save()
    seat, ours, theirs = (factories.make_user(name) for name in ("seat", "ours", "theirs"))
    SeatHolder.objects.filter(model=model, seat="sre").update(user=seat)
    TeamMembership.objects.create(team=team, user=ours, roles=["sre"])
    TeamMembership.objects.create(team=other, user=theirs, roles=["sre"])
    names = [person.username for person in operators_of(model)]
    assert names == ["ours", "sam", "seat"]


def test_acknowledging_twice_keeps_the_first(endpoint: Endpoint, fleet_rows: Fleet) -> None:
    incident = open_one(endpoint, fleet_rows)
    dana = factories.actor(factories.people().dana)
    incident_acts.acknowledge(incident_id=incident.pk, actor=fleet_rows.sam)
    incident_acts.acknowledge(incident_id=incident.pk, actor=dana)
    incident.refresh_from_db()
    assert incident.acknowledged_by == fleet_rows.sam.user
    assert incident.events.filter(kind="acknowledged").count() == 1
    assert AuditEntry.objects.filter(action="incident.acknowledge").count() == 1


def test_a_resolved_incident_is_not_acknowledged_but_may_be_commented(
    endpoint: Endpoint, fleet_rows: Fleet
) -> None:
    incident = open_one(endpoint, fleet_rows)
    incident_acts.resolve(incident_id=incident.pk, summary="It was the node.", actor=fleet_rows.sam)
    incident_acts.resolve(incident_id=incident.pk, summary="Something else.", actor=fleet_rows.sam)
    with pytest.raises(Conflict, match="resolved already"):
        incident_acts.acknowledge(incident_id=incident.pk, actor=fleet_rows.sam)
    incident_acts.comment(
        incident_id=incident.pk, text="The node is replaced.", actor=fleet_rows.sam
    )
    incident.refresh_from_db()
    assert incident.summary == "It was the node."
    last = incident.events.last()
    assert last is not None
    assert last.message == "The node is replaced."


def test_resolving_takes_words(endpoint: Endpoint, fleet_rows: Fleet) -> None:
    incident = open_one(endpoint, fleet_rows)
    with pytest.raises(Invalid):
        incident_acts.resolve(incident_id=incident.pk, summary="  ", actor=fleet_rows.sam)


def test_who_may_not_see_the_model_finds_no_incident_and_a_viewer_may_not_act(
    endpoint: Endpoint, fleet_rows: Fleet
) -> None:
    incident = open_one(endpoint, fleet_rows)
    vic = factories.actor(factories.people().vic)
    with pytest.raises(NotAllowed):
        incident_acts.acknowledge(incident_id=incident.pk, actor=vic)
    endpoint.model.visibility = Visibility.TEAM
    endpoint.model.save()
    stranger = factories.actor(factories.make_user("stranger", "data_scientist"))
    for unknown in (incident.pk, uuid.uuid4()):
        with pytest.raises(NotFound):
            incident_acts.acknowledge(incident_id=unknown, actor=stranger)


def test_a_rollout_that_was_taken_back_is_over_once_every_gateway_acts_on_it(
    endpoint: Endpoint, fleet_rows: Fleet
) -> None:
    now = timezone.now()
    rollout = Rollout.objects.create(
        endpoint=endpoint, version=2, baseline=1, plan={}, started_by=fleet_rows.sam.user,
        created_at=now, next_look_at=now, state="rolled_back",
    )  # fmt: skip
    incident = open_one(endpoint, fleet_rows, rollout=rollout)
    with transaction.atomic():
        split = offer_first_traffic(endpoint, 1, fleet_rows.system)
    assert split is not None
    TrafficSplit.objects.filter(pk=split.pk).update(cause="rollout", applied_at=now)
    assert incidents.end_settled(now + timedelta(seconds=9)) == 0
    assert incidents.end_settled(now + timedelta(seconds=10)) == 1
    assert incidents.end_settled(now + timedelta(seconds=11)) == 0
    incident.refresh_from_db()
    assert incident.ended_at == now
