"""Contracts: who may sign what with which key, and when a contract is in force."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from django.utils import timezone

from console.errors import Conflict, CovenantError, Invalid, NotAllowed
from console.models import AuditEntry
from console.rules import dsse
from models_registry.models import ContractState, SeatHolder, ServiceContract
from models_registry.rules import bundles
from models_registry.services import contracts
from tests import factories
from tests.factories import People, actor
from tests.models_registry import signing

pytestmark = pytest.mark.django_db


@pytest.fixture
def people() -> People:
    return factories.people()


@pytest.fixture
def proposal(people: People) -> ServiceContract:
    return factories.make_contract(factories.make_model(), state=ContractState.PROPOSED)


def sign(contract: ServiceContract, user, **device):
    if not device:
        signing.enrol(user)
    envelope = signing.contract_envelope(user, contract.payload, **device)
    return contracts.sign_contract(contract=contract, envelope=envelope, actor=actor(user))


def test_three_seats_put_a_contract_in_force_and_supersede_the_one_before(people: People) -> None:
    model = factories.make_model()
    first = factories.make_contract(model)
    body = factories.contract_body(load={"qps": 500})
    second = contracts.propose_contract(
        model=model, document=json.dumps(body), actor=actor(people.dana)
    )
    assert (second.revision, second.state) == (2, ContractState.PROPOSED)
    sign(second, people.dana)
    sign(second, people.sam)
    second.refresh_from_db()
    assert second.state == ContractState.PROPOSED
    sign(second, people.bea)
    second.refresh_from_db()
    first.refresh_from_db()
    assert second.state == ContractState.IN_FORCE
    assert first.state == ContractState.SUPERSEDED
    assert contracts.contract_in_force(model) == second
    assert contracts.verify_in_force(second) == ()
    actions = AuditEntry.objects.filter(subject="fraud_detector contract 2").order_by("sequence")
    assert [entry.action for entry in actions] == [
        "contract.propose",
        *["contract.sign"] * 3,
        "contract.in_force",
    ]


def test_an_older_open_proposal_ends_when_a_newer_one_comes_into_force(people: People) -> None:
    model = factories.make_model()
    older = factories.make_contract(model, state=ContractState.PROPOSED, load={"qps": 1})
    newer = factories.make_contract(model, state=ContractState.PROPOSED, load={"qps": 2})
    for user in people.seats.values():
        sign(newer, user)
    older.refresh_from_db()
    assert older.state == ContractState.SUPERSEDED


def test_proposing_the_same_document_twice_is_one_proposal(people: People) -> None:
    model = factories.make_model()
    document = json.dumps(factories.contract_body())
    first = contracts.propose_contract(model=model, document=document, actor=actor(people.dana))
    again = contracts.propose_contract(model=model, document=document, actor=actor(people.dana))
    assert again == first
    assert ServiceContract.objects.count() == 1


def test_the_contract_in_force_cannot_be_proposed_again(people: People) -> None:
    contract = factories.make_contract(factories.make_model())
    with pytest.raises(Conflict) as refused:
        contracts.propose_contract(
            model=contract.model, document=bytes(contract.payload), actor=actor(people.dana)
        )
    assert refused.value.code == "contract_unchanged"


@pytest.mark.parametrize(
    ("changes", "code", "pointer"),
    [
        ({"model": "other_model"}, "other_model", "/model"),
        ({"surprise": 1}, "invalid_contract", "/surprise"),
        ({"objectives": []}, "invalid_contract", "/objectives"),
    ],
)
def test_a_wrong_document_is_refused_with_the_place(
    people: People, changes: dict[str, object], code: str, pointer: str
) -> None:
    model = factories.make_model()
    document = json.dumps({**factories.contract_body(), **changes})
    with pytest.raises(Invalid) as refused:
        contracts.propose_contract(model=model, document=document, actor=actor(people.dana))
    assert refused.value.code == code
    assert pointer in {error.pointer for error in refused.value.errors}
    assert not ServiceContract.objects.exists()


def test_signing_refusals(people: People, proposal: ServiceContract) -> None:
    other = factories.make_user("eve", "sre")
    signing.enrol(other)
    signing.enrol(people.dana)
    signing.enrol(people.sam)
    payload = bytes(proposal.payload)
    own = signing.contract_envelope(people.dana, payload)
    stranger = signing.contract_envelope(other, payload)
    tampered = json.loads(payload)
    tampered["load"] = {"qps": 9}
    cases = {
        "no_seat": (other, stranger),
        "key_not_yours": (people.sam, own),
        "key_unknown": (people.bea, signing.contract_envelope(people.bea, payload)),
        "payload_mismatch": (
            people.dana,
            signing.contract_envelope(people.dana, json.dumps(tampered).encode()),
        ),
        "payload_type_mismatch": (people.dana, signing.release_envelope(people.dana, payload)),
        "signature_invalid": (people.dana, _spoilt(own)),
        "one_signature_expected": (
            people.dana,
            {**own, "signatures": own["signatures"] * 2},
        ),
        "invalid_envelope": (people.dana, {"payload": "?"}),
    }
    for code, (user, envelope) in cases.items():
        with pytest.raises(CovenantError) as refused:
            contracts.sign_contract(contract=proposal, envelope=envelope, actor=actor(user))
        assert refused.value.code == code
        assert refused.value.hint
    assert not proposal.signatures.exists()


def test_a_revoked_key_signs_nothing_new(people: People, proposal: ServiceContract) -> None:
    signing.enrol(people.dana, device="old laptop", revoked_at=timezone.now())
    with pytest.raises(Invalid) as refused:
        sign(proposal, people.dana, device="old laptop")
    assert refused.value.code == "key_revoked"


def test_one_person_cannot_sign_two_seats(people: People, proposal: ServiceContract) -> None:
    sign(proposal, people.dana)
    SeatHolder.objects.filter(model=proposal.model, seat="sre").update(user=people.dana)
    signing.enrol(people.dana, device="phone", p256=True)
    with pytest.raises(Conflict) as refused:
        sign(proposal, people.dana, device="phone", p256=True)
    assert refused.value.code == "already_signed"
    assert proposal.signatures.count() == 1


def test_a_seat_that_was_signed_is_not_signed_by_its_next_holder(
    people: People, proposal: ServiceContract
) -> None:
    sign(proposal, people.sam)
    eve = factories.make_user("eve", "sre")
    SeatHolder.objects.filter(model=proposal.model, seat="sre").update(user=eve)
    with pytest.raises(Conflict) as refused:
        sign(proposal, eve)
    assert refused.value.code == "seat_signed"


def test_the_same_envelope_again_changes_nothing(people: People, proposal: ServiceContract) -> None:
    signing.enrol(people.dana, device="phone", p256=True)
    envelope = signing.contract_envelope(people.dana, proposal.payload, device="phone", p256=True)
    first = contracts.sign_contract(contract=proposal, envelope=envelope, actor=actor(people.dana))
    again = contracts.sign_contract(contract=proposal, envelope=envelope, actor=actor(people.dana))
    assert again == first
    assert AuditEntry.objects.filter(action="contract.sign").count() == 1


def test_withdrawn_and_superseded_contracts_are_not_signed(
    people: People, proposal: ServiceContract
) -> None:
    contracts.withdraw_contract(contract=proposal, reason="typo", actor=actor(people.dana))
    with pytest.raises(Conflict) as refused:
        sign(proposal, people.dana)
    assert refused.value.code == "contract_not_proposed"


def test_a_contract_in_force_is_not_withdrawn(people: People) -> None:
    contract = factories.make_contract(factories.make_model())
    with pytest.raises(Conflict):
        contracts.withdraw_contract(contract=contract, actor=actor(people.dana))


@pytest.mark.parametrize(
    ("field", "value", "code"),
    [
        ("payload", b"{}", "digest_mismatch"),
        ("document", {"model": "fraud_detector"}, "digest_mismatch"),
        ("digest", "0" * 64, "digest_mismatch"),
    ],
)
def test_a_contract_changed_in_the_database_is_found_out_at_use(
    field: str, value: object, code: str
) -> None:
    contract = factories.make_contract(factories.make_model())
    ServiceContract.objects.filter(pk=contract.pk).update(**{field: value})
    contract.refresh_from_db()
    with pytest.raises(Invalid) as refused:
        contracts.verify_in_force(contract)
    assert refused.value.code == code


def test_a_signature_changed_in_the_database_is_found_out_at_use(people: People) -> None:
    contract = factories.make_contract(factories.make_model())
    signature = contract.signatures.get(seat="sre")
    signature.envelope = _spoilt(signature.envelope)
    signature.save()
    with pytest.raises(Invalid) as refused:
        contracts.verify_in_force(contract)
    assert refused.value.code == "signature_invalid"


def test_a_missing_signature_is_found_out_at_use() -> None:
    contract = factories.make_contract(factories.make_model(), signed_by=("data_scientist", "sre"))
    with pytest.raises(Invalid) as refused:
        contracts.verify_in_force(contract)
    assert refused.value.code == "signature_missing"


def test_a_key_revoked_later_marks_what_it_signed_and_one_revoked_before_breaks_it(
    people: People,
) -> None:
    contract = factories.make_contract(factories.make_model())
    signature = contract.signatures.get(seat="sre")
    signature.key.revoked_at = signature.signed_at + timedelta(seconds=1)
    signature.key.save()
    assert len(contracts.verify_in_force(contract)) == 1
    signature.key.revoked_at = signature.signed_at
    signature.key.save()
    with pytest.raises(Invalid) as refused:
        contracts.verify_in_force(contract)
    assert refused.value.code == "key_revoked"


def test_the_bundle_verifies_offline(people: People) -> None:
    contract = factories.make_contract(factories.make_model())
    report = bundles.verify_bundle(contracts.contract_bundle(contract))
    assert report.ok
    assert report.digest == contract.digest


def test_only_people_with_a_part_in_the_model_propose(people: People) -> None:
    model = factories.make_model()
    outsider = factories.make_user("otto", "data_scientist")
    document = json.dumps(factories.contract_body())
    for user in (outsider, people.vic):
        with pytest.raises(NotAllowed):
            contracts.propose_contract(model=model, document=document, actor=actor(user))


def test_the_proposal_for_a_version_can_be_proposed(people: People) -> None:
    version = factories.make_version()
    body = contracts.propose_document(version)
    contract = contracts.propose_contract(
        model=version.model, document=json.dumps(body), actor=actor(people.dana)
    )
    assert contract.document["interface"]["inputs"][0]["max"] == 10
    for user in people.seats.values():
        sign(contract, user)
    changed = contracts.propose_document(version)
    assert changed == body


def _spoilt(envelope: dict[str, object]) -> dict[str, object]:
    parsed = dsse.Envelope.parse(envelope)
    signature = parsed.signatures[0]
    flipped = bytes([*signature.sig[:-1], signature.sig[-1] ^ 1])
    spoilt = dsse.EnvelopeSignature(signature.keyid, flipped)
    return dsse.Envelope(parsed.payload, parsed.payload_type, (spoilt,)).to_dict()
