"""Releases over the API, and what waits in a person's inbox."""

from __future__ import annotations

import hashlib

import pytest
from django.utils import timezone

from console.rules.dsse import RELEASE_PAYLOAD_TYPE
from models_registry.models import ContractState, ReleaseState
from models_registry.rules import bundles
from models_registry.selectors.catalog import model_page
from models_registry.selectors.contracts import contract_page
from models_registry.selectors.releases import (
    contracts_to_sign,
    release_page,
    releases_to_approve,
)
from models_registry.selectors.versions import version_page
from tests import factories
from tests.factories import People
from tests.models_registry import signing
from tests.models_registry.api import Caller

pytestmark = pytest.mark.django_db
BASE = "/models/fraud_detector/releases"


@pytest.fixture
def people() -> People:
    return factories.people()


def test_ask_sign_and_verify(people: People) -> None:
    version = factories.make_version()
    factories.make_contract(version.model)
    factories.make_environment()
    dana, sam = Caller(people.dana), Caller(people.sam)
    body = {"version": 1, "environment": "production", "note": "better recall"}
    made = dana.post(f"{BASE}/", body)
    assert made.status_code == 201, made.content
    release = made.json()
    assert (release["state"], release["missing_roles"]) == ("proposed", ["sre"])
    assert "Missing: 1 SRE" in release["explanation"]
    assert dana.post(f"{BASE}/", body).json()["id"] == release["id"]
    path = f"{BASE}/{release['id']}"
    signing.enrol(people.sam)
    payload = sam.get(f"{path}/payload/")
    assert payload["Content-Type"] == RELEASE_PAYLOAD_TYPE
    assert hashlib.sha256(payload.content).hexdigest() == release["digest"]
    envelope = signing.release_envelope(people.sam, payload.content)
    decided = sam.post(f"{path}/approvals/", {"approve": True, "envelope": envelope})
    assert decided.status_code == 201, decided.content
    assert decided.json()["state"] == "approved"
    assert decided.json()["approvals"][0]["person"] == "sam"
    bundle = dana.get(f"{path}/bundle/").content
    assert bundles.verify_bundle(bundle, required_approvals=["sre"]).ok
    listed = dana.get(f"{BASE}/?environment=production&state=approved").json()["results"]
    assert [r["id"] for r in listed] == [release["id"]]


def test_refusals(people: People) -> None:
    version = factories.make_version()
    factories.make_environment()
    dana, sam, bea = (Caller(user) for user in (people.dana, people.sam, people.bea))
    early = dana.post(f"{BASE}/", {"version": 1, "environment": "production"})
    cases = [
        (early, 409, "contract_missing"),
        (dana.post(f"{BASE}/", {"version": 9, "environment": "production"}), 404, "not_found"),
        (dana.post(f"{BASE}/", {"version": 1, "environment": "moon"}), 404, "unknown_environment"),
        (dana.post(f"{BASE}/", {"version": "x"}), 422, "invalid_input"),
    ]  # fmt: skip
    release = factories.make_release(version, state=ReleaseState.PROPOSED)
    path = f"{BASE}/{release.pk}/approvals/"
    cases += [
        (sam.post(path, {"approve": True}), 422, "invalid_input"),
        (sam.post(path, {"approve": False}), 422, "reason_missing"),
        (bea.post(path, {"approve": False, "reason": "no"}), 403, "role_missing"),
        (dana.post(path, {"approve": False, "reason": "no"}), 403, "author_may_not_approve"),
        (sam.post(path, {"approve": False, "reason": "too slow"}), 201, None),
        (sam.post(f"{BASE}/{release.pk}/withdraw/", {}), 409, "illegal_move"),
    ]
    for answer, status, code in cases:
        assert (answer.status_code, answer.json().get("code")) == (status, code)
    other = factories.make_model("other_model")
    assert sam.get(f"/models/{other.name}/releases/{release.pk}/").status_code == 404


def test_the_inbox_holds_what_waits_for_this_person(people: People) -> None:
    release = factories.make_release(state=ReleaseState.PROPOSED)
    contract = factories.make_contract(
        release.version.model, state=ContractState.PROPOSED, signed_by=("sre",), load={"qps": 1}
    )
    assert releases_to_approve(people.sam, timezone.now()) == [release]
    for user in (people.dana, people.bea, people.vic, people.ada):
        assert releases_to_approve(user, timezone.now()) == []
    assert list(contracts_to_sign(people.dana)) == [contract]
    assert list(contracts_to_sign(people.bea)) == [contract]
    for user in (people.sam, people.vic):
        assert list(contracts_to_sign(user)) == []


def test_pages_take_a_stated_number_of_queries(
    people: People, django_assert_max_num_queries
) -> None:
    release = factories.make_release(state=ReleaseState.PROPOSED)
    model = release.version.model
    waiting = factories.make_contract(model, state=ContractState.PROPOSED, load={"qps": 1})
    with django_assert_max_num_queries(10):
        page = model_page(model.name, user=people.vic)
        assert [seat.user for seat in page.seats] == [people.dana, people.sam, people.bea]
        assert page.contract == release.contract
        assert [c.revision for c in page.contracts] == [2, 1]
        assert list(page.releases) == [release]
    with django_assert_max_num_queries(4):
        version = version_page(model.name, 1, user=people.vic)
        assert {row.name for row in version.files} == {
            "source", "onnx", "config", "report", "sample",
        }  # fmt: skip
        assert version.following is None
    with django_assert_max_num_queries(10):
        contract = contract_page(people.dana, model.name, waiting.revision)
        assert contract.can_sign_as == "data_scientist"
        assert contract.against == release.contract
        assert contract.changes
        assert contract.terms
    with django_assert_max_num_queries(9):
        decision = release_page(people.sam, release.pk, timezone.now())
        assert decision.can_decide_as == "sre"
        assert [one.missing for one in decision.verdict.approvals] == [1]
        assert [person.username for person, _ in decision.people] == ["sam"]
