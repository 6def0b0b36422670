"""The engine on the database, with numbers as the collector and others write them."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from console import live
from console.actors import Actor
from console.models import AuditEntry
from deployments.adapters import live_store
from deployments.models import (
    Alert,
    AlertRule,
    Endpoint,
    Incident,
    MaintenanceWindow,
    MinuteRollup,
    Node,
    Placement,
    Silence,
    TrafficSplit,
)
from deployments.rules.alerts.defaults import BY_NAME
from deployments.rules.statistics.measurements import Point, Quantity, Subject, minute_of
from deployments.services.alerts.engine import AlertEngine
from deployments.services.incidents.records import end_incident, open_incident
from deployments.services.statistics import measurements
from deployments.services.traffic.splits import offer_first_traffic
from tests import factories
from tests.deployments.conftest import Fleet, applied, ready_version

BOUNDS = (10.0, 50.0, 100.0)
NAME = "production/fraud_detector"
NOW = timezone.now().replace(microsecond=0)


@pytest.fixture
def served(fleet_rows: Fleet) -> Fleet:
    """Version 1 has all the traffic; no rule but those that a test makes."""
    live.connection().delete(f"covenant:ring:{NAME}")
    ready_version(fleet_rows, factories.make_version())
    with transaction.atomic():
        split = offer_first_traffic(Endpoint.objects.get(), 1, fleet_rows.sam)
    assert split is not None
    applied(split)
    AlertRule.objects.all().delete()
    return fleet_rows


def later(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def default(name: str, **changes: Any) -> AlertRule:
    one = BY_NAME[name]
    return AlertRule.objects.create(
        name=name,
        title=one.title,
        severity=one.severity,
        document={**one.document, **changes},
        built_in=True,
    )


def count(at: datetime, requests: int, faults: int, name: str = NAME) -> None:
    """What the collector writes of one second."""
    numbers = {"t": at.timestamp(), "v": {"1": [requests, 0, faults, {"1": requests}]}}
    live_store.store({}, {name: numbers}, BOUNDS)


def measure(name: str, value: float, at: datetime, label: str = "", **subject: Any) -> None:
    measurements.record([Point(Quantity(Subject(**subject), name, label), value, at)])


def states() -> dict[str, str]:
    return dict(Alert.objects.values_list("rule_name", "state"))


def test_requests_that_fail_are_an_urgent_alert_with_an_incident_until_they_are_well(
    served: Fleet,
) -> None:
    default("success-rate")
    engine = AlertEngine()
    # The third look has seen more than four faults; it has to hold for a minute.
    for second in range(0, 70, 5):
        count(later(second), 100, 2)
        engine.look(later(second))
    assert states() == {"success-rate": "pending"}
    count(later(70), 100, 2)
    done = engine.look(later(70))
    alert = Alert.objects.get()
    assert (done.fired, done.told, alert.state, alert.severity) == (1, 1, "firing", "P1")
    assert (alert.value, alert.threshold, alert.unit) == (pytest.approx(98.0), 99.9, "%")
    assert alert.evidence["fired"][0]["facts"]["faults"] == 30
    incident = Incident.objects.get()
    assert (incident.cause, incident.severity, alert.incident) == ("alert", "P1", incident)
    assert [event.kind for event in incident.events.all()] == ["opened", "alert"]
    # Good again: the window has to be rid of the bad minute, and it has to stay well.
    for second in range(75, 620, 5):
        count(later(second), 2000, 0)
        engine.look(later(second))
    alert.refresh_from_db()
    incident.refresh_from_db()
    assert (alert.state, alert.well_told_at is not None) == ("resolved", True)
    assert incident.ended_at == alert.resolved_at
    kinds = list(alert.events.values_list("kind", flat=True))
    # Nobody of these people has a mail address, which is said.
    assert kinds == ["fired", "nobody_reached", "resolved"]
    actions = AuditEntry.objects.filter(subject=NAME).values_list("action", flat=True)
    assert {"alert.fire", "alert.resolve", "incident.open", "incident.end"} <= set(actions)


def test_a_process_that_takes_over_goes_on_from_what_is_written(served: Fleet) -> None:
    default("success-rate")
    for second in range(0, 75, 5):
        count(later(second), 100, 2)
        AlertEngine().look(later(second))
    assert states() == {"success-rate": "firing"}


def test_other_bounds_of_the_gateways_do_not_shorten_what_is_known(served: Fleet) -> None:
    default("success-rate", for_s=0)
    other = _another(served)
    engine = AlertEngine()
    for second in range(0, 30, 5):
        count(later(second), 100, 0)
        count(later(second), 100, 30, str(other))
        if second == 20:
            engine.look(later(20))
    live_store.store({}, {}, (1.0, *BOUNDS))
    count(later(30), 10, 0)
    live_store.store({}, {}, (1.0, *BOUNDS))
    engine.look(later(40))
    alert = Alert.objects.get()
    assert str(alert.endpoint) == str(other)
    assert alert.evidence["newest"][0]["facts"]["requests"] == 600


def test_while_everything_has_only_begun_nothing_is_judged(served: Fleet) -> None:
    default("success-rate", for_s=0)
    engine = AlertEngine()
    for second in (0, 5, 10):
        count(later(second), 100, 50)
        engine(later(second))
    assert states() == {}
    engine(later(16))
    assert states() == {"success-rate": "firing"}


def test_an_alert_joins_the_incident_that_there_is_and_calls_nobody_twice(served: Fleet) -> None:
    default("success-rate", for_s=0)
    incident = open_incident(
        endpoint=Endpoint.objects.get(),
        cause="error_rate",
        title="v1 fails",
        severity="P1",
        at=later(-30),
        actor=served.system,
    )
    end_incident(incident=incident, at=later(-5), actor=served.system)
    called = incident.events.filter(kind="called").count()
    count(NOW, 100, 50)
    AlertEngine().look(NOW)
    incident.refresh_from_db()
    assert Alert.objects.get().incident == incident
    # The numbers of the last minutes are bad still; callers are well all the same.
    assert (incident.ended_at, incident.cause) == (later(-5), "error_rate")
    assert incident.events.filter(kind="called").count() == called


def test_series_fire_by_version_and_label_and_by_the_contracts_own_limit(served: Fleet) -> None:
    default("feature-drift", for_s=0)
    endpoint = Endpoint.objects.get().pk
    measure("feature_drift_score", 0.9, NOW, label="age", endpoint=endpoint, version=1)
    measure("feature_drift_score", 0.28, NOW, endpoint=endpoint, version=1)
    engine = AlertEngine()
    engine.look(NOW)
    # Neither the contract's 0.2 (see the factory's contract) nor the default is asked of a label.
    limits = [one["threshold"] for one in _evidence()]
    body = factories.contract_body()
    own = body.get("drift", {}).get("feature_drift_score", 0.3)
    assert (states() != {}) is (own < 0.28)
    assert limits in ([], [own])
    measure("feature_drift_score", 0.7, later(20), endpoint=endpoint, version=1)
    engine.look(later(20))
    alert = Alert.objects.get()
    assert (alert.state, alert.version, alert.label, alert.value) == ("firing", 1, "", 0.7)


def _evidence() -> list[dict[str, Any]]:
    found = Alert.objects.first()
    return list(found.evidence["newest"]) if found is not None else []


def test_two_conditions_of_a_gpu_have_to_hold_at_once(served: Fleet) -> None:
    default("nvlink-and-heat", for_s=0)
    node = served.node.pk
    for device, busy, heat in (("0", 90, 75), ("1", 95, 60), ("2", 70, 90)):
        measure("gpu_nvlink_utilization_percent", busy, NOW, node=node, device=device)
        measure("gpu_temperature_celsius", heat, NOW, node=node, device=device)
    AlertEngine().look(NOW)
    alert = Alert.objects.get()
    assert (alert.node_id, alert.device, alert.state) == (node, "0", "firing")
    assert [one["value"] for one in alert.evidence["newest"]] == [90, 75]
    assert alert.incident is None


def test_states_are_alerts_until_they_are_over(served: Fleet) -> None:
    default("node-lost", for_s=0, keep_firing_s=0)
    default("unverified-artifact")
    default("split-unacknowledged")
    Node.objects.update(state="lost")
    Placement.objects.update(
        verified_at=NOW, verification_faults=[{"code": "digest_differs", "detail": "x"}]
    )
    TrafficSplit.objects.update(
        state="pending", applied_at=None, created_at=NOW - timedelta(seconds=45)
    )
    engine = AlertEngine()
    engine.look(NOW)
    assert set(states().values()) == {"firing"}
    assert set(states()) == {"node-lost", "unverified-artifact", "split-unacknowledged"}
    alert = Alert.objects.get(rule_name="unverified-artifact")
    assert (alert.severity, alert.version, alert.node) == ("P1", 1, served.node)
    assert alert.evidence["newest"][0]["facts"] == {"codes": "digest_differs"}
    Node.objects.update(state="ready")
    Placement.objects.update(verification_faults=[])
    TrafficSplit.objects.update(state="applied", applied_at=NOW)
    engine.look(later(30))
    assert set(states().values()) == {"resolved"}


def test_a_silence_keeps_quiet_what_is_seen_all_the_same_and_expires(served: Fleet) -> None:
    default("success-rate", for_s=0)
    Silence.objects.create(
        rule_name="success-rate",
        starts_at=later(-10),
        ends_at=later(60),
        reason="A test of the load.",
        author=served.sam.user,
    )
    engine = AlertEngine()
    count(NOW, 100, 50)
    assert engine.look(NOW).told == 0
    alert = Alert.objects.get()
    assert (alert.state, alert.silenced_by is not None, alert.told_at) == ("firing", True, None)
    assert not Incident.objects.exists()
    # It expires by itself, and what still fires is told then.
    count(later(61), 100, 50)
    assert engine.look(later(61)).told == 1
    alert.refresh_from_db()
    assert (alert.silenced_by, alert.told_at) == (None, later(61))
    assert [event.kind for event in alert.events.all()] == [
        "fired",
        "quiet",
        "loud",
        "nobody_reached",
    ]


def test_agreed_maintenance_keeps_quiet_what_happens_in_it(served: Fleet) -> None:
    default("success-rate", for_s=0)
    MaintenanceWindow.objects.create(
        endpoint=Endpoint.objects.get(),
        starts_at=later(-60),
        ends_at=later(60),
        reason="New network cards.",
        state="agreed",
        proposed_by=served.sam.user,
        proposed_at=later(-3600),
        agreed_at=later(-1800),
    )
    engine = AlertEngine()
    count(NOW, 100, 50)
    assert engine.look(NOW).told == 0
    alert = Alert.objects.get()
    assert (alert.state, alert.suppressed, alert.told) == ("firing", "maintenance", False)
    count(later(65), 100, 50)
    assert engine.look(later(65)).told == 1


def test_a_budget_that_burns_fast_is_urgent_by_the_objectives_own_factor(served: Fleet) -> None:
    default("fast-burn")
    end = minute_of(NOW)
    for ago in range(61):
        MinuteRollup.objects.create(
            endpoint=Endpoint.objects.get(),
            version=1,
            minute=end - timedelta(minutes=ago),
            requests=1000,
            provider_faults=100,
            bounds_ms=[10, 50],
            buckets=[1000, 0, 0],
        )
    AlertEngine(slow=True).look(NOW)
    alert = Alert.objects.get()
    assert (alert.severity, alert.state, alert.label) == ("P1", "firing", "availability")
    assert alert.value is not None
    assert alert.threshold is not None
    assert alert.value > alert.threshold
    assert alert.evidence["fired"][0]["facts"]["bad"] > 5000
    # The other engine tells.
    assert AlertEngine().look(NOW).told == 1


def test_memory_of_a_gpu_that_only_grows_is_an_alert_of_that_gpu(served: Fleet) -> None:
    default("gpu-memory-grows")
    node = served.node.pk
    for ago in range(90, -1, -1):
        at = NOW - timedelta(minutes=ago)
        used = 8e9 + (90 - ago) * 5e7
        measure("gpu_memory_used_bytes", used, at, node=node, device="GPU-1")
        measure("gpu_memory_used_bytes", 8e9, at, node=node, device="GPU-2")
    AlertEngine(slow=True).look(NOW)
    alert = Alert.objects.get()
    assert (alert.node_id, alert.device, alert.state) == (node, "GPU-1", "firing")
    assert alert.value == pytest.approx(3e9, rel=0.05)


def test_a_rule_that_is_switched_off_or_not_about_it_any_more_ends_its_alerts(
    served: Fleet,
) -> None:
    off, moved = default("success-rate", for_s=0), default("node-lost", for_s=0)
    Node.objects.update(state="lost")
    count(NOW, 100, 50)
    engine = AlertEngine()
    engine.look(NOW)
    assert set(states().values()) == {"firing"}
    AlertRule.objects.filter(pk=off.pk).update(enabled=False)
    AlertRule.objects.filter(pk=moved.pk).update(model=Endpoint.objects.get().model)
    engine.look(later(20))
    assert set(states().values()) == {"resolved"}
    whys = [alert.events.get(kind="resolved").message for alert in Alert.objects.order_by("pk")]
    assert set(whys) == {"rule_off", "out_of_scope"}


def test_a_rule_that_cannot_be_judged_stops_no_other(served: Fleet) -> None:
    default("success-rate", for_s=0)
    broken = default("node-lost")
    AlertRule.objects.filter(pk=broken.pk).update(document={"conditions": "x"})
    # A label that no row can hold: it fails when it is written.
    too_long = default("queue-p95", for_s=0)
    AlertRule.objects.filter(pk=too_long.pk).update(title="x" * 200, document=too_long.document)
    count(NOW, 100, 50)
    AlertEngine().look(NOW)
    assert states() == {"success-rate": "firing"}
    broken.refresh_from_db()
    assert broken.fault


def test_nothing_measured_keeps_an_alert_and_says_so(served: Fleet) -> None:
    default("queue-p95", for_s=0, missing_s=600)
    measure("queue_p95_ms", 150, NOW, node=served.node.pk, endpoint=_pk(), version=1)
    engine = AlertEngine()
    engine.look(NOW)
    engine.look(later(300))
    alert = Alert.objects.get()
    assert (alert.state, alert.quiet_since) == ("firing", later(300))
    engine.look(later(900))
    alert.refresh_from_db()
    assert (alert.state, alert.events.get(kind="resolved").message) == ("resolved", "not_measured")


def test_an_endpoint_that_is_not_measured_is_told_and_a_silent_collector_once(
    served: Fleet,
) -> None:
    default("no-data", for_s=0)
    other = _another(served)
    engine = AlertEngine()
    count(NOW, 5, 0)
    count(NOW, 5, 0, str(other))
    engine.look(NOW)
    count(later(90), 5, 0, str(other))
    engine.look(later(90))
    assert [str(one.endpoint) for one in Alert.objects.all()] == [NAME]
    # When nothing at all is measured, no endpoint is at fault.
    Alert.objects.all().delete()
    engine.look(later(200))
    assert not Alert.objects.exists()


def test_the_queries_of_a_look_do_not_grow_with_the_endpoints(served: Fleet) -> None:
    default("success-rate", for_s=0)
    default("queue-p95", for_s=0)
    default("split-unacknowledged")

    def queries() -> int:
        engine = AlertEngine()
        with CaptureQueriesContext(connection) as captured:
            engine.look(NOW)
        return len([one for one in captured if "SAVEPOINT" not in one["sql"]])

    few = queries()
    for number in range(10):
        _another(served, f"other_{number}")
    assert queries() == few <= 14


def _pk() -> int:
    return Endpoint.objects.get().pk


def _another(fleet: Fleet, name: str = "churn_model") -> Endpoint:
    model = factories.make_model(name)
    live.connection().delete(f"covenant:ring:production/{name}")
    ready_version(fleet, factories.make_version(model))
    endpoint = Endpoint.objects.get(model=model)
    with transaction.atomic():
        split = offer_first_traffic(endpoint, 1, fleet.sam)
    assert split is not None
    applied(split)
    return endpoint


def test_an_actor_of_the_engine_is_the_system(served: Fleet) -> None:
    default("node-lost", for_s=0)
    Node.objects.update(state="lost")
    AlertEngine().look(NOW)
    entry = AuditEntry.objects.get(action="alert.fire")
    assert (entry.subject, entry.source) == ("node local", "alerts")
    assert Actor.system("alerts").is_system
