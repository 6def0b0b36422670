"""What lists of models and versions are told of what runs: one answer for all rows."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from deployments.models import Endpoint
from tests import factories
from tests.deployments.conftest import Fleet, ready_version

pytestmark = pytest.mark.django_db


@pytest.fixture
def vic(fleet_rows: Fleet) -> Client:
    client = Client()
    client.force_login(factories.people().vic)
    return client


def test_each_model_that_is_named_gets_its_endpoints_or_a_word(
    fleet_rows: Fleet, vic: Client
) -> None:
    for name in ("fraud_detector", "churn_model"):
        factories.make_model(name)
    model = factories.make_version().model
    Endpoint.objects.create(model=model, environment=fleet_rows.production)
    text = vic.get("/panels/model-states/?name=fraud_detector&name=churn_model").content.decode()
    fraud, churn = text.split('<span id="live-')[1:]
    assert fraud.startswith('fraud_detector"')
    assert 'hx-swap-oob="true"' in fraud
    assert "/endpoints/production/fraud_detector/" in fraud
    assert "not deployed" in churn


def test_the_queries_do_not_grow_with_the_rows(fleet_rows: Fleet, vic: Client) -> None:
    names = [f"model_{number}" for number in range(20)]
    for name in names:
        model = factories.make_model(name, seats=False)
        Endpoint.objects.create(model=model, environment=fleet_rows.staging)

    def queries(count: int) -> int:
        with CaptureQueriesContext(connection) as seen:
            vic.get("/panels/model-states/", {"name": names[:count]})
        return len(seen)

    queries(1)
    assert queries(20) == queries(2)


def test_each_version_that_runs_says_where(fleet_rows: Fleet, vic: Client) -> None:
    version = factories.make_version()
    ready_version(fleet_rows, version)
    text = vic.get("/panels/version-states/fraud_detector/").content.decode()
    assert 'id="running-1" hx-swap-oob="true"' in text
    assert "local" in text
    assert vic.get("/panels/version-states/unknown_model/").status_code == 404
