"""One form of error for every caller, and one effect for every key."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connections
from django.test import Client, RequestFactory
from django.utils import timezone
from rest_framework import exceptions, serializers
from rest_framework.test import APIClient

from console.api.problems import problem_response
from console.errors import (
    Conflict,
    CovenantError,
    FieldError,
    Invalid,
    NotAcknowledged,
    NotAllowed,
    NotFound,
    Stale,
    TooMany,
    Unavailable,
)
from console.models import IdempotentRequest, SigningKey, User
from console.rules.signing_keys import create_private_key, public_key_of
from console.services.idempotent_requests import forget_old_requests
from console.views.errors import server_error
from tests.factories import PASSWORD, People, people

MEMBERS = {"type", "title", "status", "detail", "code", "hint", "errors"}


@pytest.mark.parametrize(
    ("error", "status", "code", "wait"),
    [
        (Invalid("No.", code="bad", errors=(FieldError("/a/0", "x"),)), 422, "bad", None),
        (NotAllowed("No."), 403, "not_allowed", None),
        (NotFound("No."), 404, "not_found", None),
        (Conflict("No."), 409, "conflict", None),
        (Stale("No."), 412, "stale_revision", None),
        (TooMany("No.", retry_after=60), 429, "too_many_attempts", "60"),
        (Unavailable("No."), 503, "unavailable", "2"),
        (NotAcknowledged("No."), 504, "not_acknowledged", "2"),
        (exceptions.NotAuthenticated(), 401, "not_authenticated", None),
        (exceptions.MethodNotAllowed("PUT"), 405, "method_not_allowed", None),
        (exceptions.ParseError("Broken."), 400, "parse_error", None),
    ],
)
def test_each_error_has_its_status_its_code_and_its_time(
    error: Exception, status: int, code: str, wait: str | None
) -> None:
    answer = problem_response(error, {})
    assert answer is not None
    assert (answer.status_code, answer.data["code"]) == (status, code)
    assert set(answer.data) == MEMBERS
    assert answer.data["status"] == status
    assert answer.get("Retry-After") == wait
    assert answer.content_type == "application/problem+json"


def test_faults_in_the_input_are_pointed_at() -> None:
    class Inner(serializers.Serializer[Any]):
        share = serializers.FloatField(max_value=1)

    class Outer(serializers.Serializer[Any]):
        rows = Inner(many=True)

    body = Outer(data={"rows": [{"share": 0.5}, {"share": 7}]})
    with pytest.raises(exceptions.ValidationError) as refused:
        body.is_valid(raise_exception=True)
    answer = problem_response(refused.value, {})
    assert answer is not None
    assert answer.status_code == 422
    assert [fault["pointer"] for fault in answer.data["errors"]] == ["/rows/1/share"]


@pytest.mark.django_db
def test_what_no_view_answers_is_a_problem_for_programs_and_a_page_for_people(
    client: Client, persons: People
) -> None:
    client.force_login(persons.vic)
    for path in ("/api/v1/nothing/", "/api/v2/"):
        answer = client.get(path)
        assert answer.status_code == 404
        assert answer["Content-Type"] == "application/problem+json"
        assert set(answer.json()) == MEMBERS
    page = client.get("/nothing/")
    assert (page.status_code, page["Content-Type"]) == (404, "text/html; charset=utf-8")


@pytest.mark.django_db
def test_an_unexpected_error_gives_a_reference_and_no_detail(rf: RequestFactory) -> None:
    for path, kind in (("/api/v1/x/", "problem+json"), ("/x/", "html")):
        request = rf.get(path)
        request.request_id = "ref-1"  # type: ignore[attr-defined]
        try:
            raise ZeroDivisionError("secret")
        except ZeroDivisionError:
            answer = server_error(request)
        assert answer.status_code == 500
        assert kind in answer["Content-Type"]
        assert "ref-1" in answer.content.decode()
        assert "secret" not in answer.content.decode()


@pytest.mark.django_db
def test_the_request_id_of_a_caller_is_kept_and_a_strange_one_is_not(client: Client) -> None:
    assert client.get("/healthz", headers={"X-Request-ID": "abc-1"})["X-Request-ID"] == "abc-1"
    for strange in ("a b", "<x>", "x" * 65):
        given = client.get("/healthz", headers={"X-Request-ID": strange})["X-Request-ID"]
        assert given != strange
        assert len(given) == 32


# ---- Idempotency-Key


def key_body(name: str = "laptop") -> dict[str, Any]:
    pem = public_key_of(create_private_key()).pem
    return {"name": name, "public_key": pem, "password": PASSWORD}


def post(client: APIClient, body: dict[str, Any], key: str = "k1") -> Any:
    return client.post("/api/v1/keys/", body, format="json", headers={"Idempotency-Key": key})


@pytest.mark.django_db
def test_the_second_request_with_a_key_gets_the_first_answer_and_has_no_effect(
    with_passwords: People, api: Callable[[User], APIClient]
) -> None:
    client, body = api(with_passwords.dana), key_body()
    first, second = post(client, body), post(client, body)
    assert (first.status_code, second.status_code) == (201, 201)
    assert json.loads(second.content) == json.loads(first.content)
    assert second["Idempotent-Replayed"] == "true"
    assert SigningKey.objects.count() == 1
    reused = post(client, key_body("other"))
    assert (reused.status_code, reused.json()["code"]) == (409, "idempotency_key_reused")
    assert post(api(with_passwords.sam), key_body()).status_code == 201, "a key is a person's own"


@pytest.mark.django_db
def test_a_refused_request_frees_its_key(
    with_passwords: People, api: Callable[[User], APIClient]
) -> None:
    client, body = api(with_passwords.dana), key_body()
    assert post(client, {**body, "password": "wrong"}).status_code == 422
    assert post(client, body).status_code == 201
    assert post(client, body, key="x" * 201).json()["code"] == "bad_key"


@pytest.mark.django_db
def test_a_claim_whose_process_died_is_taken_over_after_a_while(
    with_passwords: People, api: Callable[[User], APIClient]
) -> None:
    client, body = api(with_passwords.dana), key_body()
    assert post(client, body).status_code == 201
    SigningKey.objects.all().delete()
    IdempotentRequest.objects.update(status=0)
    under_way = post(client, body)
    assert (under_way.status_code, under_way.json()["code"]) == (409, "request_under_way")
    IdempotentRequest.objects.update(created_at=timezone.now() - timedelta(minutes=3))
    assert post(client, body).status_code == 201
    assert SigningKey.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_a_double_click_has_one_effect() -> None:
    dana = people(password=PASSWORD).dana
    body = key_body()
    start = threading.Barrier(4)
    statuses: list[int] = []

    def click() -> None:
        client = APIClient()
        client.force_login(dana)
        start.wait()
        try:
            statuses.append(post(client, body).status_code)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=click) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(statuses) <= {201, 409}
    assert 201 in statuses
    assert SigningKey.objects.count() == 1


@pytest.mark.django_db
def test_old_answers_are_forgotten(persons: People) -> None:
    for hours in (1, 25):
        row = IdempotentRequest.objects.create(
            user=persons.dana, key=str(hours), fingerprint="x", status=200
        )
        IdempotentRequest.objects.filter(pk=row.pk).update(
            created_at=timezone.now() - timedelta(hours=hours)
        )
    assert forget_old_requests() == 1
    assert IdempotentRequest.objects.get().key == "1"


def test_every_error_says_what_to_do_in_one_family() -> None:
    for kind in (Invalid, NotAllowed, NotFound, Conflict, Stale, Unavailable):
        error = kind("It did not work.", hint="Do this.")
        assert isinstance(error, CovenantError)
        assert (error.message, error.hint, str(error)) == (
            "It did not work.",
            "Do this.",
            "It did not work.",
        )


UNREADABLE = {
    "a name given twice": (b'{"name": "a", "name": "b"}', 400, "parse_error"),
    "half a surrogate pair": (b'{"name": "\\ud800", "scopes": ["read"]}', 400, "parse_error"),
    "half a pair in a key": (b'{"\\ud800": 1}', 400, "parse_error"),
    "too deep": (b"[" * 100_000, 400, "parse_error"),
    "a number too long": (b'{"days": ' + b"9" * 5000 + b"}", 400, "parse_error"),
    "no number": (b'{"days": NaN}', 400, "parse_error"),
    "no text": (b"\xff\xfe", 400, "parse_error"),
    "too large": (b'{"name": "' + b"x" * (4 * 1024**2) + b'"}', 413, "body_too_large"),
}


@pytest.mark.django_db
@pytest.mark.parametrize(("body", "status", "code"), UNREADABLE.values(), ids=UNREADABLE)
def test_a_body_that_cannot_be_read_is_refused(
    persons: People, body: bytes, status: int, code: str
) -> None:
    client = APIClient()
    client.force_authenticate(persons.vic)
    answer = client.post("/api/v1/tokens/", data=body, content_type="application/json")
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert answer["Content-Type"] == "application/problem+json"


@pytest.mark.django_db
def test_a_pair_of_surrogates_is_a_character(persons: People) -> None:
    client = APIClient()
    client.force_authenticate(persons.vic)
    body = b'{"name": "\\ud83d\\ude80", "scopes": ["read"]}'
    answer = client.post("/api/v1/tokens/", data=body, content_type="application/json")
    assert (answer.status_code, answer.json()["name"]) == (201, "🚀")


@pytest.mark.django_db
@pytest.mark.parametrize(
    "path", ["/api/v1/models/?q=%00", "/api/v1/models/%00/", "/api/v1/jobs/?state=a%00b"]
)
def test_what_no_column_can_hold_is_the_callers_fault(
    client: Client, persons: People, path: str
) -> None:
    client.force_login(persons.vic)
    answer = client.get(path)
    assert (answer.status_code, answer.json()["code"]) == (422, "impossible_value")
    page = client.get("/models/%00/")
    assert (page.status_code, page["Content-Type"]) == (422, "text/html; charset=utf-8")


@pytest.mark.parametrize("cursor", ["cD0x", "cD14", "bm90YmFzZTY0", "%00"])
def test_a_made_up_cursor_is_no_fault_of_ours(
    persons: People, api: Callable[[User], APIClient], cursor: str
) -> None:
    answer = api(persons.ada).get(f"/api/v1/jobs/?cursor={cursor}")
    assert answer.status_code in (200, 404)
    assert "results" in answer.json() or answer.json()["code"] == "not_found"
