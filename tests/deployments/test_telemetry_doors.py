"""Telemetry by page, API and command line."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from django.test import Client
from django.urls import reverse
from rest_framework.test import APIClient

from console import live
from console.errors import Invalid, NotAllowed, NotFound, Stale
from console.models import AuditEntry
from deployments.adapters import telemetry_store
from deployments.models import Endpoint
from deployments.rules.statistics.measurements import Point, Quantity, Subject
from deployments.rules.telemetry.drift import number_reference
from deployments.rules.telemetry.measured import drift_document, measure_drift
from deployments.selectors.telemetry.pages import telemetry_chart, telemetry_page
from deployments.services.statistics.measurements import record
from deployments.services.telemetry.settings import set_telemetry
from deployments.services.traffic.splits import set_split
from models_registry.models import ReferenceSample
from models_registry.rules.feature_values import Column
from tests import factories
from tests.deployments.conftest import Fleet, applied, ready_version
from tests.deployments.reference_rows import record_rows, rows_of

NOW = datetime.now(UTC)
HERE = ("production", "fraud_detector")

pytestmark = pytest.mark.django_db


@pytest.fixture
def endpoint(fleet_rows: Fleet) -> Endpoint:
    live.connection().flushall()
    model = factories.make_model("fraud_detector")
    factories.make_contract(model)
    ready_version(fleet_rows, factories.make_version(model))
    applied(
        set_split(
            environment="production",
            model=model.name,
            weights={1: 100},
            expected_revision=None,
            reason="a start",
            actor=fleet_rows.sam,
        )
    )
    return Endpoint.objects.get(model=model)


def measure(endpoint: Endpoint) -> None:
    """A drift above the contract's limit, an entropy, and what somebody sends."""
    subject = Subject(endpoint=endpoint.pk, version=1)
    record(
        [
            Point(Quantity(subject, "feature_drift_score"), 0.42, NOW),
            Point(Quantity(subject, "feature_drift_score", "features[0]"), 0.42, NOW),
            Point(Quantity(subject, "model_output_entropy"), 0.2, NOW),
            Point(Quantity(subject, "conversion_rate"), 0.07, NOW),
            Point(Quantity(Subject(endpoint=endpoint.pk), "orders_total"), 3, NOW),
            Point(Quantity(Subject(endpoint=endpoint.pk), "orders_total"), 4, NOW),
        ]
    )
    source = np.random.default_rng(1)
    training = [number_reference(f"features[{n}]", source.normal(size=500)) for n in range(15)]
    columns = {
        f"features[{n}]": Column("number", source.normal(n == 0, size=200)) for n in range(14)
    }
    document = drift_document([measure_drift(1, training, columns)], NOW, rows=200, without=[])
    telemetry_store.store({str(endpoint): document})


def test_the_page_says_what_stands(endpoint: Endpoint, fleet_rows: Fleet, client: Client) -> None:
    client.force_login(endpoint.model.owner)
    url = reverse("deployments:endpoint-telemetry", args=HERE)
    empty = client.get(url).content.decode()
    assert "No training sample is recorded with this version" in empty
    assert "No row has been looked at" in empty
    record_rows(endpoint.model.versions.get())
    measure(endpoint)
    text = client.get(url).content.decode()
    for words in ("above the limit", "Trained on 200 rows", "conversion_rate", "2 more features"):
        assert words in text
    assert "1 feature of the training is sent by nobody" in text
    panel = client.get(url, headers={"HX-Request": "true"}).content.decode()
    assert panel.lstrip().startswith('<div id="telemetry-standing"')


def test_the_page_takes_a_choice_and_a_training_sample(
    endpoint: Endpoint, fleet_rows: Fleet, client: Client
) -> None:
    client.force_login(endpoint.model.owner)
    url = reverse("deployments:endpoint-telemetry", args=HERE)
    answer = client.post(url, {"measured": "on", "percent": "25", "revision": "0"}, follow=True)
    assert "The choice is in force." in answer.content.decode()
    assert client.post(url, {"percent": "0"}).status_code == 422
    stale = client.post(url, {"percent": "30", "revision": "7"}, follow=True)
    assert "is revision 1 by now" in stale.content.decode()
    record = reverse("deployments:endpoint-telemetry-reference", args=HERE)
    version = endpoint.model.versions.get()
    file = io.BytesIO(rows_of(version))
    file.name = "rows.json"
    answer = client.post(record, {"version": "1", "file": file, "note": "January"}, follow=True)
    assert "200 rows are recorded with v1." in answer.content.decode()
    assert ReferenceSample.objects.get().note == "January"
    bad = io.BytesIO(b"a,b\n1,2")
    bad.name = "rows.csv"
    answer = client.post(record, {"version": "1", "file": bad}, follow=True)
    assert "This is no training sample of the version." in answer.content.decode()
    assert "Choose a file" in client.post(record, {}, follow=True).content.decode()


def test_the_api_shows_and_changes(endpoint: Endpoint, fleet_rows: Fleet) -> None:
    api = APIClient()
    api.force_authenticate(endpoint.model.owner)
    url = reverse("api:endpoint-telemetry", args=HERE)
    measure(endpoint)
    record_rows(endpoint.model.versions.get())
    found = api.get(url)
    assert (found["ETag"], found.data["percent"], found.data["promised"]) == ('"0"', 5.0, True)
    (version,) = found.data["versions"]
    assert version["drift"]["newest"] == 0.42
    assert version["sample"]["rows"] == 200
    assert len(version["features"]) == 14
    assert "values" not in version["features"][0]
    assert [one["name"] for one in found.data["sent"]] == ["conversion_rate", "orders_total"]
    assert found.data["sent"][1]["total"] == 7
    assert api.put(url, {"measured": True}, format="json").status_code == 428
    changed = api.put(
        url, {"measured": True, "percent": 10}, format="json", headers={"If-Match": '"0"'}
    )
    assert (changed.status_code, changed.data["percent"], changed["ETag"]) == (200, 10.0, '"1"')
    stale = api.put(
        url, {"measured": False, "percent": 9}, format="json", headers={"If-Match": '"0"'}
    )
    assert stale.status_code == 412
    chart = reverse("api:endpoint-telemetry-chart", args=(*HERE, "feature_drift_score"))
    drawn = api.get(chart).data
    assert drawn["limit"]["value"] == 0.3
    assert [line["name"] for line in drawn["series"]] == ["v1"]
    assert [v for v in drawn["series"][0]["y"] if v is not None] == [0.42]
    assert len(api.get(chart, {"label": "*"}).data["series"]) == 2
    assert api.get(chart, {"version": "x"}).status_code == 422
    unknown = reverse("api:endpoint-telemetry-chart", args=(*HERE, "nothing"))
    assert api.get(unknown).status_code == 404
    counts = reverse("api:endpoint-telemetry-chart", args=(*HERE, "orders_total"))
    assert [v for v in api.get(counts).data["series"][0]["y"] if v is not None] == [7]


def test_training_samples_by_the_api(endpoint: Endpoint, fleet_rows: Fleet) -> None:
    api = APIClient()
    api.force_authenticate(endpoint.model.owner)
    url = reverse("api:reference-sample", args=("fraud_detector", 1))
    body: dict[str, Any] = json.loads(rows_of(endpoint.model.versions.get()))
    made = api.post(url, {**body, "note": "2026"}, format="json")
    assert (made.status_code, made.data["rows"], made.data["note"]) == (201, 200, "2026")
    assert api.post(url, {}, format="json").status_code == 422
    assert api.post(url, {"csv": "a\n1", **body}, format="json").status_code == 422
    assert api.post(url, {"csv": "a\n1"}, format="json").status_code == 422
    assert [one["rows"] for one in api.get(url).data["results"]] == [200]
    api.force_authenticate(factories.make_user("vic", "viewer"))
    assert api.post(url, body, format="json").status_code == 403


def test_who_may_choose_what_is_measured(endpoint: Endpoint, fleet_rows: Fleet) -> None:
    options: dict[str, Any] = {"environment": "production", "model": "fraud_detector"}
    options |= {"measured": True, "percent": 50, "expected_revision": None}
    with pytest.raises(NotAllowed):
        set_telemetry(actor=factories.actor(factories.make_user("bo", "business_owner")), **options)
    row = set_telemetry(actor=fleet_rows.sam, **options)
    assert set_telemetry(actor=fleet_rows.sam, **options).revision == row.revision == 1
    with pytest.raises(Invalid):
        set_telemetry(actor=fleet_rows.sam, **{**options, "percent": 101})
    with pytest.raises(Stale):
        set_telemetry(actor=fleet_rows.sam, **{**options, "percent": 1, "expected_revision": 0})
    with pytest.raises(NotFound):
        set_telemetry(actor=fleet_rows.sam, **{**options, "model": "none"})
    entry = AuditEntry.objects.get(action="telemetry.change")
    assert entry.after == {"measured": True, "percent": 50.0}


def test_the_page_asks_the_same_whatever_is_measured(
    endpoint: Endpoint, fleet_rows: Fleet, django_assert_max_num_queries: Any
) -> None:
    measure(endpoint)
    user = endpoint.model.owner
    with django_assert_max_num_queries(7):
        telemetry_page(*HERE, now=NOW, user=user)
    with django_assert_max_num_queries(4):
        telemetry_chart(
            endpoint, "feature_drift_score", window="1h", now=NOW + timedelta(minutes=1)
        )
