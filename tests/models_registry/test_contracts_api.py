"""Contracts over the API: proposed in YAML or JSON, exact bytes out, envelopes in."""

from __future__ import annotations

import base64
import hashlib
import json

import pytest

from console.rules.dsse import CONTRACT_PAYLOAD_TYPE
from models_registry.models import ContractState, ServiceContract
from models_registry.rules import bundles
from models_registry.rules.contract_proposal import to_yaml
from tests import factories
from tests.factories import People
from tests.models_registry import signing
from tests.models_registry.api import Caller

pytestmark = pytest.mark.django_db
BASE = "/models/fraud_detector/contracts"


@pytest.fixture
def people() -> People:
    return factories.people()


@pytest.fixture
def dana(people: People) -> Caller:
    return Caller(people.dana)


def propose(caller: Caller, text: str, content_type: str = "application/yaml"):
    return caller.send("POST", f"{BASE}/?note=why", text.encode(), content_type)


def test_yaml_and_json_give_the_same_bytes(dana: Caller) -> None:
    factories.make_model()
    body = factories.contract_body()
    made = propose(dana, to_yaml(body))
    assert made.status_code == 201, made.content
    again = propose(dana, json.dumps(body), "application/json")
    assert (again.json()["revision"], again.json()["digest"]) == (1, made.json()["digest"])
    assert made.json()["note"] == "why"
    assert made.json()["document"] == body
    payload = dana.get(f"{BASE}/1/payload/", accept="application/octet-stream")
    digest = hashlib.sha256(payload.content).hexdigest()
    assert digest == made.json()["digest"]
    assert payload["Content-Type"] == CONTRACT_PAYLOAD_TYPE
    assert payload["ETag"] == f'"{digest}"'
    encoded = base64.b64encode(bytes.fromhex(digest)).decode()
    assert payload["Repr-Digest"] == f"sha-256=:{encoded}:"
    assert payload["Content-Disposition"].startswith("attachment")


@pytest.mark.parametrize(
    ("text", "content_type", "code"),
    [
        ("", "application/json", "invalid_contract"),
        ("{", "application/json", "invalid_json"),
        ('{"a": 1, "a": 2}', "application/json", "invalid_json"),
        ("a: [", "application/yaml", "invalid_yaml"),
        ("x: " + "y" * 1024**2, "application/yaml", "document_too_large"),
    ],
)
def test_documents_that_cannot_be_read(
    dana: Caller, text: str, content_type: str, code: str
) -> None:
    factories.make_model()
    answer = propose(dana, text, content_type)
    assert answer.status_code == 422
    assert answer.json()["code"] in (code, "invalid_yaml" if not text else code)
    assert not ServiceContract.objects.exists()


def test_every_fault_comes_with_its_pointer(dana: Caller) -> None:
    factories.make_model()
    body = {**factories.contract_body(), "surprise": 1}
    body["objectives"] = [{"name": "latency", "threshold_ms": -1, "target": 99, "window": "28d"}]
    answer = propose(dana, json.dumps(body), "application/json")
    pointers = {error["pointer"] for error in answer.json()["errors"]}
    assert pointers >= {"/surprise", "/objectives/0/threshold_ms"}


def test_three_people_sign_over_the_api(people: People) -> None:
    contract = factories.make_contract(factories.make_model(), state=ContractState.PROPOSED)
    states = []
    for user in people.seats.values():
        signing.enrol(user, device="phone", p256=True)
        caller = Caller(user)
        payload = caller.get(f"{BASE}/1/payload/").content
        envelope = signing.contract_envelope(user, payload, device="phone", p256=True)
        signed = caller.post(f"{BASE}/1/signatures/", {"envelope": envelope})
        assert signed.status_code == 201, signed.content
        states.append((signed.json()["seat"], signed.json()["contract_state"]))
    assert states == [
        ("data_scientist", "proposed"),
        ("sre", "proposed"),
        ("business_owner", "in_force"),
    ]
    shown = Caller(people.vic).get(f"{BASE}/1/").json()
    assert shown["state"] == "in_force"
    assert {s["signer"] for s in shown["signatures"]} == {"dana", "sam", "bea"}
    bundle = Caller(people.vic).get(f"{BASE}/1/bundle/")
    report = bundles.verify_bundle(bundle.content)
    assert report.ok
    assert report.digest == contract.digest


def test_signing_refusals_over_the_api(people: People) -> None:
    contract = factories.make_contract(factories.make_model(), state=ContractState.PROPOSED)
    ada = Caller(people.ada)
    signing.enrol(people.ada)
    own = signing.contract_envelope(people.ada, contract.payload)
    answer = ada.post(f"{BASE}/1/signatures/", {"envelope": own})
    assert (answer.status_code, answer.json()["code"]) == (403, "no_seat")
    dana = Caller(people.dana)
    for body, code in (
        ({}, "invalid_input"),
        ({"envelope": {}}, "invalid_envelope"),
        ({"envelope": own}, "key_not_yours"),
    ):
        answer = dana.post(f"{BASE}/1/signatures/", body)
        assert (answer.status_code, answer.json()["code"]) == (422, code)


def test_differences_in_words(dana: Caller) -> None:
    model = factories.make_model()
    factories.make_contract(model)
    factories.make_contract(model, state=ContractState.PROPOSED, load={"qps": 100})
    answer = dana.get(f"{BASE}/2/diff/").json()
    assert answer["against"] == 1
    assert [change["pointer"] for change in answer["changes"]] == ["/load/qps"]
    assert answer["changes"][0]["words"].endswith(": weaker for the caller")
    assert answer["breaking"] == 0
    shown = dana.get(f"{BASE}/2/").json()
    met = {row["key"]: (row["required"], row["met"]) for row in shown["clauses"]}
    assert met["drift"] == (True, True)
    assert met["valid_until"] == (False, False)
    assert dana.get(f"{BASE}/2/diff/?against=2").json()["changes"] == []
    for strange in ("x", "²", "9" * 5000):
        assert dana.get(f"{BASE}/2/diff/?against={strange}").status_code == 422
    assert dana.get(f"{BASE}/2/diff/?against=9").status_code == 404


def test_withdrawing_and_listing(dana: Caller) -> None:
    model = factories.make_model()
    factories.make_contract(model)
    factories.make_contract(model, state=ContractState.PROPOSED, load={"qps": 100})
    assert dana.post(f"{BASE}/2/withdraw/", {"reason": "typo"}).json()["state"] == "withdrawn"
    assert dana.post(f"{BASE}/1/withdraw/", {}).status_code == 409
    listed = dana.get(f"{BASE}/?state=withdrawn").json()["results"]
    assert [contract["revision"] for contract in listed] == [2]


def test_the_schema_is_published(dana: Caller) -> None:
    assert dana.get("/contract-schema/").json()["$schema"].endswith("2020-12/schema")
