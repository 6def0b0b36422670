"""OpenSLO v1 out and in again, and documents written by others."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from rest_framework.test import APIClient

from console.errors import Invalid
from console.models import AuditEntry
from deployments.models import Endpoint
from deployments.rules.objectives import openslo
from deployments.rules.objectives.openslo_reading import read
from deployments.rules.objectives.prometheus_rules import PromisedEndpoint
from deployments.rules.objectives.slo import Objective
from models_registry.models import ContractDraft
from models_registry.rules import contract_document
from tests import factories

# From the text of the specification and its schema of names, annotations and durations.
NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
ANNOTATION = re.compile(r"[a-z0-9A-Z][a-z0-9A-Z._-]{0,62}")
DURATION = re.compile(r"[1-9][0-9]*[mhdwMQY]")

WINDOWS = st.one_of(st.none(), st.integers(1, 366))
TARGETS = st.integers(50_000, 99_999).map(lambda n: n / 1000)
THRESHOLDS = st.one_of(st.integers(1, 600_000), st.integers(1, 9999).map(lambda n: n / 100))
OBJECTIVES = st.builds(
    lambda target, window, limit, other, days: (
        Objective("latency", target, window, float(limit)),
        Objective("availability", other, days),
    ),
    TARGETS,
    WINDOWS,
    THRESHOLDS,
    TARGETS,
    WINDOWS,
)


def as_contract(objective: Objective) -> dict[str, Any]:
    window = "calendar_month" if objective.window_days is None else f"{objective.window_days}d"
    limit = {} if objective.threshold_ms is None else {"threshold_ms": objective.threshold_ms}
    return {"name": objective.name, **limit, "target": objective.target, "window": window}


def written(*endpoints: PromisedEndpoint) -> str:
    return yaml.safe_dump_all(openslo.documents(endpoints), sort_keys=False)


@given(OBJECTIVES)
def test_what_was_written_is_read_as_it_was(objectives: tuple[Objective, ...]) -> None:
    text = written(PromisedEndpoint("production", "fraud_detector", 3, objectives))
    found = read(text, model="fraud_detector")
    assert found.objectives == [as_contract(one) for one in objectives]
    assert found.left_out == []


@given(OBJECTIVES, st.from_regex(r"[a-z][a-z0-9_]{1,62}", fullmatch=True))
def test_documents_are_as_the_specification_has_them(
    objectives: tuple[Objective, ...], model: str
) -> None:
    service, *slos = openslo.documents([PromisedEndpoint("production", model, 3, objectives)])
    assert service["kind"] == "Service"
    for document in (service, *slos):
        assert document["apiVersion"] == "openslo/v1"
        assert NAME.fullmatch(document["metadata"]["name"])
        for value in document["metadata"]["annotations"].values():
            assert ANNOTATION.fullmatch(value)
    for slo in slos:
        spec = slo["spec"]
        assert spec["service"] == service["metadata"]["name"]
        assert spec["budgetingMethod"] == "Occurrences"
        (window,) = spec["timeWindow"]
        assert DURATION.fullmatch(window["duration"])
        assert window["isRolling"] != ("calendar" in window)
        assert 0 < spec["objectives"][0]["target"] < 1
        ratio = spec["indicator"]["spec"]["ratioMetric"]
        assert set(ratio) == {"counter", "good", "total"}


def test_services_that_would_share_a_name_do_not() -> None:
    objectives = (Objective("availability", 99.9, 28),)
    found = openslo.documents(
        [PromisedEndpoint(*place, 1, objectives) for place in (("a-b", "cd"), ("a", "b_cd"))]
    )
    names = [one["metadata"]["name"] for one in found]
    assert len(set(names)) == 4


FOREIGN = """
apiVersion: openslo/v1
kind: SLI
metadata: {name: answers-in-time}
spec:
  thresholdMetric:
    metricSource:
      type: Prometheus
      spec: {query: 'histogram_quantile(0.99, http_request_duration_seconds_bucket)'}
---
apiVersion: openslo/v1
kind: SLO
metadata: {name: in-time}
spec:
  service: checkout
  indicatorRef: answers-in-time
  timeWindow: [{duration: 4w, isRolling: true}]
  budgetingMethod: Occurrences
  objectives: [{op: lte, value: 0.25, target: 0.99}]
---
apiVersion: openslo/v1
kind: SLO
metadata: {name: answered}
spec:
  service: checkout
  indicator:
    metadata: {name: answered}
    spec:
      ratioMetric:
        counter: true
        good: {metricSource: {type: Prometheus, spec: {query: 'http_requests_total{code="200"}'}}}
        total: {metricSource: {type: Prometheus, spec: {query: 'http_requests_total'}}}
  timeWindow:
    - duration: 1M
      isRolling: false
      calendar: {startTime: '2026-01-01 00:00:00', timeZone: UTC}
  objectives: [{targetPercent: 99.95}]
---
apiVersion: openslo/v1
kind: AlertPolicy
metadata: {name: page}
spec: {}
"""


def test_documents_of_others_are_read_for_what_a_contract_can_promise() -> None:
    found = read(FOREIGN, model="fraud_detector")
    assert found.objectives == [
        {"name": "latency", "threshold_ms": 250, "target": 99.0, "window": "28d"},
        {"name": "availability", "target": 99.95, "window": "calendar_month"},
    ]
    assert found.left_out == ["AlertPolicy page"]


def test_a_bound_in_the_query_is_a_threshold() -> None:
    slo = changed(
        indicator={
            "spec": {"ratioMetric": {"good": {"query": 'x_seconds_bucket{le="0.08"}'}, "total": {}}}
        }
    )
    assert read(slo, model="fraud_detector").objectives[0]["threshold_ms"] == 80


def changed(**spec: Any) -> str:
    body = {
        "service": "checkout",
        "indicator": {"spec": {"ratioMetric": {"good": {}, "total": {}}}},
        "timeWindow": [{"duration": "28d", "isRolling": True}],
        "budgetingMethod": "Occurrences",
        "objectives": [{"target": 0.999}],
        **spec,
    }
    document = {"apiVersion": "openslo/v1", "kind": "SLO", "metadata": {"name": "one"}}
    return json.dumps([{**document, "spec": body}])


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"budgetingMethod": "Timeslices"}, "budgets by Timeslices"),
        ({"timeWindow": [{"duration": "1Q", "isRolling": False}]}, "only months"),
        ({"timeWindow": [{"duration": "36h", "isRolling": True}]}, "whole days or weeks"),
        ({"timeWindow": [{"duration": "1M", "isRolling": True}]}, "whole days or weeks"),
        ({"timeWindow": [{"duration": "999d", "isRolling": True}]}, "whole days or weeks"),
        ({"timeWindow": []}, "one time window"),
        ({"timeWindow": [{"duration": "soon"}]}, "cannot be read"),
        ({"objectives": [{"target": 1.0}]}, "100 %"),
        ({"objectives": [{"target": 0.3}]}, "30 %"),
        ({"objectives": [{"target": "high"}]}, "no target"),
        ({"objectives": [{"target": 0.9}, {"target": 0.99}]}, "one objective"),
        (
            {
                "indicator": {"spec": {"thresholdMetric": {"query": "latency_ms"}}},
                "objectives": [{"op": "gt", "value": 5, "target": 0.9}],
            },
            "otherwise than by lte or lt",
        ),
        (
            {
                "indicator": {"spec": {"thresholdMetric": {"query": "latency"}}},
                "objectives": [{"op": "lt", "value": 5, "target": 0.9}],
            },
            "names no unit",
        ),
    ],
)
def test_what_cannot_be_promised_is_said_at_its_place(spec: dict[str, Any], words: str) -> None:
    with pytest.raises(Invalid) as caught:
        read(changed(**spec), model="fraud_detector")
    assert caught.value.code == "invalid_openslo"
    assert words in caught.value.errors[0].detail
    assert caught.value.errors[0].pointer == "/0/spec"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "just words",
        "apiVersion: openslo/v1alpha\nkind: SLO",
        "apiVersion: openslo/v1\nkind: Service",
        "a: &x [1]\nb: *x",
        "---\n" * 101 + "kind: SLO",
        "x" * 300_000,
        changed(service="one")[:-1] + "," + changed(service="two")[1:],
        changed()[:-1] + "," + changed(objectives=[{"target": 0.9}])[1:],
    ],
)
def test_what_is_no_openslo_of_one_service_is_refused(text: str) -> None:
    with pytest.raises(Invalid):
        read(text, model="fraud_detector")


@given(st.text(max_size=200))
def test_no_text_does_worse_than_be_refused(text: str) -> None:
    for begun in ("", "apiVersion: openslo/v1\nkind: SLO\nspec: "):
        with suppress(Invalid):
            read(begun + text, model="fraud_detector")


@pytest.mark.django_db
def test_out_by_the_api_and_in_as_a_draft_of_a_contract() -> None:
    model = factories.make_model()
    factories.make_contract(model)
    for name in ("staging", "production"):
        Endpoint.objects.create(model=model, environment=factories.make_environment(name))
    client = APIClient()
    client.force_login(factories.people().dana)
    text = client.get("/api/v1/exports/openslo/").content.decode()
    assert len(list(yaml.safe_load_all(text))) == 6
    path = "/api/v1/models/fraud_detector/openslo/"
    stricter = text.replace("0.999", "0.9995")
    answer = client.post(path, {"openslo": stricter, "title": "Stricter"}, format="json")
    assert answer.status_code == 201, answer.content
    assert answer.json()["objectives"] == [
        {"name": "latency", "threshold_ms": 80, "target": 99.0, "window": "28d"},
        {"name": "availability", "target": 99.95, "window": "28d"},
    ]
    draft = ContractDraft.objects.get(pk=answer.json()["draft"])
    assert draft.title == "Stricter"
    document = contract_document.load(draft.text)
    assert document.availability is not None
    assert document.availability.target == 99.95
    assert AuditEntry.objects.filter(action="draft.create").exists()
    wrong = client.post(path, {"openslo": changed(timeWindow=[])}, format="json")
    assert (wrong.status_code, wrong.json()["code"]) == (422, "invalid_openslo")
    elsewhere = client.post("/api/v1/models/nothing/openslo/", {"openslo": text}, format="json")
    assert elsewhere.status_code == 404
    client.force_login(factories.people().vic)
    assert client.post(path, {"openslo": text}, format="json").status_code == 403
