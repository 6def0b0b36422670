"""What somebody might send, or do at the same time, when contracts are proposed and signed."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import time_machine
from django.db import connections
from django.utils import timezone

from console.errors import CovenantError
from console.models import AuditEntry, SigningKey, User
from models_registry.models import ContractState, Seat, SeatHolder, ServiceContract
from models_registry.rules.contract_document import MAX_BYTES, load
from models_registry.services import catalog, contracts
from tests import factories
from tests.factories import People, actor
from tests.models_registry import signing
from tests.models_registry.api import Caller

BASE = "/models/fraud_detector/contracts"


@pytest.fixture
def people(db: None) -> People:
    return factories.people()


@pytest.fixture
def proposal(people: People) -> ServiceContract:
    contract = factories.make_contract(factories.make_model(), state=ContractState.PROPOSED)
    for user in people.seats.values():
        signing.enrol(user)
    return contract


def refusal(act: Callable[[], object]) -> str:
    """The code of the refusal; every one says what to do next."""
    with pytest.raises(CovenantError) as refused:
        act()
    assert refused.value.hint
    return refused.value.code


def sign(contract: ServiceContract, user: User, payload: bytes | None = None) -> Any:
    envelope = signing.contract_envelope(user, contract.payload if payload is None else payload)
    return contracts.sign_contract(contract=contract, envelope=envelope, actor=actor(user))


@pytest.fixture
def committed(transactional_db: None) -> Iterator[ServiceContract]:
    """A proposal that other connections see."""
    people = factories.people()
    contract = factories.make_contract(factories.make_model(), state=ContractState.PROPOSED)
    for user in people.seats.values():
        signing.enrol(user)
    yield contract
    connections.close_all()


def at_once(acts: list[Callable[[], object]]) -> list[str]:
    """Each act in a thread and a connection of its own, all let go together: "" or its refusal."""
    gate = threading.Barrier(len(acts))
    ended = [""] * len(acts)

    def run(number: int) -> None:
        try:
            gate.wait(timeout=10)
            acts[number]()
        except CovenantError as error:
            ended[number] = error.code
        finally:
            connections.close_all()

    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(acts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
        assert not thread.is_alive()
    return ended


def test_three_people_sign_at_once_and_it_comes_into_force_once(committed: ServiceContract) -> None:
    older = factories.make_contract(committed.model, load={"qps": 1})
    newer = factories.make_contract(committed.model, state=ContractState.PROPOSED, load={"qps": 2})
    people = factories.people()
    acts = [lambda user=user: sign(newer, user) for user in people.seats.values()]
    assert at_once(acts * 2) == [""] * 6  # each sends it twice: the very same envelope is one
    newer.refresh_from_db()
    older.refresh_from_db()
    assert (newer.state, older.state) == (ContractState.IN_FORCE, ContractState.SUPERSEDED)
    assert newer.signatures.count() == 3
    assert contracts.verify_in_force(newer) == ()
    entries = AuditEntry.objects.filter(subject="fraud_detector contract 3")
    actions = sorted(entries.values_list("action", flat=True))
    assert actions == ["contract.in_force", *["contract.sign"] * 3]


def test_a_seat_changes_hands_while_its_holder_signs(committed: ServiceContract) -> None:
    people, eve = factories.people(), factories.make_user("eve", "sre")
    outcomes = at_once(
        [
            lambda: sign(committed, people.sam),
            lambda: catalog.assign_seat(
                model=committed.model, seat=Seat.SRE, user=eve, actor=actor(people.dana)
            ),
        ]
    )
    # Whichever came first: sam signed as the holder, or was refused as one no more.
    assert outcomes in (["", ""], ["no_seat", ""])
    assert committed.signatures.count() == (1 if outcomes[0] == "" else 0)


def test_a_signer_who_left_between_reading_and_sending_is_refused(
    people: People, proposal: ServiceContract
) -> None:
    stale = actor(User.objects.get(username="sam"))
    envelope = signing.contract_envelope(people.sam, proposal.payload)

    def send() -> object:
        return contracts.sign_contract(contract=proposal, envelope=envelope, actor=stale)

    seat = SeatHolder.objects.get(model=proposal.model, seat=Seat.SRE)
    seat.delete()
    assert refusal(send) == "no_seat"
    SeatHolder.objects.create(model=proposal.model, seat=Seat.SRE, user=people.sam)
    User.objects.filter(pk=people.sam.pk).update(roles=["viewer"])
    assert refusal(send) == "role_missing"
    User.objects.filter(pk=people.sam.pk).update(roles=["sre"], is_active=False)
    assert refusal(send) == "person_deactivated"
    assert not proposal.signatures.exists()
    User.objects.filter(pk=people.sam.pk).update(is_active=True)
    send()
    assert proposal.signatures.get().seat == Seat.SRE


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"revoked_at": datetime(2026, 1, 1, tzinfo=UTC)}, "key_revoked"),
        ({"expires_at": datetime(2026, 1, 1, tzinfo=UTC)}, "key_expired"),
    ],
)
def test_a_key_that_ended_signs_no_contract(
    people: People, proposal: ServiceContract, fields: dict[str, datetime], code: str
) -> None:
    SigningKey.objects.filter(user=people.dana).update(**fields)
    assert refusal(lambda: sign(proposal, people.dana)) == code
    assert not proposal.signatures.exists()


def test_when_it_was_signed_is_the_servers_time_and_an_envelope_names_none(
    people: People, proposal: ServiceContract
) -> None:
    noon = datetime(2026, 3, 1, 12, tzinfo=UTC)
    envelope = signing.contract_envelope(people.dana, proposal.payload)
    skewed = {**envelope, "signedAt": "2031-01-01T00:00:00Z"}
    assert (
        refusal(
            lambda: contracts.sign_contract(
                contract=proposal, envelope=skewed, actor=actor(people.dana)
            )
        )
        == "invalid_envelope"
    )
    with time_machine.travel(noon, tick=False):
        signature = contracts.sign_contract(
            contract=proposal, envelope=envelope, actor=actor(people.dana)
        )
    assert signature.signed_at == noon


def test_a_signature_over_another_revision_or_model_is_refused(
    people: People, proposal: ServiceContract
) -> None:
    other = factories.make_contract(
        factories.make_model("other_model"), state=ContractState.PROPOSED
    )
    revised = factories.make_contract(proposal.model, state=ContractState.PROPOSED, load={"qps": 1})
    for contract, payload in ((proposal, other.payload), (revised, proposal.payload)):
        assert refusal(lambda c=contract, p=payload: sign(c, people.dana, p)) == "payload_mismatch"


def test_what_was_signed_once_is_not_proposed_again_to_the_byte(
    people: People, proposal: ServiceContract
) -> None:
    old = signing.contract_envelope(people.dana, proposal.payload)
    contracts.sign_contract(contract=proposal, envelope=old, actor=actor(people.dana))
    contracts.withdraw_contract(contract=proposal, actor=actor(people.sam))

    def again(**changes: Any) -> ServiceContract:
        body = factories.contract_body(**changes)
        return contracts.propose_contract(
            model=proposal.model, document=json.dumps(body), actor=actor(people.sam)
        )

    assert refusal(again) == "contract_repeats"
    assert refusal(lambda: again(revision=7)) == "other_revision"
    second = again(revision=2)
    assert (
        refusal(
            lambda: contracts.sign_contract(contract=second, envelope=old, actor=actor(people.dana))
        )
        == "payload_mismatch"
    )


BODY = json.dumps(factories.contract_body())
HOSTILE = {
    "names given twice": BODY.replace('"model":', '"model": "x", "model":', 1),
    "NaN": BODY.replace('"min": -10', '"min": NaN'),
    "infinity": BODY.replace('"max": 10', '"max": Infinity'),
    "too large for a double": BODY.replace('"min": -10', '"min": -1e400'),
    "more digits than readers keep": BODY.replace('"min": -10', '"min": -' + "9" * 400),
    "half a surrogate pair": BODY.replace("model_down", "\\ud800"),
    "nested deep": BODY.replace('"model_down"', "[" * 5000 + "]" * 5000),
}


@pytest.mark.parametrize("document", HOSTILE.values(), ids=list(HOSTILE))
def test_json_that_readers_disagree_about_is_not_proposed(people: People, document: str) -> None:
    model = factories.make_model()
    code = refusal(
        lambda: contracts.propose_contract(model=model, document=document, actor=actor(people.dana))
    )
    assert code == "invalid_json"
    assert not ServiceContract.objects.exists()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("re\u0301sume\u0301", "normal form C"),
        ("\u212bngstr\u00f6m", "normal form C"),
        ("approved\u202e deppots", "U+202E"),
        ("\u2066hidden\u2069", "U+2066"),
        ("zero\x00", "U+0000"),
    ],
)
def test_text_that_reads_otherwise_than_it_is_signed_is_refused(text: str, words: str) -> None:
    for response in ({"risk_score": 0.3, "reason": text}, {"risk_score": 0.3, text: 1}):
        with pytest.raises(CovenantError) as refused:
            load(json.dumps(factories.contract_body(fallback={"response": response})))
        assert refused.value.code == "invalid_contract"
        assert words in refused.value.errors[0].detail
        assert refused.value.errors[0].pointer.startswith("/fallback/response/")
    plain = {"risk_score": 0.3, "reason": "résumé"}
    assert load(
        json.dumps(factories.contract_body(fallback={"response": plain}), ensure_ascii=False)
    )


def test_a_contract_of_a_megabyte_is_refused_before_it_is_read(people: People) -> None:
    factories.make_model()
    dana = Caller(people.dana)
    for size, code in ((1024**2 + 1, "document_too_large"), (1000**2, "invalid_contract")):
        text = BODY[:-1] + " " * (size - len(BODY)) + "}"
        answer = dana.send("POST", f"{BASE}/", text.encode(), "application/json")
        assert (answer.status_code, answer.json()["code"]) == (422, code)
    assert MAX_BYTES < 1000**2
    assert not ServiceContract.objects.exists()


def test_an_envelope_that_is_large_or_says_something_twice_is_refused(
    people: People, proposal: ServiceContract
) -> None:
    dana = Caller(people.dana)
    own = signing.contract_envelope(people.dana, proposal.payload)
    large = {**own, "payload": base64.b64encode(b"x" * 700_000).decode()}
    answer = dana.post(f"{BASE}/1/signatures/", {"envelope": large})
    assert (answer.status_code, answer.json()["code"]) == (422, "payload_mismatch")
    twice = json.dumps({"envelope": own}).replace('"payload":', '"payload": "e30=", "payload":', 1)
    answer = dana.send("POST", f"{BASE}/1/signatures/", twice.encode(), "application/json")
    assert answer.status_code == 400
    assert "given twice" in answer.json()["detail"]
    assert not proposal.signatures.exists()


def test_a_deactivated_person_has_no_door(people: People, proposal: ServiceContract) -> None:
    sam = Caller(people.sam)
    envelope = signing.contract_envelope(people.sam, proposal.payload)
    User.objects.filter(pk=people.sam.pk).update(is_active=False)
    answer = sam.post(f"{BASE}/1/signatures/", {"envelope": envelope})
    assert answer.status_code in (401, 403)
    assert not proposal.signatures.exists()


def test_a_key_revoked_while_its_owner_signs_is_refused_or_marked(
    committed: ServiceContract,
) -> None:
    people = factories.people()
    key = SigningKey.objects.get(user=people.dana)

    def revoke() -> None:
        SigningKey.objects.filter(pk=key.pk).update(revoked_at=timezone.now() - timedelta(0))

    outcomes = at_once([lambda: sign(committed, people.dana), revoke])
    assert outcomes in (["", ""], ["key_revoked", ""])
    assert committed.signatures.count() == (1 if outcomes[0] == "" else 0)
