"""`/metrics` for who shows a token, and the dashboards that ask for what it tells."""

from __future__ import annotations

import json
import re
import subprocess
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from prometheus_client.parser import text_string_to_metric_families

from console.services.tokens import create_token
from deployments.models import Endpoint, MinuteRollup, ServedTotal
from deployments.rules.statistics import grafana
from deployments.rules.statistics.exported import exported, families
from deployments.rules.statistics.histograms import Histogram
from deployments.rules.statistics.measurements import Point, Quantity, Subject
from deployments.rules.statistics.readings import Reader
from deployments.rules.statistics.rollups import Traffic
from deployments.rules.statistics.served_totals import with_histogram
from deployments.selectors.statistics.exported import metric_families
from deployments.services.statistics.measurements import record
from deployments.services.statistics.rollups import Booking, book
from models_registry.models import RegisteredModel, Visibility
from tests import factories
from tests.deployments.conftest import Fleet

ROOT = Path(__file__).resolve().parents[2]
KEY = ("production", "fraud_detector")


@pytest.fixture
def endpoint(fleet_rows: Fleet) -> Endpoint:
    return Endpoint.objects.create(model=factories.make_model(), environment=fleet_rows.production)


def counted(
    requests: int, provider: int = 0, *, bounds: tuple[float, ...] = (10.0, 80.0)
) -> Traffic:
    counts = (requests, *(0,) * len(bounds))
    return Traffic(requests, 1, provider, {"200": requests}, Histogram(bounds, counts))


def booked(*parts: Traffic) -> None:
    """Each part in a booking of its own, as a collector writes them."""
    before = None
    for index, traffic in enumerate(parts):
        booking, at = Booking(), timezone.now()
        minute = at.replace(second=0, microsecond=0) - timedelta(minutes=index)
        booking.add_traffic(KEY, 2, minute, traffic)
        booking.add_traffic(KEY, 0, minute, Traffic())
        book("gateway:x", booking, reader=Reader(known=True), changed=(), before=before, at=at)
        before = at


def shown(client: Client, token: str = "", keyword: str = "Token") -> dict[str, Any]:
    headers = {"authorization": f"{keyword} {token}"} if token else {}
    answer = client.get("/metrics", headers=headers)
    assert answer.status_code == 200
    return {
        f"{sample.name}{json.dumps(sample.labels, sort_keys=True)}": sample.value
        for family in text_string_to_metric_families(answer.content.decode())
        for sample in family.samples
    }


def of(name: str, **labels: str) -> str:
    here = {"environment": "production", "model": "fraud_detector", "version": "2"}
    return name + json.dumps({**here, **labels}, sort_keys=True)


@pytest.mark.django_db
def test_counters_are_what_the_minutes_add_up_to(
    client: Client, fleet_rows: Fleet, endpoint: Endpoint
) -> None:
    booked(counted(100, 3), counted(50, 2))
    _, token = create_token(name="prometheus", scopes=["read"], actor=fleet_rows.sam)
    found = shown(client, token)
    rows = MinuteRollup.objects.filter(version=2)
    assert sum(row.requests for row in rows) == 150
    assert found[of("covenant_endpoint_requests_total", meaning="good")] == 143
    assert found[of("covenant_endpoint_requests_total", meaning="caller")] == 2
    assert found[of("covenant_endpoint_requests_total", meaning="provider")] == 5
    assert found[of("covenant_endpoint_latency_seconds_bucket", le="0.01")] == 150
    assert found[of("covenant_endpoint_latency_seconds_bucket", le="+Inf")] == 150
    assert found[of("covenant_endpoint_latency_seconds_count")] == 150
    # Retention removes minutes; what was counted stays counted.
    MinuteRollup.objects.all().delete()
    again = shown(client, token, keyword="Bearer")
    assert again[of("covenant_endpoint_requests_total", meaning="good")] == 143


@pytest.mark.django_db
def test_without_a_token_models_and_machines_are_not_told(
    client: Client, fleet_rows: Fleet, endpoint: Endpoint
) -> None:
    booked(counted(1))
    assert not [name for name in shown(client) if name.startswith(("covenant_end", "covenant_no"))]
    assert client.get("/metrics", headers={"authorization": "Token nonsense"}).status_code == 401
    _, writes = create_token(name="ci", scopes=["write"], actor=fleet_rows.sam)
    refused = client.get("/metrics", headers={"authorization": f"Token {writes}"})
    assert refused.status_code == 401
    assert b"covenant" not in refused.content


@pytest.mark.django_db
def test_a_token_shows_what_its_owner_may_see(
    client: Client, fleet_rows: Fleet, endpoint: Endpoint
) -> None:
    booked(counted(1))
    RegisteredModel.objects.update(visibility=Visibility.TEAM)
    stranger = factories.actor(factories.make_user("stranger"))
    _, token = create_token(name="prometheus", scopes=["read"], actor=stranger)
    found = shown(client, token)
    assert not [name for name in found if "fraud_detector" in name]
    assert found['covenant_node_up{"node": "local"}'] == 1


@pytest.mark.django_db
def test_series_are_told_in_base_units(fleet_rows: Fleet, endpoint: Endpoint) -> None:
    now = timezone.now()
    node, gpu = Subject(node=fleet_rows.node.pk), Subject(node=fleet_rows.node.pk, device="GPU-3")
    placed = Subject(node=fleet_rows.node.pk, endpoint=endpoint.pk, version=2)
    served = Subject(endpoint=endpoint.pk, version=2)
    record(
        [
            Point(Quantity(gpu, "gpu_sm_clock_mhz"), 1410, now),
            Point(Quantity(gpu, "gpu_utilization_percent"), 73, now),
            Point(Quantity(node, "host_cpu_percent"), 50, now),
            Point(Quantity(placed, "queue_p95_ms"), 120, now),
            Point(Quantity(served, "feature_drift_score"), 0.4, now),
            Point(Quantity(served, "feature_drift_score", "amount"), 0.9, now),
            Point(Quantity(node, "host_load_per_core"), 9, now - timedelta(minutes=20)),
            Point(Quantity(node, "something_else"), 1, now),
        ]
    )
    found = {family.name: family.samples for family in metric_families(fleet_rows.sam.user, now)}
    assert found["covenant_gpu_sm_clock_hertz"] == [("", ("local", "3"), {}, 1.41e9)]
    assert found["covenant_gpu_utilization_ratio"][0][3] == pytest.approx(0.73)
    assert found["covenant_host_cpu_ratio"] == [("", ("local",), {}, 0.5)]
    where = ("local", "production", "fraud_detector", "2")
    ((_, labels, more, seconds),) = found["covenant_version_queue_seconds"]
    assert (labels, more, seconds) == (where, {"quantile": "0.95"}, pytest.approx(0.12))
    # As a whole alone: each feature would be a label with many values.
    ((_, labels, _, drift),) = found["covenant_model_feature_drift_score"]
    assert (labels, drift) == (where[1:], 0.4)
    # What is not measured any more is not told as if it were.
    assert "covenant_host_load_per_core" not in found


@pytest.mark.django_db
def test_the_queries_do_not_grow_with_the_endpoints(fleet_rows: Fleet) -> None:
    def asked() -> int:
        with CaptureQueriesContext(connection) as queries:
            metric_families(fleet_rows.sam.user, timezone.now())
        return len(queries)

    def more(index: int) -> None:
        model = factories.make_model(f"model_{index}")
        factories.make_contract(model)
        made = Endpoint.objects.create(model=model, environment=fleet_rows.production)
        ServedTotal.objects.create(endpoint=made, version=1, requests=1, timed=1, within={"10": 1})

    more(0)
    one = asked()
    for index in range(1, 6):
        more(index)
    assert asked() == one <= 12


@pytest.mark.django_db
def test_promtool_finds_nothing_to_mend(
    client: Client, fleet_rows: Fleet, endpoint: Endpoint
) -> None:
    booked(counted(5, 1))
    at = timezone.now()
    gpu = Subject(node=fleet_rows.node.pk, device="GPU-0")
    record([Point(Quantity(gpu, name), 1.0, at) for name in ("gpu_power_watts", "gpu_xid_error")])
    _, token = create_token(name="prometheus", scopes=["read"], actor=fleet_rows.sam)
    text = client.get("/metrics", headers={"authorization": f"Token {token}"}).content
    done = subprocess.run(
        ["promtool", "check", "metrics"], input=text, capture_output=True, timeout=30, check=False
    )
    # The client library's own process metrics have their own habits.
    said = [line for line in done.stderr.decode().splitlines() if line.startswith("covenant_")]
    assert done.returncode in (0, 3)
    assert [line for line in said if not line.startswith("covenant_jobs")] == []


def test_bounds_that_come_later_count_from_then_and_none_is_said_too_high() -> None:
    within = with_histogram({}, Histogram((10.0, 80.0), (5, 3, 2)))
    assert within == {"10": 5, "80": 8}
    within = with_histogram(within, Histogram((10.0, 50.0, 100.0), (1, 1, 1, 1)))
    assert within == {"10": 6, "80": 10, "50": 2, "100": 3}


def test_names_follow_the_conventions() -> None:
    for name, family in families().items():
        assert re.fullmatch(r"covenant_[a-z][a-z0-9_]*[a-z0-9]", name), name
        assert not name.endswith(("_percent", "_ms", "_mhz", "_total")), name
        assert family.help.endswith("."), name
    assert exported("something_else") is None


QUERIED = re.compile(r"covenant_[a-z0-9_]+")


def test_dashboards_ask_only_for_what_is_told() -> None:
    told = set(families())
    told |= {"covenant_endpoint_requests_total"}
    told |= {f"covenant_endpoint_latency_seconds_{end}" for end in ("bucket", "count")}
    asked = {
        name
        for document in grafana.files().values()
        for panel in document["panels"]
        for target in panel.get("targets", ())
        for name in QUERIED.findall(target["expr"])
    }
    asked |= {
        name
        for document in grafana.files().values()
        for variable in document["templating"]["list"]
        for name in QUERIED.findall(str(variable.get("definition", "")))
    }
    assert asked - told == set()
    assert len(asked) > 25


def test_dashboards_have_the_form_that_grafana_reads() -> None:
    documents = grafana.files()
    assert set(documents) == {
        "covenant-endpoints.json", "covenant-machines.json", "covenant-causes.json",
    }  # fmt: skip
    for document in documents.values():
        ids = [panel["id"] for panel in document["panels"]]
        assert len(ids) == len(set(ids))
        for panel in document["panels"]:
            place = panel["gridPos"]
            assert place["x"] + place["w"] <= 24
            if panel["type"] != "row":
                assert panel["targets"], panel["title"]
                assert panel["datasource"]["uid"] == "${datasource}"


def test_every_query_is_promql(tmp_path: Path) -> None:
    """promtool reads each as the expression of a rule, its variables filled in."""
    rules = [
        {"record": f"panel:{index}", "expr": _filled(target["expr"])}
        for index, target in enumerate(
            target
            for document in grafana.files().values()
            for panel in document["panels"]
            for target in panel.get("targets", ())
        )
    ]
    file = tmp_path / "rules.yaml"
    file.write_text(json.dumps({"groups": [{"name": "panels", "rules": rules}]}))
    done = subprocess.run(
        ["promtool", "check", "rules", str(file)], capture_output=True, timeout=30, check=False
    )
    assert done.returncode == 0, done.stdout.decode() + done.stderr.decode()


def _filled(query: str) -> str:
    filled = query.replace("$__rate_interval", "1m")
    return re.sub(r"\$[a-z]+", ".*", filled)


def test_the_files_beside_the_code_are_those_that_are_made() -> None:
    for name, document in grafana.files().items():
        stored = json.loads((ROOT / "deploy" / "grafana" / name).read_text())
        assert stored == document, (
            f"Run: covenant export grafana-dashboards --out deploy/grafana ({name})"
        )
