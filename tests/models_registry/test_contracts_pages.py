"""Contracts in words, their differences, their signatures verified, and proposing and signing."""

from __future__ import annotations

import json

import pytest
from django.utils import timezone

from console.models import SigningKey
from models_registry.models import ContractSignature, ContractState, ServiceContract
from models_registry.rules.contract_order import in_reading_order
from models_registry.rules.contract_proposal import to_yaml
from models_registry.services.contracts import url_of
from tests import factories
from tests.factories import People
from tests.models_registry import signing
from tests.models_registry.browsing import Visitor

pytestmark = pytest.mark.django_db


@pytest.fixture
def people() -> People:
    return factories.people()


def sign_by(visitor: Visitor, contract: ServiceContract, person: str, **device: bool) -> object:
    user = getattr(factories.people(), person)
    signing.enrol(user, **device)
    envelope = signing.contract_envelope(user, bytes(contract.payload), **device)
    return visitor.post(f"{url_of(contract)}sign/", {"envelope": json.dumps(envelope)})


def test_a_contract_is_told_in_words_beside_its_document(people: People) -> None:
    contract = factories.make_contract(factories.make_model())
    shown = Visitor(people.bea).get(url_of(contract))
    for words in (
        "99 % of requests are answered within 80 ms, measured over 28 days.",
        "While the model is down, callers get: reason = model_down, risk_score = 0.3",
        "A release to production must be approved by: SRE.",
        "threshold_ms: 80",
        contract.digest[:12],
        "In force",
    ):
        assert words in shown, words
    assert shown.text.count("Signed") >= 3
    # The document reads in its own order, not in that of the database.
    assert shown.text.index("apiVersion:") < shown.text.index("interface:")
    assert shown.text.index("interface:") < shown.text.index("approvals:")
    for seat in ("data_scientist", "sre", "business_owner"):
        assert f"--trust {seat}=" in shown, "how to verify it offline"


def test_what_changes_is_marked_as_more_less_or_breaking(people: People) -> None:
    model = factories.make_model()
    factories.make_contract(model)
    objectives = [
        {"name": "latency", "threshold_ms": 120, "target": 99.0, "window": "28d"},
        {"name": "availability", "target": 99.95, "window": "28d"},
    ]
    weaker = factories.make_contract(model, state=ContractState.PROPOSED, objectives=objectives)
    shown = Visitor(people.bea).get(url_of(weaker))
    assert "What changes against revision 1" in shown
    assert "Latency limit: 80 ms → 120 ms" in shown
    assert "promises less" in shown
    assert "promises more" in shown
    itself = Visitor(people.bea).get(f"{url_of(weaker)}?against=1", part=True)
    assert "120 ms" in itself


def test_three_people_sign_and_it_is_in_force(people: People) -> None:
    contract = factories.make_contract(factories.make_model(), state=ContractState.PROPOSED)
    dana = Visitor(people.dana)
    before = dana.get(url_of(contract))
    assert f"{url_of(contract)}sign/" in before.forms
    assert contract.digest in before
    assert "/api/v1/models/fraud_detector/contracts/1/payload/" in before.links
    for name in ("dana", "sam", "bea"):
        visitor = Visitor(getattr(people, name))
        assert sign_by(visitor, contract, name).address == url_of(contract)  # type: ignore[attr-defined]
    contract.refresh_from_db()
    assert contract.state == ContractState.IN_FORCE
    assert f"{url_of(contract)}sign/" not in dana.get(url_of(contract)).forms


def test_a_signature_that_does_not_do_is_refused_on_the_page(people: People) -> None:
    contract = factories.make_contract(factories.make_model(), state=ContractState.PROPOSED)
    dana = Visitor(people.dana)
    address = f"{url_of(contract)}sign/"
    signing.enrol(people.dana)
    other = signing.contract_envelope(people.dana, b'{"another":"document"}')
    refused = dana.post(address, {"envelope": json.dumps(other)})
    assert refused.status == 422
    assert "payload" in refused
    assert f"{url_of(contract)}sign/" in refused.forms, "the form is there for another try"
    assert dana.post(address, {"envelope": ""}).status == 422
    sam = Visitor(people.sam)
    foreign = signing.contract_envelope(people.dana, bytes(contract.payload))
    refused = sam.post(address, {"envelope": json.dumps(foreign)})
    assert "belongs to somebody else" in refused
    assert not ContractSignature.objects.exists()


def test_a_person_without_a_seat_is_offered_no_signature(people: People) -> None:
    contract = factories.make_contract(factories.make_model(), state=ContractState.PROPOSED)
    ada = Visitor(people.ada)
    assert f"{url_of(contract)}sign/" not in ada.get(url_of(contract)).forms
    refused = sign_by(ada, contract, "ada")
    assert refused.status == 403  # type: ignore[attr-defined]
    assert "sits in no seat" in refused  # type: ignore[operator]


def test_each_signature_is_verified_when_the_page_is_made(people: People) -> None:
    contract = factories.make_contract(factories.make_model())
    SigningKey.objects.filter(user=people.sam).update(revoked_at=timezone.now())
    bea = Visitor(people.bea)
    assert "Signed by a key revoked since" in bea.get(url_of(contract))
    signature = ContractSignature.objects.get(seat="business_owner")
    signature.envelope = signing.contract_envelope(people.bea, b"{}")
    signature.save()
    shown = bea.get(url_of(contract))
    assert "Signature does not verify" in shown
    assert "Somebody changed it in the database." in shown


def test_a_document_that_was_changed_in_the_database_is_said_to_be_so(people: People) -> None:
    contract = factories.make_contract(factories.make_model(), state=ContractState.PROPOSED)
    contract.document = {**contract.document, "load": {"qps": 9}}
    contract.save()
    assert "is not what was proposed" in Visitor(people.bea).get(url_of(contract))


def test_a_contract_is_proposed_from_a_version_and_from_an_edited_text(people: People) -> None:
    model = factories.make_model()
    factories.make_version(model)
    dana = Visitor(people.dana)
    start = dana.get("/models/fraud_detector/contracts/new/")
    assert "started from version 1" in start
    assert "name: risk_score" in start
    text = to_yaml(factories.contract_body())
    made = dana.post(
        "/models/fraud_detector/contracts/new/", {"document": text, "note": "First promise."}
    )
    contract = ServiceContract.objects.get()
    assert made.address == url_of(contract)
    assert contract.note == "First promise."
    next_one = dana.get("/models/fraud_detector/contracts/new/?from=1")
    assert "risk_score: 0.3" in next_one


def test_the_next_proposal_keeps_the_ranges_and_the_fallback_that_are_promised(
    people: People,
) -> None:
    model = factories.make_model()
    version = factories.make_version(model)
    version.outputs = []
    version.save()
    factories.make_contract(model)
    shown = Visitor(people.dana).get("/models/fraud_detector/contracts/new/")
    assert "Nothing that matters: both promise the same." in shown
    assert "risk_score: 0.3" in shown


def test_every_fault_of_a_document_is_told_with_its_place(people: People) -> None:
    factories.make_model()
    body = factories.contract_body()
    body["objectives"][0]["threshold_ms"] = -1
    body["fallbak"] = body.pop("fallback")
    dana = Visitor(people.dana)
    for part in (False, True):
        address = "/models/fraud_detector/contracts/new/" + ("preview/" if part else "")
        shown = dana.post(address, {"document": to_yaml(body)}, part=part)
        assert shown.status == (200 if part else 422)
        assert "/objectives/0/threshold_ms" in shown
        assert "/fallbak" in shown
        assert "did you mean fallback?" in shown
    assert not ServiceContract.objects.exists()


def test_the_preview_shows_terms_and_what_they_change(people: People) -> None:
    model = factories.make_model()
    factories.make_contract(model)
    dana = Visitor(people.dana)
    address = "/models/fraud_detector/contracts/new/preview/"
    changed = to_yaml(factories.contract_body(load={"qps": 500}))
    shown = dana.post(address, {"document": changed}, part=True)
    assert "The document is sound" in shown
    assert "This holds up to 500 requests per second." in shown
    assert "promises less" in shown
    other = to_yaml(factories.contract_body("churn_model"))
    assert "is about churn_model" in dana.post(address, {"document": other}, part=True)


def test_the_contract_in_force_proposed_again_is_a_conflict(people: People) -> None:
    model = factories.make_model()
    contract = factories.make_contract(model)
    text = to_yaml(contract.document)
    shown = Visitor(people.dana).post("/models/fraud_detector/contracts/new/", {"document": text})
    assert shown.status == 409
    assert "the contract that is in force" in shown


def test_without_a_validated_version_the_page_says_so(people: People) -> None:
    factories.make_model()
    shown = Visitor(people.dana).get("/models/fraud_detector/contracts/new/")
    assert "No version of this model has been validated yet" in shown


def test_a_proposal_is_withdrawn_by_a_person_with_a_part_in_the_model(people: People) -> None:
    contract = factories.make_contract(factories.make_model(), state=ContractState.PROPOSED)
    address = f"{url_of(contract)}withdraw/"
    vic = Visitor(people.vic)
    assert address not in vic.get(url_of(contract)).forms
    assert vic.post(address, {"reason": "No."}).status == 403
    sam = Visitor(people.sam)
    assert address in sam.get(url_of(contract)).forms
    sam.post(address, {"reason": "Another one comes."})
    contract.refresh_from_db()
    assert contract.state == ContractState.WITHDRAWN


def test_fields_are_put_into_reading_order() -> None:
    mixed = {"model": "m", "approvals": {"production": [], "staging": []}, "kind": "k", "load": {}}
    ordered = in_reading_order(mixed)
    assert list(ordered) == ["kind", "model", "load", "approvals"]
    assert list(ordered["approvals"]) == ["staging", "production"]
    assert list(in_reading_order({"zeta": 1, "name": 2, "alpha": 3})) == ["name", "alpha", "zeta"]
    assert ordered == mixed
