from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connection, transaction

from console.errors import Conflict, Invalid, NotAcknowledged, NotAllowed, NotFound, Stale
from console.models import AuditEntry, Job
from deployments.models import Endpoint, TrafficSplit
from deployments.services.gateways import desired as gateways
from deployments.services.gateways.desired import gateway_state, record_ack, record_nack
from deployments.services.incidents.rollbacks import roll_back
from deployments.services.traffic.splits import (
    offer_first_traffic,
    set_mode,
    set_split,
    wait_acknowledged,
)
from models_registry.models import ModelVersion
from tests import factories
from tests.deployments.conftest import Fleet, applied, ready_version
from tests.deployments.waiting import eventually

pytestmark = pytest.mark.django_db

HERE: dict[str, Any] = {"environment": "production", "model": "fraud_detector"}


@pytest.fixture
def two(fleet_rows: Fleet) -> Fleet:
    """Versions 1 and 2 are ready; version 1 has all the traffic, and that is applied."""
    versions = [factories.make_version(), factories.make_version()]
    for version in versions:
        ready_version(fleet_rows, version)
    with transaction.atomic():
        first = offer_first_traffic(Endpoint.objects.get(), 1, fleet_rows.sam)
    assert first is not None
    applied(first)
    return fleet_rows


def move(fleet: Fleet, weights: dict[Any, Any], revision: int | None, **more: Any) -> TrafficSplit:
    return set_split(
        **HERE,
        weights=weights,
        expected_revision=revision,
        reason="Try it.",
        actor=fleet.sam,
        **more,
    )


def test_a_split_is_a_new_revision_with_its_reason_in_the_audit_trail(two: Fleet) -> None:
    split = move(two, {"1": 95, "2": "5"}, 1)
    assert (split.revision, split.weights, split.state) == (2, {"1": 9500, "2": 500}, "pending")
    assert Endpoint.objects.get().current == split
    entry = AuditEntry.objects.latest("sequence")
    assert (entry.action, entry.subject) == ("split.change", "production/fraud_detector")
    assert (entry.reason, entry.actor_username) == ("Try it.", "sam")
    assert entry.before is not None
    assert (entry.before["weights"], entry.after["weights"]) == ({"1": 100}, {"1": 95, "2": 5})


def test_a_stale_revision_is_refused_and_shows_the_present_split(two: Fleet) -> None:
    move(two, {1: 95, 2: 5}, 1)
    with pytest.raises(Stale, match=r"revision 2 \(v1 95 %, v2 5 %\)"):
        move(two, {1: 50, 2: 50}, 1)
    assert Endpoint.objects.get().last_revision == 2


def test_the_same_split_sent_twice_is_one_revision(two: Fleet) -> None:
    first = move(two, {1: 95, 2: 5}, 1)
    assert move(two, {1: 95, 2: 5}, 1) == first
    assert TrafficSplit.objects.count() == 2


@pytest.mark.parametrize("weights", [{1: 50, 2: 49}, {1: 101, 2: -1}, {"x": 100}, {1: 33.333}])
def test_weights_that_are_no_split_are_refused(two: Fleet, weights: dict[Any, Any]) -> None:
    with pytest.raises(Invalid):
        move(two, weights, 1)


def test_weight_on_a_version_that_is_not_ready_is_refused(two: Fleet) -> None:
    with pytest.raises(Conflict, match="v3") as refused:
        move(two, {1: 50, 3: 50}, 1)
    assert refused.value.code == "not_ready"
    two.node.state = "lost"
    two.node.save()
    with pytest.raises(Conflict, match="v1"):
        move(two, {1: 90, 2: 10}, 1)


def test_a_reason_is_needed_and_a_viewer_may_not_move_traffic(two: Fleet) -> None:
    with pytest.raises(Invalid) as refused:
        set_split(**HERE, weights={1: 100}, expected_revision=1, reason=" ", actor=two.sam)
    assert refused.value.errors[0].pointer == "/reason"
    vic = factories.actor(factories.people().vic)
    with pytest.raises(NotAllowed):
        set_split(**HERE, weights={1: 100}, expected_revision=1, reason="x", actor=vic)
    with pytest.raises(NotFound):
        set_split(
            environment="nowhere",
            model="x",
            weights={1: 100},
            expected_revision=1,
            reason="x",
            actor=two.sam,
        )


def test_header_rules_and_a_mirror_travel_to_the_gateways(two: Fleet) -> None:
    move(
        two,
        {1: 100},
        1,
        sticky_header="X-Customer",
        header_rules=[{"header": "X-Exp-Id", "value": "b", "version": 2}],
        mirror={"version": 2, "percent": 10},
    )
    state = gateway_state(two.gateway).endpoints[0]
    assert state.sticky_header == "x-customer"
    assert [(r.header, r.value, r.version) for r in state.header_rules] == [("x-exp-id", "b", 2)]
    assert state.mirror is not None
    assert (state.mirror.version, state.mirror.basis_points) == (2, 1000)
    kept = move(two, {1: 90, 2: 10}, 2)
    assert kept.header_rules
    with pytest.raises(Conflict):
        move(two, {1: 100}, 3, header_rules=[{"header": "a", "value": "b", "version": 7}])


def test_first_traffic_is_offered_once(two: Fleet) -> None:
    assert offer_first_traffic(Endpoint.objects.get(), 2, two.sam) is None


def test_fallback_needs_a_contract_in_force(two: Fleet) -> None:
    split = set_mode(**HERE, mode="fallback", reason="Bad scores.", actor=two.sam)
    assert (split.mode, split.weights, split.cause) == ("fallback", {"1": 10000}, "mode")
    state = gateway_state(two.gateway).endpoints[0]
    assert state.fallback is not None
    assert state.fallback.response["risk_score"] == 0.3
    back = set_mode(**HERE, mode="normal", reason="Mended.", actor=two.sam)
    assert back.mode == "normal"
    assert set_mode(**HERE, mode="normal", reason="Again.", actor=two.sam) == back
    with pytest.raises(Invalid):
        set_mode(**HERE, mode="sideways", reason="x", actor=two.sam)


def test_fallback_without_a_contract_is_refused(fleet_rows: Fleet) -> None:
    version = factories.make_version()
    ready_version(fleet_rows, version, fleet_rows.staging)
    with pytest.raises(Conflict) as refused:
        set_mode(
            environment="staging",
            model="fraud_detector",
            mode="fallback",
            reason="x",
            actor=fleet_rows.sam,
        )
    assert refused.value.code == "no_fallback"


def test_acknowledgement_of_every_connected_gateway_applies_a_split(two: Fleet) -> None:
    gateways.record_connected("embedded")
    split = move(two, {1: 95, 2: 5}, 1)
    (desired,) = gateways.desired_snapshots(["embedded", "stranger"])
    assert desired.snapshot.revisions == {("production", "fraud_detector"): 2}
    assert record_ack("embedded", desired.snapshot) == [split]
    split.refresh_from_db()
    assert split.state == "applied"
    assert TrafficSplit.objects.get(revision=1).state == "superseded"
    (word,) = wait_acknowledged(split, 0)
    assert (word.gateway, word.outcome) == ("embedded", "applied")
    assert word.took_ms is not None
    assert record_ack("embedded", desired.snapshot) == []


def test_waiting_for_a_silent_gateway_names_it(two: Fleet) -> None:
    split = move(two, {1: 95, 2: 5}, 1)
    with pytest.raises(NotAcknowledged, match="embedded"):
        wait_acknowledged(split, 0.02)


def test_a_split_that_a_gateway_refuses_gives_way_to_the_last_applied(two: Fleet) -> None:
    gateways.record_connected("embedded")
    split = move(two, {1: 95, 2: 5}, 1)
    (desired,) = gateways.desired_snapshots(["embedded"])
    assert record_nack("embedded", desired.snapshot, "no such cluster") == [split]
    split.refresh_from_db()
    two.gateway.refresh_from_db()
    assert split.state == "refused"
    assert two.gateway.last_refusal == "no such cluster"
    assert Endpoint.objects.get().current == TrafficSplit.objects.get(revision=1)
    (again,) = gateways.desired_snapshots(["embedded"])
    assert again.snapshot.revisions == {("production", "fraud_detector"): 1}
    with pytest.raises(Conflict, match="no such cluster"):
        wait_acknowledged(split, 0)
    assert move(two, {1: 90, 2: 10}, 1).revision == 3


def test_an_endpoint_that_cannot_be_rendered_does_not_hold_up_the_others(two: Fleet) -> None:
    other = factories.make_model("churn")
    ready_version(two, factories.make_version(other))
    offer_first_traffic(Endpoint.objects.get(model=other), 1, two.sam)
    gateways.record_connected("embedded")
    broken = move(two, {1: 95, 2: 5}, 1)
    TrafficSplit.objects.filter(pk=broken.pk).update(weights={"1": 9500, "2": 400})
    (desired,) = gateways.desired_snapshots(["embedded"])
    assert desired.snapshot.revisions[("production", "churn")] == 1
    ((state, reason),) = desired.refused
    gateways.record_unrenderable("embedded", state, reason)
    broken.refresh_from_db()
    assert broken.state == "refused"
    assert Endpoint.objects.get(model__name="fraud_detector").current.revision == 1


def test_a_lost_node_leaves_its_share_without_an_address(two: Fleet) -> None:
    two.node.state = "lost"
    two.node.save()
    state = gateway_state(two.gateway).endpoints[0]
    assert state.targets[1].nodes == ()
    gateways.record_connected("embedded")
    assert gateways.desired_snapshots(["embedded"])[0].refused == ()


def test_the_number_of_queries_does_not_grow_with_the_endpoints(
    two: Fleet, django_assert_num_queries: Any
) -> None:
    with django_assert_num_queries(9):
        gateway_state(two.gateway)
    for name in ("one", "two_more", "three"):
        model = factories.make_model(name)
        ready_version(two, factories.make_version(model))
    with django_assert_num_queries(9):
        gateway_state(two.gateway)


def test_rollback_goes_to_the_version_that_led_before(two: Fleet) -> None:
    applied(move(two, {1: 95, 2: 5}, 1))
    applied(move(two, {1: 50, 2: 50}, 2))
    split = roll_back(**HERE, reason="Errors.", actor=two.sam)
    assert (split.weights, split.cause) == ({"1": 10000}, "rollback")
    job = Job.objects.get(kind="rollback")
    assert (job.subject, job.arguments["to"]) == ("production/fraud_detector", 1)
    assert job.arguments["left"] == [2]
    assert roll_back(**HERE, reason="Twice.", actor=two.sam) == split
    assert Job.objects.filter(kind="rollback").count() == 1
    named = roll_back(**HERE, reason="No, the other.", to=2, actor=two.sam)
    assert named.weights == {"2": 10000}


def test_rollback_leaves_fallback_mode_and_rules_of_the_bad_version(two: Fleet) -> None:
    applied(move(two, {2: 100}, 1, header_rules=[{"header": "a", "value": "b", "version": 2}]))
    applied(set_mode(**HERE, mode="fallback", reason="Bad.", actor=two.sam))
    split = roll_back(**HERE, reason="Errors.", actor=two.sam)
    assert (split.mode, split.weights, split.header_rules) == ("normal", {"1": 10000}, [])


def test_rollback_without_an_earlier_version_points_to_fallback(two: Fleet) -> None:
    with pytest.raises(Conflict) as refused:
        roll_back(**HERE, reason="Errors.", actor=two.sam)
    assert refused.value.code == "no_good_version"
    assert "fallback" in refused.value.hint
    assert ModelVersion.objects.count() == 2


@pytest.mark.django_db(transaction=True)
def test_who_waits_for_the_endpoint_sees_the_split_that_was_written_meanwhile(two: Fleet) -> None:
    """Two people at one moment: the second keeps what the first has just written."""
    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            move(two, {"1": 60, "2": 40}, 1)
            second = pool.submit(_open_the_circuit, two)
            eventually(_somebody_waits_for_a_lock)
        written = second.result(timeout=10)
    assert (written.revision, written.weights) == (3, {"1": 6000, "2": 4000})


def _open_the_circuit(fleet: Fleet) -> TrafficSplit:
    try:
        return set_mode(**HERE, mode="open", reason="Now.", actor=fleet.sam)
    finally:
        connection.close()


def _somebody_waits_for_a_lock() -> bool:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        return bool(cursor.fetchone()[0])
