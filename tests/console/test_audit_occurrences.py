"""What is refused and what leaves is on record: the first at once, a loop of it summed up."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
import time_machine
from django.db import connections
from django.test import Client
from django.utils import timezone
from rest_framework.test import APIClient

from console.models import AuditEntry, AuditOccurrence, User
from console.rules.audit_occurrences import DENIALS, denial_action, subject_of
from console.services.audit_checks import verify_chain
from console.services.audit_occurrences import enter_summed_up, note
from console.services.tokens import create_token, revoke_token
from tests.console.audit_writing import NOON
from tests.factories import PASSWORD, People, actor, people

pytestmark = pytest.mark.django_db


def denials() -> list[AuditEntry]:
    return list(AuditEntry.objects.filter(action__in=DENIALS).order_by("sequence"))


def test_a_refusal_at_a_page_and_one_at_the_api_are_on_record(
    persons: People, signed_in: Callable[[User], Client], api: Callable[[User], APIClient]
) -> None:
    refused = signed_in(persons.vic).post(
        "/settings/new-person/", {"username": "sneaky"}, headers={"X-Request-ID": "page-1"}
    )
    assert refused.status_code == 403
    answer = api(persons.vic).post("/api/v1/audit/checkpoints/", headers={"X-Request-ID": "api-1"})
    assert answer.status_code == 403
    page, call = denials()
    assert (page.actor_username, page.action, page.subject) == (
        "vic", "access.denied", "/settings/new-person/",
    )  # fmt: skip
    assert page.after == {
        "method": "POST",
        "path": "/settings/new-person/",
        "code": "not_allowed",
    }
    assert (page.source, page.request_id) == ("page 127.0.0.1", "page-1")
    assert "may not manage people" in page.reason
    assert (call.subject, call.source, call.request_id) == (
        "/api/v1/audit/checkpoints/", "api 127.0.0.1", "api-1",
    )  # fmt: skip
    shown = signed_in(persons.ada).get("/audit/?outcome=denied").content.decode()
    assert "access.denied" in shown
    listed = api(persons.ada).get("/api/v1/audit/?request_id=api-1").json()["results"]
    assert [entry["sequence"] for entry in listed] == [call.sequence]


def test_bad_tokens_forged_forms_and_wrong_passwords_are_on_record(
    with_passwords: People,
) -> None:
    token, clear = create_token(name="ci", scopes=["read"], actor=actor(with_passwords.ada))
    revoke_token(token_id=token.pk, actor=actor(with_passwords.ada))
    for given in (clear, "made-up"):
        answer = APIClient().get("/api/v1/me/", headers={"Authorization": f"Token {given}"})
        assert answer.status_code == 401
    assert APIClient().get("/api/v1/me/").status_code == 401, "nobody claimed to be anybody"
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(with_passwords.sam)
    assert browser.post("/audit/verify/").status_code == 403
    assert Client().post("/sign-in/", {"username": "sam", "password": PASSWORD + "x"}).status_code
    found = [(entry.actor_username, entry.action, entry.subject) for entry in denials()]
    assert found == [
        ("system", "token.refused", f"token {token.prefix}"),
        ("sam", "form.refused", "/audit/verify/"),
        ("sam", "sign_in.failed", "user sam"),
    ]
    # The made-up token came from the same address in the same minute: counted, not yet entered.
    row = AuditOccurrence.objects.get(action="token.refused")
    assert (row.count, row.subject) == (1, "token unknown")
    assert clear not in str(list(AuditEntry.objects.values()))


def test_a_loop_of_refusals_is_one_entry_a_minute_with_its_count(
    persons: People, signed_in: Callable[[User], Client]
) -> None:
    client = signed_in(persons.vic)
    with time_machine.travel(NOON, tick=False) as clock:
        for _ in range(50):
            assert client.post("/settings/new-person/").status_code == 403
        assert len(denials()) == 1
        assert enter_summed_up(now=timezone.now()) == 0, "the minute is not over"
        clock.shift(timedelta(seconds=61))
        assert enter_summed_up(now=timezone.now()) == 1
        summed = denials()[-1]
        assert (summed.actor_username, summed.after["times"]) == ("vic", 49)
        assert summed.after["first_at"] == NOON.isoformat()
        clock.shift(timedelta(seconds=61))
        assert client.post("/settings/new-person/").status_code == 403
        assert (len(denials()), denials()[-1].after["times"]) == (3, 1)
        clock.shift(timedelta(seconds=61))
        assert enter_summed_up(now=timezone.now()) == 0
        assert not AuditOccurrence.objects.exists(), "what does not go on is forgotten"
        assert client.post("/settings/new-person/").status_code == 403
        assert len(denials()) == 4, "and the next one is the first again"
    assert verify_chain().ok


def test_each_person_and_each_act_is_told_apart(
    persons: People, signed_in: Callable[[User], Client]
) -> None:
    for person in (persons.vic, persons.dana):
        client = signed_in(person)
        for path in ("/settings/new-person/", "/audit/checkpoint/"):
            client.post(path)
            client.post(path)
    assert len(denials()) == 4


def test_refusals_at_once_lose_none_and_enter_one(transactional_db: None) -> None:
    person = people().vic
    start = threading.Barrier(6)

    def refuse() -> None:
        start.wait()
        try:
            for _ in range(5):
                note(
                    actor=actor(person),
                    action="access.denied",
                    subject="x",
                    details={},
                    together="x",
                    now=NOON,
                )
        finally:
            connections.close_all()

    threads = [threading.Thread(target=refuse) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(denials()) == 1
    assert AuditOccurrence.objects.get().count == 29


def test_a_flood_from_everywhere_shares_one_row(
    persons: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("console.services.audit_occurrences.MOST_AT_ONCE", 3)
    for number in range(10):
        note(
            actor=actor(persons.vic),
            action="token.refused",
            subject="x",
            details={},
            together=f"address {number}",
            now=NOON,
        )
    assert len(denials()) == 4
    assert AuditOccurrence.objects.count() == 4


@pytest.mark.parametrize(
    ("status", "code", "has_token", "action"),
    [
        (403, "not_allowed", False, "access.denied"),
        (403, "not_your_seat", False, "access.denied"),
        (403, "scope_missing", True, "access.denied"),
        (403, "csrf_failed", False, "form.refused"),
        (422, "signature_invalid", False, "signature.refused"),
        (422, "payload_mismatch", False, "signature.refused"),
        (409, "key_revoked", False, "signature.refused"),
        (422, "passkey_other_challenge", False, "signature.refused"),
        (422, "passkey_other_origin", False, "signature.refused"),
        (422, "two_signatures_expected", False, "signature.refused"),
        (401, "bad_token", True, "token.refused"),
        (401, "not_authenticated", False, ""),
        (403, "wrong_credentials", False, ""),
        (422, "invalid_input", False, ""),
        (404, "not_found", False, ""),
        (200, "", False, ""),
    ],
)
def test_what_counts_as_a_denial(status: int, code: str, has_token: bool, action: str) -> None:
    assert denial_action(status=status, code=code, has_token=has_token) == action


@pytest.mark.parametrize(
    ("path", "subject"),
    [
        ("/models/fraud_detector/contracts/1/", "model fraud_detector"),
        ("/api/v1/models/fraud_detector/", "model fraud_detector"),
        ("/api/v1/models/", "/api/v1/models/"),
        ("/api/v1/endpoints/production/fraud_detector/split/", "production/fraud_detector"),
        ("/panels/try/fraud_detector/1/", "model fraud_detector"),
        ("/panels/load-tests/fraud_detector/1/start/", "model fraud_detector"),
        ("/sla/production/fraud_detector/", "production/fraud_detector"),
        ("/settings/people/", "/settings/people/"),
    ],
)
def test_a_path_is_told_as_what_it_is_about(path: str, subject: str) -> None:
    assert subject_of(path) == subject


def test_sign_ins_and_sign_outs_are_on_record(with_passwords: People) -> None:
    client = Client()
    client.post("/sign-in/", {"username": "sam", "password": PASSWORD})
    client.post("/sign-out/")
    actions = AuditEntry.objects.filter(actor_username="sam").order_by("sequence")
    found: list[Any] = list(actions.values_list("action", flat=True))
    assert found[0] == "sign_in.succeeded"
    assert found[-1] == "session.sign_out"
