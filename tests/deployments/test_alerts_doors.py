"""Alerts, silences and rules through their services, pages, API and command line."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import transaction
from django.test import Client
from django.utils import timezone
from rest_framework.test import APIClient

from console.errors import Conflict, Invalid, NotAllowed, NotFound, Stale
from console.models import AuditEntry, Notice, Role
from deployments.documents.alert_words import sentence_of
from deployments.models import (
    Alert,
    AlertRule,
    Endpoint,
    MeasuredSeries,
    MinuteRollup,
    Silence,
)
from deployments.rules.alerts.defaults import BY_NAME
from deployments.rules.alerts.documents import parse_rule
from deployments.rules.statistics.measurements import Point, Quantity, Subject, minute_of
from deployments.selectors.alerts.charts import alert_chart
from deployments.selectors.alerts.pages import AlertFilter, alert_list, alerts_on_models_of
from deployments.selectors.alerts.preview import preview
from deployments.selectors.alerts.rules import series_names
from deployments.services.alerts import acts, messages, rules, silences
from deployments.services.alerts.announcing import announce
from deployments.services.alerts.engine import AlertEngine
from deployments.services.statistics import measurements
from deployments.services.traffic.splits import offer_first_traffic
from models_registry.models import RegisteredModel, Visibility
from tests import factories
from tests.deployments.conftest import Fleet, ready_version

LATENCY = {"conditions": [{"signal": "latency_p99_ms", "op": ">", "threshold": 80}]}


@pytest.fixture
def endpoint(fleet_rows: Fleet) -> Endpoint:
    ready_version(fleet_rows, factories.make_version())
    with transaction.atomic():
        offer_first_traffic(Endpoint.objects.get(), 1, fleet_rows.sam)
    return Endpoint.objects.select_related("model", "environment").get()


def alert_of(endpoint: Endpoint | None, **changes: Any) -> Alert:
    now = timezone.now()
    fields: dict[str, Any] = {
        "rule_name": "success-rate",
        "severity": "P1",
        "state": "firing",
        "signal": "success_rate_percent",
        "title": "Too few requests succeed",
        "value": 98.25,
        "threshold": 99.9,
        "unit": "%",
        "started_at": now - timedelta(minutes=2),
        "fired_at": now - timedelta(minutes=1),
        "seen_at": now,
        "fingerprint": f"f{Alert.objects.count()}",
        "group_key": str(endpoint),
    }
    return Alert.objects.create(endpoint=endpoint, **{**fields, **changes})


# -- seeing to it -------------------------------------------------------------------------------


def test_the_first_who_sees_to_it_does_and_it_is_on_record(
    fleet_rows: Fleet, endpoint: Endpoint
) -> None:
    alert = alert_of(endpoint)
    acts.acknowledge(alert_id=alert.pk, note="Rolling back.", actor=fleet_rows.sam)
    other = factories.actor(factories.make_user("otto", Role.SRE))
    again = acts.acknowledge(alert_id=alert.pk, actor=other)
    assert again.acknowledged_by == fleet_rows.sam.user
    assert [event.message for event in alert.events.all()] == ["Rolling back."]
    entry = AuditEntry.objects.get(action="alert.acknowledge")
    assert (entry.subject, entry.reason) == ("production/fraud_detector", "Rolling back.")
    over = alert_of(endpoint, state="resolved", resolved_at=timezone.now())
    with pytest.raises(Conflict):
        acts.acknowledge(alert_id=over.pk, actor=fleet_rows.sam)
    acts.comment(alert_id=over.pk, text="It was the feature store.", actor=fleet_rows.sam)
    with pytest.raises(Invalid):
        acts.comment(alert_id=over.pk, text="  ", actor=fleet_rows.sam)


def test_alerts_of_a_hidden_model_do_not_exist_and_those_of_machines_are_everybodys(
    endpoint: Endpoint, fleet_rows: Fleet
) -> None:
    hidden = alert_of(endpoint)
    machine = alert_of(None, node=fleet_rows.node, group_key="node local")
    for subject, name in (
        (Subject(endpoint=endpoint.pk), "secret_rate"),
        (Subject(node=fleet_rows.node.pk), "disk_percent"),
    ):
        measurements.record([Point(Quantity(subject, name), 1.0, timezone.now())])
    RegisteredModel.objects.update(visibility=Visibility.TEAM)
    outsider = factories.make_user("olga", Role.DATA_SCIENTIST)
    assert list(alert_list(AlertFilter(), user=outsider)) == [machine]
    assert series_names(user=outsider) == ["disk_percent"]
    assert series_names(user=fleet_rows.sam.user) == ["disk_percent", "secret_rate"]
    with pytest.raises(NotFound):
        acts.acknowledge(alert_id=hidden.pk, actor=factories.actor(outsider))
    nobody = factories.make_user("nora")
    with pytest.raises(NotAllowed):
        acts.acknowledge(alert_id=machine.pk, actor=factories.actor(nobody))


def test_home_shows_what_fires_on_ones_own_models(endpoint: Endpoint) -> None:
    alert = alert_of(endpoint)
    alert_of(endpoint, suppressed="maintenance")
    owner, stranger = endpoint.model.owner, factories.make_user("nora")
    assert alerts_on_models_of(owner) == [alert]
    assert alerts_on_models_of(stranger) == []
    assert len(alerts_on_models_of(factories.make_user("sid", Role.SRE))) == 1


# -- silences -----------------------------------------------------------------------------------


def test_a_silence_names_something_has_a_reason_and_an_end(
    fleet_rows: Fleet, endpoint: Endpoint
) -> None:
    soon = timezone.now() + timedelta(hours=1)
    for wrong, pointer in (
        ({"ends_at": soon, "reason": "x"}, "/rule"),
        ({"ends_at": soon, "reason": " ", "rule": "x"}, "/reason"),
        ({"ends_at": timezone.now(), "reason": "x", "rule": "x"}, "/ends_at"),
        ({"ends_at": soon + timedelta(days=31), "reason": "x", "rule": "x"}, "/ends_at"),
        ({"ends_at": soon, "reason": "x", "severity": "P9"}, "/severity"),
        ({"ends_at": soon, "reason": "x", "environment": "nowhere"}, "/environment"),
    ):
        with pytest.raises(Invalid) as refused:
            silences.create_silence(actor=fleet_rows.sam, **wrong)  # type: ignore[arg-type]
        assert pointer in {one.pointer for one in refused.value.errors}
    made = silences.create_silence(
        model="fraud_detector", ends_at=soon, reason="A load test.", actor=fleet_rows.sam
    )
    silences.end_silence(silence_id=made.pk, actor=fleet_rows.sam)
    ended = silences.end_silence(silence_id=made.pk, actor=fleet_rows.sam)
    assert ended.ended_by == fleet_rows.sam.user
    actions = list(
        AuditEntry.objects.filter(action__startswith="silence.").values_list("action", flat=True)
    )
    assert sorted(actions) == ["silence.create", "silence.end"]


def test_who_operates_one_team_silences_its_models_and_no_others(endpoint: Endpoint) -> None:
    scientist = factories.actor(factories.make_user("dara", Role.DATA_SCIENTIST))
    with pytest.raises(NotAllowed):
        silences.create_silence(
            rule="x", ends_at=timezone.now() + timedelta(hours=1), reason="x", actor=scientist
        )


# -- rules --------------------------------------------------------------------------------------


def test_a_rule_is_made_changed_put_back_and_removed(fleet_rows: Fleet, endpoint: Endpoint) -> None:
    given: dict[str, Any] = {"title": "Slow", "severity": "P2", "document": LATENCY}
    row = rules.set_rule(
        name="slow", **given, environment="production", model="fraud_detector", actor=fleet_rows.sam
    )
    assert (row.revision, row.document["window_s"]) == (1, 300)
    same = rules.set_rule(
        name="slow", **given, environment="production", model="fraud_detector", actor=fleet_rows.sam
    )
    assert same.revision == 1
    with pytest.raises(Stale):
        rules.set_rule(name="slow", **given, expected_revision=7, actor=fleet_rows.sam)
    with pytest.raises(Invalid):
        rules.set_rule(name="Not A Name", **given, actor=fleet_rows.sam)
    rules.remove_rule(name="slow", actor=fleet_rows.sam)
    assert not AlertRule.objects.filter(name="slow").exists()
    with pytest.raises(NotFound):
        rules.remove_rule(name="slow", actor=fleet_rows.sam)
    changed = rules.set_rule(
        name="queue-p95", **{**given, "severity": "P3"}, enabled=False, actor=fleet_rows.sam
    )
    AlertRule.objects.filter(pk=changed.pk).update(built_in=True)
    with pytest.raises(Conflict):
        rules.remove_rule(name="queue-p95", actor=fleet_rows.sam)
    back = rules.restore_rule(name="queue-p95", actor=fleet_rows.sam)
    assert (back.enabled, back.title) == (True, BY_NAME["queue-p95"].title)
    with pytest.raises(NotFound):
        rules.restore_rule(name="slow", actor=fleet_rows.sam)


def test_the_built_in_rules_are_there_and_are_judged_without_a_fault(db: None) -> None:
    for name in BY_NAME:
        rules.restore_rule(name=name, actor=factories.actor(factories.make_user(f"a{name}", "sre")))
    for slow in (False, True):
        AlertEngine(slow=slow).look(timezone.now())
    assert not AlertRule.objects.exclude(fault="").exists()


def test_the_value_that_it_fired_with_leads_and_the_newest_stands_beside_it(
    fleet_rows: Fleet, endpoint: Endpoint
) -> None:
    alert = alert_of(endpoint, value=100.0, evidence={"fired": [{"value": 97.5}], "newest": []})
    said = "Requests that succeed: 97.5 %, the limit is 99.9 %"
    assert sentence_of(alert) == f"{said}; now 100 %"
    alert.state, alert.resolved_at = "resolved", datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
    alert.save()
    assert sentence_of(alert) == f"{said}; over at 2026-03-04 05:06:07 UTC with 100 %"
    client = Client()
    client.force_login(fleet_rows.sam.user)
    assert f"{said}; over at 2026-03-04" in client.get("/alerts/").content.decode()
    item = messages.of_alerts([alert], "resolved", now=timezone.now())["items"][0]
    assert item["value"] == 97.5
    first = alert_of(endpoint, evidence={"fired": [{"value": 98.25}], "newest": []})
    assert sentence_of(first) == "Requests that succeed: 98.25 %, the limit is 99.9 %"
    lost = alert_of(None, signal="node_lost", value=1.0, resolved_at=alert.resolved_at)
    assert sentence_of(lost) == "Node lost; over at 2026-03-04 05:06:07 UTC"


def test_the_notice_of_an_alert_that_is_over_leaves_or_names_one_that_goes_on(
    endpoint: Endpoint,
) -> None:
    now = timezone.now()
    slow = alert_of(endpoint, severity="P2", title="P99 above 30 ms", told_at=now)
    failing = alert_of(endpoint, severity="P2", told_at=now)
    with transaction.atomic():
        announce([slow, failing], "firing", now=now)
    notice = Notice.objects.get(recipient__username="sam", kind="alert.firing")
    assert notice.data["title"] == "P99 above 30 ms"
    Notice.objects.update(done_at=now)
    slow.state, slow.resolved_at = "resolved", now
    slow.save()
    with transaction.atomic():
        announce([slow], "resolved", now=now)
    notice.refresh_from_db()
    assert (notice.data["title"], notice.ended_at) == ("Too few requests succeed", None)
    assert (notice.subject_url, notice.done_at) == (f"/alerts/{failing.pk}/", now)
    # Its rule became graver meanwhile: the notice is known by what it was.
    failing.severity, failing.state, failing.resolved_at = "P1", "resolved", now
    failing.save()
    with transaction.atomic():
        announce([failing], "resolved", now=now)
    notice.refresh_from_db()
    assert notice.ended_at is not None


# -- would it have fired ------------------------------------------------------------------------


def book(endpoint: Endpoint, minutes_ago: int, requests: int, faults: int, slow: int = 0) -> None:
    MinuteRollup.objects.create(
        endpoint=endpoint,
        version=1,
        minute=minute_of(timezone.now()) - timedelta(minutes=minutes_ago),
        requests=requests,
        provider_faults=faults,
        bounds_ms=[50, 100, 200],
        buckets=[requests - slow, 0, slow, 0],
    )


def test_a_preview_says_when_a_rule_would_have_fired_by_the_same_judging(
    endpoint: Endpoint,
) -> None:
    sam = factories.make_user("sid", Role.SRE)
    for ago in range(60, 0, -1):
        book(endpoint, ago, 1000, 50 if 40 >= ago > 30 else 0, slow=30 if ago > 55 else 0)
    rule = parse_rule(BY_NAME["success-rate"].document)
    found = preview(rule, AlertRule(), user=sam, now=timezone.now())
    assert (found.looked_at, len(found.fired), found.why_not) == (1, 1, "")
    one = found.fired[0]
    end = minute_of(timezone.now())
    # Bad from the first bad minute's end on; it has to hold for a minute.
    assert one.fired_at == end - timedelta(minutes=38)
    assert one.resolved_at is not None
    assert one.worst == pytest.approx(95.0)
    slow = preview(parse_rule({**LATENCY, "keep_firing_s": 0}), AlertRule(), user=sam, now=end)
    assert [round(one.worst) for one in slow.fired] == [167]
    state = parse_rule(BY_NAME["node-lost"].document)
    assert preview(state, AlertRule(), user=sam, now=end).why_not == "state"


def test_a_wait_of_less_than_a_minute_swallows_no_bad_minute(endpoint: Endpoint) -> None:
    sam = factories.make_user("sid", Role.SRE)
    for ago in range(30, 0, -1):
        book(endpoint, ago, 1000, 0, slow=30 if ago in (20, 10) else 0)
    end = minute_of(timezone.now())
    short = {**LATENCY, "window_s": 60, "for_s": 10, "keep_firing_s": 20}
    found = preview(parse_rule(short), AlertRule(), user=sam, now=end)
    first = end - timedelta(minutes=19)
    assert [one.fired_at for one in found.fired] == [
        first + timedelta(seconds=10),
        first + timedelta(minutes=10, seconds=10),
    ]
    assert found.fired[0].resolved_at == first + timedelta(seconds=80)
    longer = parse_rule({**short, "for_s": 60})
    assert preview(longer, AlertRule(), user=sam, now=end).fired == []


def test_a_signal_that_nothing_ever_measured_is_refused_in_a_preview_and_in_a_rule(
    fleet_rows: Fleet, endpoint: Endpoint
) -> None:
    unknown = {"conditions": [{"signal": "p99_ms", "op": ">", "threshold": 30}]}
    api = APIClient()
    api.force_login(fleet_rows.sam.user)
    refused = api.post("/api/v1/alert-rule-preview/", {"document": unknown}, format="json")
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["pointer"] == "/conditions/0/signal"
    given: dict[str, Any] = {"name": "slow", "title": "Slow", "severity": "P2"}
    with pytest.raises(Invalid, match="signal"):
        rules.set_rule(**given, document=unknown, actor=fleet_rows.sam)
    quantity = Quantity(Subject(endpoint=endpoint.pk), "p99_ms")
    measurements.record([Point(quantity, 12.0, timezone.now())])
    assert rules.set_rule(**given, document=unknown, actor=fleet_rows.sam).revision == 1
    MeasuredSeries.objects.all().delete()
    # What it looks at already may stay, so that it can be switched off.
    off = rules.set_rule(**given, document=unknown, enabled=False, actor=fleet_rows.sam)
    assert off.enabled is False


def test_a_preview_of_a_series_takes_labels_and_windows(
    endpoint: Endpoint, fleet_rows: Fleet
) -> None:
    end = minute_of(timezone.now())
    heat = Quantity(Subject(node=fleet_rows.node.pk, device="0"), "gpu_temperature_celsius")
    for ago in range(30, 0, -1):
        value = 90.0 if 20 >= ago > 10 else 60.0
        measurements.record([Point(heat, value, end - timedelta(minutes=ago))])
    document = {
        "conditions": [{"signal": "gpu_temperature_celsius", "op": ">", "threshold": 80}],
        "window_s": 60,
        "for_s": 120,
        "keep_firing_s": 60,
    }
    user = factories.make_user("sid", Role.SRE)
    found = preview(parse_rule(document), AlertRule(), user=user, now=end)
    assert [(one.worst, found.names[one.target]) for one in found.fired] == [(90.0, "local · 0")]
    assert found.fired[0].fired_at == end - timedelta(minutes=17)


# -- pages, API, command line -------------------------------------------------------------------


def test_the_pages_show_it_and_let_it_be_seen_to(fleet_rows: Fleet, endpoint: Endpoint) -> None:
    client = Client()
    client.force_login(fleet_rows.sam.user)
    empty = client.get("/alerts/").content.decode()
    assert "Nothing is wrong" in empty
    alert = alert_of(endpoint, evidence={"fired": [], "newest": []})
    for page in ("/alerts/", f"/alerts/{alert.pk}/", "/", "/endpoints/production/fraud_detector/"):
        text = client.get(page).content.decode()
        assert "Too few requests succeed" in text, page
        assert "98.25 %" in text, page
    answer = client.post(f"/alerts/{alert.pk}/acknowledge/", {"note": "On it."}, follow=True)
    assert "sam" in answer.content.decode()
    client.post("/alerts/silences/", {"rule": "success-rate", "lasts": "60", "reason": "Known."})
    assert Silence.objects.get().rule_name == "success-rate"
    assert "Known." in client.get("/alerts/silences/").content.decode()
    refused = client.post("/alerts/silences/", {"lasts": "60", "reason": "x"})
    assert refused.status_code == 422
    client.cookies["django_language"] = "zh-hans"
    assert client.get(f"/alerts/{alert.pk}/").status_code == 200


def test_the_editor_of_a_rule_tries_it_and_puts_it_in_force(
    fleet_rows: Fleet, endpoint: Endpoint
) -> None:
    client = Client()
    client.force_login(fleet_rows.sam.user)
    form = {
        "name": "slow-answers",
        "title": "Answers are slow",
        "severity": "P2",
        "enabled": "on",
        "signal": "latency_p99_ms",
        "op": ">",
        "threshold": "80",
        "aggregate": "mean",
        "op_2": ">",
        "window_s": "300",
        "for_s": "60",
        "keep_firing_s": "60",
        "missing_s": "3600",
        "min_requests": "20",
        "min_faults": "0",
        "each": "version",
        "model": "fraud_detector",
    }
    tried = client.post("/alerts/rules/new/", {**form, "try": "1"})
    assert "It would not have fired." in tried.content.decode()
    assert not AlertRule.objects.filter(name="slow-answers").exists()
    assert client.post("/alerts/rules/new/", form).status_code == 302
    row = AlertRule.objects.get(name="slow-answers")
    assert row.document["each"] == "version"
    wrong = client.post(
        "/alerts/rules/slow-answers/", {**form, "signal": "No Signal", "revision": "1"}
    )
    assert wrong.status_code == 422
    assert "in snake_case" in wrong.content.decode()
    two = {**form, "signal_2": "gpu_temperature_celsius", "threshold_2": "70", "revision": "1"}
    assert client.post("/alerts/rules/slow-answers/", two).status_code == 302
    row.refresh_from_db()
    assert [one["signal"] for one in row.document["conditions"]] == [
        "latency_p99_ms",
        "gpu_temperature_celsius",
    ]
    assert client.get("/alerts/rules/slow-answers/").status_code == 200
    assert client.post("/alerts/rules/slow-answers/remove/", {"reason": "x"}).status_code == 302


def test_the_api_lists_shows_acts_and_previews(fleet_rows: Fleet, endpoint: Endpoint) -> None:
    api = APIClient()
    api.force_authenticate(None)
    api.force_login(fleet_rows.sam.user)
    alert = alert_of(endpoint)
    listed = api.get("/api/v1/alerts/", {"state": "unacknowledged"}).json()["results"]
    assert [one["id"] for one in listed] == [str(alert.pk)]
    path = f"/api/v1/alerts/{alert.pk}/"
    seen = api.post(f"{path}acknowledge/", {"note": "x"}, format="json").json()
    assert (seen["acknowledged_by"], seen["timeline"][0]["kind"]) == ("sam", "acknowledged")
    # Drawn is what lacks of 100 %: its axis begins at zero.
    assert api.get(f"{path}chart/").json()["limit"]["value"] == 0.1
    rule = "/api/v1/alert-rules/slow/"
    body = {"title": "Slow", "severity": "P2", "document": LATENCY}
    assert api.put(rule, body, format="json").status_code == 428
    made = api.put(rule, body, format="json", HTTP_IF_MATCH='"0"')
    assert (made.status_code, made["ETag"]) == (200, '"1"')
    wrong = api.put(
        rule, {**body, "document": {"conditions": []}}, format="json", HTTP_IF_MATCH="*"
    )
    assert (wrong.status_code, wrong.json()["code"]) == (422, "invalid_alert_rule")
    found = api.post("/api/v1/alert-rule-preview/", {"document": LATENCY}, format="json").json()
    assert (found["fired"], found["why_not"]) == ([], "")
    until = (timezone.now() + timedelta(hours=1)).isoformat()
    silence = api.post(
        "/api/v1/silences/", {"rule": "slow", "ends_at": until, "reason": "x"}, format="json"
    )
    assert silence.status_code == 201
    ended = api.post(f"/api/v1/silences/{silence.json()['id']}/end/", {}, format="json")
    assert ended.json()["ended_by"] == "sam"
    assert api.delete(rule).status_code == 204
    names = {one["name"] for one in api.get("/api/v1/alert-signals/").json()}
    assert {"success_rate_percent", "fast_burn", "node_lost"} <= names


def test_the_chart_draws_the_signal_minute_by_minute_with_gaps(endpoint: Endpoint) -> None:
    alert = alert_of(endpoint, fired_at=minute_of(timezone.now()) - timedelta(minutes=3))
    book(endpoint, 5, 100, 2)
    book(endpoint, 3, 100, 50)
    drawn = alert_chart(alert, now=timezone.now())
    values = [value for value in drawn["series"][0]["y"] if value is not None]
    assert values == [2.0, 50.0]
    assert None in drawn["series"][0]["y"]
    assert [one["label"] for one in drawn["markers"]] == ["fired"]


def test_the_documents_of_the_command_line_are_those_of_the_api(tmp_path: Path) -> None:
    from deployments.cli import alert_rules, alerts

    assert alerts._span("2h") == timedelta(hours=2)
    path = tmp_path / "rule.json"
    path.write_text(json.dumps(LATENCY), encoding="utf-8")
    assert alert_rules._read(path) == LATENCY
    assert alert_rules._conditions(LATENCY) == "latency_p99_ms > 80"
