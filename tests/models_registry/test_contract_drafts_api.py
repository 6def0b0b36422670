"""Drafts over the API: editions as ETags, both texts when two were at it, templates as data."""

from __future__ import annotations

import json

import pytest

from models_registry.models import ContractDraft, RegisteredModel
from models_registry.rules.contract_proposal import to_yaml
from tests import factories
from tests.factories import People
from tests.models_registry.api import Caller

pytestmark = pytest.mark.django_db
BASE = "/models/fraud_detector/contracts/drafts/"
SOUND = to_yaml(factories.contract_body())


@pytest.fixture
def people() -> People:
    return factories.people()


@pytest.fixture
def dana(people: People) -> Caller:
    factories.make_model()
    RegisteredModel.objects.update(risk_class="low")
    return Caller(people.dana)


def save(caller: Caller, address: str, text: str, edition: str):
    given = json.dumps({"text": text}).encode()
    headers = {"if_match": edition} if edition else {}
    return caller.send("PUT", address, given, "application/json", **headers)


def test_a_draft_is_started_saved_and_proposed(dana: Caller, people: People) -> None:
    made = dana.post(BASE, {"text": "model: 5\n", "title": "Next"})
    assert (made.status_code, made["ETag"]) == (201, '"1"')
    address = f"{BASE}{made.json()['id']}/"
    assert {"pointer": "/model", "line": 1} in [
        {k: fault[k] for k in ("pointer", "line")} for fault in made.json()["faults"]
    ]
    assert save(dana, address, SOUND, "").status_code == 428
    assert save(dana, address, SOUND, '"x"').status_code == 422
    assert save(dana, address, SOUND, '"1"').json()["faults"] == []
    sam = Caller(people.sam)
    stale = save(sam, address, "by: sam\n", '"1"')
    assert (stale.status_code, stale.json()["code"]) == (412, "stale_draft")
    assert stale.json()["current"]["text"] == SOUND
    proposed = [dana.post(f"{address}propose/", {"note": "why"}) for _ in range(2)]
    assert [answer.status_code for answer in proposed] == [201, 201]
    assert {answer.json()["revision"] for answer in proposed} == {1}
    shown = dana.get(address).json()
    assert (shown["state"], shown["proposed_as"]) == ("proposed", 1)
    assert dana.get(BASE).json()["results"] == []
    assert len(dana.get(f"{BASE}?state=all").json()["results"]) == 1
    assert dana.delete(address).status_code == 409


def test_templates_are_listed_by_risk_class_and_start_a_draft(dana: Caller, people: People) -> None:
    listed = Caller(people.vic).get("/models/fraud_detector/contract-templates/").json()
    assert listed[0]["fits"]
    assert not listed[-1]["fits"]
    version = factories.make_version()
    one = dana.get("/models/fraud_detector/contract-templates/batch_scoring/?version=1").json()
    assert "name: risk_score" in one["text"]
    made = dana.post(BASE, {"template": "batch_scoring", "version": version.number})
    assert made.json()["text"] == one["text"]
    assert made.json()["faults"] == []
    for address in ("nothing/", "batch_scoring/?version=9"):
        assert dana.get(f"/models/fraud_detector/contract-templates/{address}").status_code == 404
    bad = dana.get("/models/fraud_detector/contract-templates/batch_scoring/?version=x")
    assert bad.status_code == 422


def test_ids_of_others_and_large_bodies_are_refused(dana: Caller, people: People) -> None:
    draft = dana.post(BASE, {"text": SOUND}).json()
    factories.make_model("churn_model")
    stranger = Caller(factories.make_user("stranger", "data_scientist"))
    for caller, address in (
        (stranger, f"{BASE}{draft['id']}/"),
        (dana, f"/models/churn_model/contracts/drafts/{draft['id']}/"),
        (dana, f"{BASE}{10**30}/"),
    ):
        assert caller.get(address).status_code == 404
        assert save(caller, address, "x: 1\n", '"1"').status_code == 404
        assert caller.delete(address).status_code == 404
        assert caller.post(f"{address}propose/").status_code == 404
    assert Caller(people.vic).get(BASE).json()["results"] == []
    assert Caller(people.vic).post(BASE, {}).status_code == 403
    large = dana.post(BASE, {"text": "#" * 1024**2})
    assert (large.status_code, large.json()["code"]) == (413, "draft_too_large")
    assert ContractDraft.objects.get().text == SOUND
    assert dana.delete(f"{BASE}{draft['id']}/?reason=done").status_code == 204
