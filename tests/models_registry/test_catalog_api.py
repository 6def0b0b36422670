"""Models and environments over the API; who may do what; how many queries a list takes."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from console.services.tokens import create_token
from models_registry.models import ContractState, RegisteredModel, ReleaseState
from tests import factories
from tests.factories import People
from tests.models_registry.api import Caller

pytestmark = pytest.mark.django_db


@pytest.fixture
def people() -> People:
    return factories.people()


@pytest.fixture
def dana(people: People) -> Caller:
    return Caller(people.dana)


def test_register_show_change(dana: Caller) -> None:
    body = {
        "name": "fraud_detector",
        "description": "Scores payments",
        "tags": ["payments"],
        "seats": {"data_scientist": "dana", "sre": "sam"},
    }
    made = dana.post("/models/", body)
    assert made.status_code == 201, made.content
    assert made.json()["seats"] == {"data_scientist": "dana", "sre": "sam", "business_owner": None}
    version = factories.make_version(RegisteredModel.objects.get())
    changed = dana.patch(
        "/models/fraud_detector/",
        {
            "risk_class": "high",
            "seats": {"business_owner": "bea"},
            "aliases": {"champion": version.number},
        },
    )
    assert changed.status_code == 200, changed.content
    shown = dana.get("/models/fraud_detector/").json()
    assert shown == changed.json()
    assert shown["aliases"] == {"champion": 1}
    assert shown["latest_version"]["state"] == "validated"
    assert (shown["latest_validated"], shown["contract_in_force"]) == (1, None)
    assert shown["seats"]["business_owner"] == "bea"


def test_a_change_that_fails_in_part_changes_nothing(dana: Caller) -> None:
    factories.make_model()
    answer = dana.patch(
        "/models/fraud_detector/", {"risk_class": "low", "aliases": {"champion": 9}}
    )
    assert answer.status_code == 404
    assert RegisteredModel.objects.get().risk_class == "medium"


@pytest.mark.parametrize(
    ("body", "status", "code", "pointer"),
    [
        ({"name": "Fraud Detector"}, 422, "bad_name", "/name"),
        ({}, 422, "invalid_input", "/name"),
        ({"name": "fraud_x", "risk_class": "none"}, 422, "invalid_input", "/risk_class"),
        ({"name": "fraud_x", "owner": "nobody"}, 422, "unknown_person", "/owner"),
        ({"name": "fraud_x", "team": "none"}, 422, "unknown_team", "/team"),
        ({"name": "fraud_x", "seats": {"sre": "dana"}}, 422, "role_missing", "/seats/sre"),
        ({"name": "fraud_detector"}, 409, "name_taken", "/name"),
    ],
)
def test_refusals_are_problems_with_pointers(
    dana: Caller, body: dict[str, Any], status: int, code: str, pointer: str
) -> None:
    factories.make_model()
    answer = dana.post("/models/", body)
    problem = answer.json()
    assert (answer.status_code, problem["code"]) == (status, code)
    assert answer["Content-Type"] == "application/problem+json"
    assert [error["pointer"] for error in problem["errors"]] == [pointer]
    assert RegisteredModel.objects.count() == 1


def test_an_idempotency_key_makes_one_model(dana: Caller) -> None:
    body = {"name": "fraud_detector"}
    first = dana.post("/models/", body, idempotency_key="k1")
    again = dana.post("/models/", body, idempotency_key="k1")
    assert (again.status_code, again.json()) == (201, first.json())
    assert again["Idempotent-Replayed"] == "true"
    other = dana.post("/models/", {"name": "other_model"}, idempotency_key="k1")
    assert (other.status_code, other.json()["code"]) == (409, "idempotency_key_reused")


def test_lists_are_searched_filtered_and_cursor_paginated(dana: Caller) -> None:
    for number in range(5):
        factories.make_model(f"model_{number}")
    factories.make_version(RegisteredModel.objects.get(name="model_3"))
    page = dana.get("/models/?limit=2").json()
    assert [m["name"] for m in page["results"]] == ["model_4", "model_3"]
    following = dana.get(page["next"].split("/api/v1")[1]).json()
    assert [m["name"] for m in following["results"]] == ["model_2", "model_1"]
    cases = {
        "q=DEL_3": ["model_3"],
        "q=payments": [f"model_{n}" for n in (4, 3, 2, 1, 0)],
        "state=validated": ["model_3"],
        "owner=sam": [],
        "tag=payments&q=del_0": ["model_0"],
        "mine=1&limit=1": ["model_4"],
    }
    for query, names in cases.items():
        found = dana.get(f"/models/?{query}").json()["results"]
        assert [model["name"] for model in found] == names, query


def test_what_is_not_there_is_404(dana: Caller) -> None:
    factories.make_model()
    for path in (
        "/models/none/",
        "/models/fraud_detector/versions/1/",
        "/models/none/versions/",
        "/models/fraud_detector/contracts/1/",
        "/models/fraud_detector/contracts/1/payload/",
        "/models/fraud_detector/releases/11111111-1111-1111-1111-111111111111/",
        "/environments/none/",
    ):
        answer = dana.get(path)
        assert (answer.status_code, answer.json()["code"].split("_")[-1]) in (
            (404, "found"),
            (404, "environment"),
        ), path


def test_environments(people: People, dana: Caller) -> None:
    ada = Caller(people.ada)
    body = {"name": "production", "requires_contract": True, "approver_roles": ["sre"]}
    assert ada.post("/environments/", body).status_code == 201
    assert dana.post("/environments/", body).status_code == 403
    changed = ada.patch("/environments/production/", {"author_may_approve": True}).json()
    assert (changed["author_may_approve"], changed["approver_roles"]) == (True, ["sre"])
    assert [e["name"] for e in dana.get("/environments/").json()["results"]] == ["production"]


# Who may do what. Each act is refused with 403 before anything else is looked at, or it is not.
MAKERS = {"dana", "ada"}
MODEL_PEOPLE = {"dana", "sam", "bea", "ada"}
ALL = MODEL_PEOPLE | {"vic"}
MODEL = "/models/fraud_detector/"
ACTS: dict[str, tuple[str, str, set[str]]] = {
    "register": ("POST", "/models/", MAKERS),
    "change": ("PATCH", MODEL, MAKERS),
    "upload": ("POST", "/uploads/", MAKERS),
    "version": ("POST", f"{MODEL}versions/", MAKERS),
    "archive": ("POST", f"{MODEL}versions/1/archive/", MAKERS),
    "propose": ("POST", f"{MODEL}contracts/", MODEL_PEOPLE),
    "withdraw": ("POST", f"{MODEL}contracts/1/withdraw/", MODEL_PEOPLE),
    "sign": ("POST", f"{MODEL}contracts/1/signatures/", MODEL_PEOPLE),
    "release": ("POST", f"{MODEL}releases/", {"dana", "sam", "ada"}),
    "approve": ("POST", f"{MODEL}releases/ID/approvals/", MODEL_PEOPLE),
    "withdraw release": ("POST", f"{MODEL}releases/ID/withdraw/", {"dana", "sam", "ada"}),
    "environment": ("POST", "/environments/", {"ada"}),
    "change environment": ("PATCH", "/environments/production/", {"ada"}),
    "read": ("GET", MODEL, ALL),
    "download": ("GET", f"{MODEL}versions/1/artifacts/onnx", ALL),
}


def test_who_may_do_what(people: People) -> None:
    release = factories.make_release(state=ReleaseState.PROPOSED)
    callers = {name: Caller(getattr(people, name)) for name in sorted(ALL)}
    for act, (method, path, may) in ACTS.items():
        where = path.replace("ID", str(release.pk))
        refused = {
            name
            for name, caller in callers.items()
            if _is_refused(caller.send(method, where, b"{}", "application/json"))
        }
        assert refused == ALL - may, act
        anonymous = Caller().send(method, where, b"{}", "application/json")
        assert anonymous.status_code in (401, 403), act


def _is_refused(answer: Any) -> bool:
    return answer.status_code == 403 and answer.json()["code"] == "not_allowed"


@pytest.mark.parametrize(
    ("scopes", "path", "status"),
    [
        (["read"], "/models/", 403),
        (["write"], "/models/", 422),
        (["write"], "/models/fraud_detector/contracts/1/signatures/", 403),
        (["sign"], "/models/fraud_detector/contracts/1/signatures/", 422),
    ],
)
def test_a_token_does_what_its_scopes_say(
    people: People, scopes: list[str], path: str, status: int
) -> None:
    factories.make_contract(factories.make_model(), state=ContractState.PROPOSED)
    _, clear = create_token(name="ci", scopes=scopes, actor=factories.actor(people.dana))
    answer = Caller(token=clear).post(path, {})
    assert answer.status_code == status
    if status == 403:
        assert answer.json()["code"] == "scope_missing"


def _world(number: int) -> None:
    """`number` models, each with a version, a contract in force and a release."""
    for index in range(number):
        model = factories.make_model(f"model_{RegisteredModel.objects.count():03d}")
        for _ in range(2):
            version = factories.make_version(model)
        if index == 0:
            factories.make_release(version)


@pytest.mark.parametrize(
    ("path", "limit"),
    [
        ("/models/", 8),
        ("/models/model_000/versions/", 7),
        ("/models/model_000/contracts/", 8),
        ("/models/model_000/releases/", 9),
    ],
)
def test_a_list_takes_the_same_queries_however_long_it_is(
    dana: Caller, path: str, limit: int
) -> None:
    _world(2)
    first = _queries(dana, path)
    model = RegisteredModel.objects.get(name="model_000")
    _world(3)
    for _ in range(3):
        contract = factories.make_contract(model)
        factories.make_release(factories.make_version(model))
    assert contract.revision == 4
    assert _queries(dana, path) == first
    assert first <= limit


def _queries(caller: Caller, path: str) -> int:
    with CaptureQueriesContext(
        connection,
    ) as captured:
        assert caller.get(path).status_code == 200
    return len(captured)
