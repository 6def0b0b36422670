"""The rules in force: shown, counted and tried, by page, API and command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from pytest_django.live_server_helper import LiveServer
from rest_framework.test import APIClient

from console.errors import Invalid
from deployments.adapters import rule_store
from deployments.models import Endpoint
from models_registry.services.contracts import propose_contract
from tests import factories
from tests.deployments.test_cli import Outcome, run, signed_in  # noqa: F401 - fixtures

pytestmark = pytest.mark.django_db

FALLBACK = {
    "response": {"risk_score": 0.25, "reason": "model_down"},
    "rules": [
        {"name": "high", "when": "features[0] > 5.0", "response": {"risk_score": 0.875}},
        {"name": "low", "when": "features.all(v, v < 0.0)", "response": {"risk_score": 0.125}},
    ],
    "examples": [
        {"inputs": {"features": [9, 0, 0, 0, 0, 0, 0, 0, 0, 0]}, "response": {"risk_score": 0.875}},
        {"inputs": {"features": [-1] * 10}, "response": {"risk_score": 0.125}},
    ],
}
HERE = "/api/v1/endpoints/production/fraud_detector/fallback/"
HIGH = [9.0] + [0.0] * 9


@pytest.fixture
def endpoint(db: None) -> Endpoint:
    model = factories.make_model()
    factories.make_contract(model, fallback=FALLBACK)
    return Endpoint.objects.create(model=model, environment=factories.make_environment())


@pytest.fixture
def vic(endpoint: Endpoint) -> APIClient:
    client = APIClient()
    client.force_login(factories.people().vic)
    return client


def test_the_rules_in_force_are_told_with_their_counts(vic: APIClient) -> None:
    rule_store.add(
        {
            ("production/fraud_detector", "answered", "high"): 3,
            ("production/fraud_detector", "unjudged", "low"): 2,
            ("production/fraud_detector", "answered", rule_store.FIXED): 1,
        }
    )
    told = vic.get(HERE).json()
    assert (told["mode"], told["revision"], told["response_answered"]) == ("normal", 1, 1)
    assert [(rule["name"], rule["answered"], rule["unjudged"]) for rule in told["rules"]] == [
        ("high", 3, 0),
        ("low", 0, 2),
    ]
    assert told["response"] == FALLBACK["response"]


def test_rows_are_tried_and_nothing_is_kept(vic: APIClient) -> None:
    rows = [{"features": HIGH}, {"features": [0] * 10}, {}]
    answer = vic.post(f"{HERE}try/", {"rows": rows}, format="json")
    assert answer.status_code == 200
    assert answer.json() == {
        "revision": 1,
        "rows": [
            {"rule": "high", "unjudged": [], "response": {"risk_score": 0.875}},
            {"rule": None, "unjudged": [], "response": FALLBACK["response"]},
            {"rule": None, "unjudged": ["high", "low"], "response": FALLBACK["response"]},
        ],
    }


@pytest.mark.parametrize(
    ("rows", "pointer"),
    [
        ([{"age": 3}], "/rows/0/age"),
        ([{}, {"features": [1]}], "/rows/1/features"),
        ([{"features": "x"}], "/rows/0/features"),
        ([], "/rows"),
    ],
)
def test_rows_that_do_not_fit_are_refused_with_their_place(
    vic: APIClient, rows: Any, pointer: str
) -> None:
    answer = vic.post(f"{HERE}try/", {"rows": rows}, format="json")
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, pointer)


def test_there_is_nothing_to_try_without_a_contract(vic: APIClient, endpoint: Endpoint) -> None:
    endpoint.model.contracts.update(state="superseded")
    answer = vic.post(f"{HERE}try/", {"rows": [{}]}, format="json")
    assert (answer.status_code, answer.json()["code"]) == (409, "no_fallback")
    assert vic.get(HERE).json()["revision"] is None


def test_the_page_shows_the_rules_and_tries_a_row(endpoint: Endpoint) -> None:
    client = Client()
    client.force_login(factories.people().vic)
    address = "/endpoints/production/fraud_detector/fallback/"
    page = client.get(address).content.decode()
    assert "features[0] &gt; 5.0" in page
    assert "no rule holds" in page
    answer = client.post(address, {"row": json.dumps({"features": HIGH})})
    assert "Rule <code>high</code> answers:" in answer.content.decode()
    wrong = client.post(address, {"row": "[1"}, headers={"HX-Request": "true"})
    assert wrong.status_code == 200
    assert "<html" not in wrong.content.decode()
    assert client.post(address, {"row": '{"age": 3}'}).status_code == 422


def test_a_proposal_whose_rules_fail_is_refused(endpoint: Endpoint) -> None:
    actor = factories.actor(factories.people().dana)

    def propose(**changes: Any) -> None:
        body = factories.contract_body(fallback={**FALLBACK, **changes})
        propose_contract(model=endpoint.model, document=json.dumps(body), actor=actor)

    wrong = {"inputs": {"features": HIGH}, "response": {"risk_score": 0.5}}
    with pytest.raises(Invalid) as refused:
        propose(examples=[wrong])
    assert refused.value.code == "examples_fail"
    assert refused.value.errors[0].pointer == "/fallback/examples/0/response"
    with pytest.raises(Invalid) as refused:
        propose(rules=[{"name": "a", "when": "nothing > 1.0", "response": {"risk_score": 0.5}}])
    assert refused.value.code == "invalid_rule"
    propose(response={"risk_score": 0.5, "reason": "model_down"})


@pytest.mark.django_db(transaction=True)
def test_the_command_line_tries_a_row(
    endpoint: Endpoint, signed_in: Callable[..., Outcome], live_server: LiveServer
) -> None:
    shown = signed_in("fallback", "show", "production/fraud_detector")
    assert "1. high: features[0] > 5.0" in shown.out
    tried = signed_in(
        "fallback", "try", "production/fraud_detector", "--inputs", json.dumps({"features": HIGH})
    )
    assert tried.out.startswith('rule high: {"risk_score": 0.875}')
    assert signed_in("fallback", "try", "production/fraud_detector").code == 2
