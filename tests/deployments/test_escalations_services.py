"""Down the levels by itself on the database, with live numbers as the collector writes them."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import transaction
from django.utils import timezone

from console import live
from console.errors import Conflict, Invalid, NotAllowed, Stale
from console.models import AuditEntry, Job, Notice
from deployments.adapters import live_store
from deployments.models import (
    Endpoint,
    Incident,
    Node,
    Placement,
    RollbackPolicy,
    TrafficSplit,
)
from deployments.rules.incidents.escalation_state import Act
from deployments.selectors.incidents.escalation_health import watched_endpoints
from deployments.selectors.incidents.rollback_policies import policy_in_force
from deployments.services.incidents import acts as incident_acts
from deployments.services.incidents import escalations, redeploys, rollback_policies
from deployments.services.incidents.rollbacks import roll_back
from deployments.services.traffic.splits import offer_first_traffic, set_mode, set_split
from models_registry.models import ContractState, ServiceContract
from tests import factories
from tests.deployments.conftest import Fleet, applied, ready_version

HERE: dict[str, Any] = {"environment": "production", "model": "fraud_detector"}
BOUNDS = (1.0, 10.0, 100.0)


@pytest.fixture
def two(fleet_rows: Fleet) -> Fleet:
    """Version 2 has all the traffic, version 1 had it before; the policy is automatic."""
    live.connection().delete("covenant:ring:production/fraud_detector")
    for _ in range(2):
        ready_version(fleet_rows, factories.make_version())
    with transaction.atomic():
        first = offer_first_traffic(Endpoint.objects.get(), 1, fleet_rows.sam)
    assert first is not None
    applied(first)
    moved = set_split(
        **HERE, weights={2: 100}, expected_revision=1, reason="New.", actor=fleet_rows.sam
    )
    applied(moved)
    TrafficSplit.objects.update(created_at=timezone.now() - timedelta(hours=1))
    TrafficSplit.objects.update(applied_at=timezone.now() - timedelta(hours=1))
    automatic(fleet_rows)
    return fleet_rows


def automatic(fleet: Fleet, **document: Any) -> RollbackPolicy:
    return rollback_policies.set_policy(
        **HERE, automatic=True, document=document, expected_revision=None, actor=fleet.sam
    )


def count(now: datetime, version: int, requests: int, faults: int) -> None:
    """What the collector writes of the last second."""
    point = {
        "t": now.timestamp() - 0.5,
        "v": {str(version): [requests, 0, faults, {"1": requests}]},
    }
    live_store.store({}, {"production/fraud_detector": point}, BOUNDS)


def current() -> TrafficSplit:
    split = Endpoint.objects.get().current
    assert split is not None
    return split


def test_a_version_that_fails_gives_way_to_the_fallback_and_somebody_knows(two: Fleet) -> None:
    now = timezone.now()
    count(now, 2, 100, 100)
    (decision,) = escalations.watch_endpoints(now)

    assert (decision.act, decision.level) == (Act.MOVE, 2)
    split = current()
    assert (split.mode, split.cause, split.author.username) == ("fallback", "automatic", "system")
    incident = Incident.objects.get()
    assert (incident.cause, incident.level, incident.version) == ("error_rate", 2, 2)
    assert incident.title == "v2 fails"
    lines = [(one.kind, one.split_id) for one in incident.events.all()]
    assert lines[-1] == ("moved", split.pk)
    assert Notice.objects.filter(recipient__username="sam", kind="incident.open").count() == 1
    assert AuditEntry.objects.filter(action="endpoint.escalate").count() == 1


def test_looking_twice_in_one_moment_moves_once(two: Fleet) -> None:
    now = timezone.now()
    count(now, 2, 100, 100)
    escalations.watch_endpoints(now)
    assert escalations.watch_endpoints(now) == []
    assert current().revision == 3


def test_without_a_contract_the_circuit_opens_and_those_on_call_are_called(two: Fleet) -> None:
    ServiceContract.objects.update(state=ContractState.WITHDRAWN)
    now = timezone.now()
    count(now, 2, 100, 100)
    escalations.watch_endpoints(now)

    assert current().mode == "open"
    assert Incident.objects.get().severity == "P1"
    assert Notice.objects.get(recipient__username="sam", kind="incident.open").severity == (
        "critical"
    )


def test_a_lost_node_counts_after_a_while_and_without_live_numbers(two: Fleet) -> None:
    Node.objects.update(state="lost")
    now = timezone.now()
    (noticed,) = escalations.watch_endpoints(now)
    assert noticed.act is Act.STAY
    (decision,) = escalations.watch_endpoints(now + timedelta(seconds=5))
    assert (decision.cause, decision.level) == ("no_node", 2)


def test_a_restart_of_everything_is_no_disturbance(two: Fleet) -> None:
    began = timezone.now()
    watch = escalations.EndpointWatch()
    Node.objects.update(state="lost")
    for second in range(4):
        count(began + timedelta(seconds=second), 2, 100, 100)
        watch(began + timedelta(seconds=second))
    Node.objects.update(state="ready")
    for second in range(4, 25):
        count(began + timedelta(seconds=second), 2, 20, 0)
        watch(began + timedelta(seconds=second))
    assert current().revision == 2
    assert not Incident.objects.exists()


def test_a_version_that_fails_on_after_a_restart_gives_way(two: Fleet) -> None:
    began = timezone.now()
    watch = escalations.EndpointWatch()
    for second in range(15):
        count(began + timedelta(seconds=second), 2, 100, 100)
        watch(began + timedelta(seconds=second))
    assert current().revision == 2
    count(began + timedelta(seconds=15), 2, 100, 100)
    (decision,) = watch(began + timedelta(seconds=15))
    assert (decision.cause, decision.level) == ("error_rate", 2)
    # After a long silence of its own it begins anew.
    assert watch(began + timedelta(minutes=5)) == []


def test_what_failed_while_a_node_was_away_is_not_held_against_its_version(two: Fleet) -> None:
    began = timezone.now()
    Node.objects.update(state="lost")
    for second in range(2):
        count(began + timedelta(seconds=second), 2, 9, 9)
        escalations.watch_endpoints(began + timedelta(seconds=second))
    Node.objects.update(state="ready")
    for second in range(2, 5):
        # At the node's return 18 of 27 have failed, and one second is late.
        count(began + timedelta(seconds=second), 2, 9, 9 if second == 2 else 0)
        escalations.watch_endpoints(began + timedelta(seconds=second))
    assert current().revision == 2


def test_a_policy_that_is_off_moves_nothing(two: Fleet) -> None:
    rollback_policies.set_policy(
        **HERE, automatic=False, document={}, expected_revision=1, actor=two.sam
    )
    now = timezone.now()
    count(now, 2, 100, 100)
    assert escalations.watch_endpoints(now) == []
    assert current().revision == 2


def test_a_persons_move_ends_the_automatism_until_the_incident_is_resolved(two: Fleet) -> None:
    now = timezone.now()
    count(now, 2, 100, 100)
    escalations.watch_endpoints(now)
    applied(set_mode(**HERE, mode="normal", reason="I look at it.", actor=two.sam))

    (decision,) = escalations.watch_endpoints(now + timedelta(seconds=1))
    assert decision.act is Act.HAND_OVER
    count(now + timedelta(seconds=2), 2, 100, 100)
    assert escalations.watch_endpoints(now + timedelta(seconds=2)) == []
    assert current().mode == "normal"
    kinds = list(Incident.objects.get().events.values_list("kind", flat=True))
    assert "hand_over" in kinds

    incident_acts.resolve(
        incident_id=Incident.objects.get().pk, summary="A bad build.", actor=two.sam
    )
    later = timezone.now() + timedelta(seconds=20)
    escalations.watch_endpoints(later)
    count(later + timedelta(seconds=1), 2, 100, 100)
    assert escalations.watch_endpoints(later + timedelta(seconds=1)) != []


def test_a_person_who_is_quicker_wins(two: Fleet) -> None:
    now = timezone.now()
    count(now, 2, 100, 100)
    seen = watched_endpoints(now)
    set_split(**HERE, weights={1: 100}, expected_revision=2, reason="Quick.", actor=two.sam)
    (watched,) = seen
    assert escalations.act_on(watched, now) is None
    assert current().weights == {"1": 10000}


def test_the_number_of_queries_does_not_grow_with_the_endpoints(
    two: Fleet, django_assert_num_queries: Any
) -> None:
    with django_assert_num_queries(4):
        escalations.watch_endpoints(timezone.now())
    for name in ("churn", "scoring"):
        ready_version(two, factories.make_version(factories.make_model(name)))
        endpoint = Endpoint.objects.get(model__name=name)
        with transaction.atomic():
            offer_first_traffic(endpoint, 1, two.sam)
        rollback_policies.set_policy(
            environment="production", model=name, automatic=True, document={},
            expected_revision=None, actor=two.sam,
        )  # fmt: skip
    with django_assert_num_queries(4):
        escalations.watch_endpoints(timezone.now())


def test_production_acts_by_itself_unless_somebody_decided_otherwise(two: Fleet) -> None:
    RollbackPolicy.objects.all().delete()
    endpoint = Endpoint.objects.select_related("environment").get()
    assert not policy_in_force(endpoint, None).automatic
    endpoint.environment.production = True
    endpoint.environment.save()
    assert policy_in_force(endpoint, None).automatic
    now = timezone.now()
    count(now, 2, 100, 100)
    assert len(escalations.watch_endpoints(now)) == 1
    row = RollbackPolicy.objects.get()
    assert (row.automatic, row.revision) == (True, 0)


def test_a_policy_is_written_by_one_of_two(two: Fleet) -> None:
    automatic(two, hold_s=60)
    with pytest.raises(Stale):
        rollback_policies.set_policy(
            **HERE, automatic=True, document={"hold_s": 90}, expected_revision=1, actor=two.sam
        )
    same = rollback_policies.set_policy(
        **HERE, automatic=True, document={"hold_s": 60}, expected_revision=1, actor=two.sam
    )
    assert same.revision == 2
    with pytest.raises(Invalid):
        automatic(two, hold_s=0)
    with pytest.raises(NotAllowed):
        rollback_policies.set_policy(
            **HERE, automatic=True, document={}, expected_revision=None,
            actor=factories.actor(factories.people().dana),
        )  # fmt: skip


# By hand, where the last good version is gone.


def take_off(number: int) -> None:
    Placement.objects.filter(deployment__release__version__number=number).update(state="unloaded")


def test_a_rollback_to_what_is_gone_deploys_it_while_the_fallback_answers(two: Fleet) -> None:
    take_off(1)
    split = roll_back(**HERE, reason="Errors.", actor=two.sam)
    assert (split.mode, split.cause) == ("fallback", "rollback")
    assert roll_back(**HERE, reason="A double click.", actor=two.sam) == split
    job = Job.objects.get(kind="deploy")
    assert job.subject.startswith("fraud_detector v1 → production")
    incident = Incident.objects.get()
    assert (incident.level, incident.state) == (2, "acknowledged")
    assert redeploys.finish_redeploys(timezone.now()) == 0

    placement = Placement.objects.get(job=job)
    Placement.objects.filter(pk=placement.pk).update(state="ready")
    assert redeploys.finish_redeploys(timezone.now()) == 1
    assert redeploys.finish_redeploys(timezone.now()) == 0
    moved = current()
    assert (moved.mode, moved.weights, moved.cause) == ("normal", {"1": 10000}, "rollback")
    kinds = list(incident.events.values_list("kind", flat=True))
    assert kinds == ["opened", "called", "moved", "redeploy", "redeploy_ready", "moved"]


def test_a_deploy_that_fails_leaves_the_fallback_answering_and_calls(two: Fleet) -> None:
    take_off(1)
    split = roll_back(**HERE, reason="Errors.", actor=two.sam)
    Placement.objects.filter(job__kind="deploy").update(state="failed", detail="The disk is full.")
    assert redeploys.finish_redeploys(timezone.now()) == 1
    assert current() == split
    incident = Incident.objects.get()
    assert incident.severity == "P1"
    assert incident.events.get(kind="joined").message == "local: The disk is full."
    assert "redeploy" not in RollbackPolicy.objects.get().progress


def test_who_moves_the_traffic_meanwhile_is_left_alone(two: Fleet) -> None:
    take_off(1)
    roll_back(**HERE, reason="Errors.", actor=two.sam)
    mine = set_mode(**HERE, mode="normal", reason="It was not the model.", actor=two.sam)
    Placement.objects.filter(job__kind="deploy").update(state="ready")
    assert redeploys.finish_redeploys(timezone.now()) == 1
    assert current() == mine


def test_a_deploy_that_may_not_be_done_leaves_everything_as_it_was(two: Fleet) -> None:
    take_off(1)
    ServiceContract.objects.update(state=ContractState.WITHDRAWN)
    with pytest.raises(Conflict):
        roll_back(**HERE, reason="Errors.", actor=two.sam)
    assert current().revision == 2
    assert not Incident.objects.exists()


def test_a_named_version_that_was_never_released_is_refused(two: Fleet) -> None:
    with pytest.raises(Conflict) as refused:
        roll_back(**HERE, reason="Errors.", to=9, actor=two.sam)
    assert refused.value.code == "not_ready"
    assert not Incident.objects.exists()


def test_a_mode_by_hand_is_an_incident_until_it_is_normal_again(two: Fleet) -> None:
    set_mode(**HERE, mode="open", reason="Stop it.", actor=two.sam)
    incident = Incident.objects.get()
    assert (incident.level, incident.severity, incident.cause) == (3, "P1", "by_hand")
    assert incident.acknowledged_by == two.sam.user
    set_mode(**HERE, mode="normal", reason="Well again.", actor=two.sam)
    incident.refresh_from_db()
    assert incident.ended_at is not None
