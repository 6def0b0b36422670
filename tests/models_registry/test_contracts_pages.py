"""Contracts in words, their differences, their signatures verified, and proposing and signing."""

from __future__ import annotations

import json

import pytest
from django.utils import timezone

from console.models import SigningKey
from models_registry.models import (
    ContractSignature,
    ContractState,
    RegisteredModel,
    ServiceContract,
)
from models_registry.rules.contract_order import in_reading_order
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
    assert "P99 limit: 80 → 120 ms" in shown
    assert "weaker for the caller" in shown
    assert "stronger for the caller" in shown
    itself = Visitor(people.bea).get(f"{url_of(weaker)}?against=1", part=True)
    assert "120 ms" in itself


def test_what_breaks_callers_and_what_the_risk_class_asks_for_is_said_to_who_signs(
    people: People,
) -> None:
    model = factories.make_model()
    factories.make_contract(model, explanation={"method": "shap"})
    breaking = factories.make_contract(model, state=ContractState.PROPOSED)
    RegisteredModel.objects.filter(pk=model.pk).update(risk_class="high")
    shown = Visitor(people.bea).get(url_of(breaking))
    assert "Breaking: 1 change breaks callers." in shown
    assert "What the risk class asks for: High" in shown
    assert "An explanation of answers (a method other than none)" in shown
    page = Visitor(people.bea).get("/models/fraud_detector/")
    assert "Revision 1 lacks what the risk class “High” asks for." in page


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
