from __future__ import annotations

import uuid
from typing import Any

import pytest
from rest_framework.test import APIClient

from console.models import User
from deployments.models import Deployment, Endpoint, Placement
from deployments.services.gateways import desired as gateways
from deployments.services.traffic.splits import offer_first_traffic
from models_registry.models import ReleaseState
from tests import factories
from tests.deployments.conftest import Fleet, applied, ready_version

pytestmark = pytest.mark.django_db

ENDPOINT = "/api/v1/endpoints/production/fraud_detector/"
SPLIT = f"{ENDPOINT}split/"


def client_of(user: User) -> APIClient:
    client = APIClient()
    client.force_login(user)
    return client


@pytest.fixture
def sam(fleet_rows: Fleet) -> APIClient:
    return client_of(factories.people().sam)


@pytest.fixture
def vic(fleet_rows: Fleet) -> APIClient:
    return client_of(factories.people().vic)


@pytest.fixture
def two(fleet_rows: Fleet) -> Fleet:
    for _ in range(2):
        ready_version(fleet_rows, factories.make_version())
    first = offer_first_traffic(Endpoint.objects.get(), 1, fleet_rows.sam)
    assert first is not None
    applied(first)
    return fleet_rows


def put(client: APIClient, weights: dict[str, Any], match: str | None, **more: Any) -> Any:
    headers = {} if match is None else {"If-Match": match}
    body = {"weights": weights, "reason": "Try it.", **more}
    return client.put(SPLIT, body, format="json", headers=headers)


def test_a_split_is_replaced_by_naming_its_revision(two: Fleet, sam: APIClient) -> None:
    shown = sam.get(SPLIT)
    assert shown["ETag"] == '"1"'
    assert shown.json()["weights"] == {"1": 100}
    changed = put(sam, {"1": 95, "2": 5}, shown["ETag"], mirror={"version": 2, "percent": 10})
    assert changed.status_code == 200
    assert changed["ETag"] == '"2"'
    body = changed.json()
    assert (body["revision"], body["weights"], body["state"]) == (2, {"1": 95, "2": 5}, "pending")
    assert body["mirror"] == {"version": 2, "percent": 10}
    assert body["acknowledgements"] == [
        {"gateway": "embedded", "outcome": "absent", "took_ms": None, "reason": ""}
    ]


@pytest.mark.parametrize(
    ("weights", "match", "status", "code"),
    [
        ({"1": 50, "2": 50}, None, 428, "precondition_required"),
        ({"1": 50, "2": 50}, '"7"', 412, "stale_revision"),
        ({"1": 50, "2": 50}, '"x"', 422, "invalid_precondition"),
        ({"1": 50, "2": 49}, '"1"', 422, "weights_not_100"),
        ({"1": 50, "3": 50}, '"1"', 409, "not_ready"),
        ({}, '"1"', 422, "invalid_input"),
    ],
)
def test_what_is_no_split_is_refused_and_explained(
    two: Fleet, sam: APIClient, weights: dict[str, Any], match: str | None, status: int, code: str
) -> None:
    refused = put(sam, weights, match)
    assert refused.status_code == status
    assert refused["Content-Type"] == "application/problem+json"
    assert refused.json()["code"] == code
    assert Endpoint.objects.get().last_revision == 1


def test_waiting_answers_with_who_has_not_acknowledged(
    two: Fleet, sam: APIClient, settings: Any
) -> None:
    gateways.record_connected("embedded")
    late = sam.put(
        f"{SPLIT}?wait=1",
        {"weights": {"1": 95, "2": 5}, "reason": "Try it."},
        format="json",
        headers={"If-Match": "*"},
    )
    assert late.status_code == 504
    body = late.json()
    assert (body["code"], body["revision"]) == ("not_acknowledged", 2)
    assert body["weights"] == {"1": 95, "2": 5}
    assert body["acknowledgements"][0]["outcome"] == "pending"


def test_an_endpoint_is_shown_with_its_versions_and_where_a_rollback_would_go(
    two: Fleet, vic: APIClient, sam: APIClient
) -> None:
    body = vic.get(ENDPOINT).json()
    assert [line["number"] for line in body["versions"]] == [1, 2]
    assert body["rollback_target"] is None
    assert "no earlier version" in body["rollback_why_not"]
    put(sam, {"1": 50, "2": 50}, '"1"')
    applied(Endpoint.objects.get().current)  # type: ignore[arg-type]
    body = vic.get(ENDPOINT).json()
    assert (body["rollback_target"], body["promise"]) == (1, "no_data")
    assert body["limit_ms"] == 80
    listed = vic.get("/api/v1/endpoints/?q=fraud").json()["results"]
    assert [(one["model"], one["split"]["revision"]) for one in listed] == [("fraud_detector", 2)]
    assert vic.get("/api/v1/endpoints/?environment=staging").json()["results"] == []
    assert vic.get("/api/v1/endpoints/production/nothing/").status_code == 404


def test_a_rollback_with_one_key_is_one(two: Fleet, sam: APIClient) -> None:
    put(sam, {"1": 50, "2": 50}, '"1"')
    applied(Endpoint.objects.get().current)  # type: ignore[arg-type]
    answers = [
        sam.post(
            f"{ENDPOINT}rollback/",
            {"reason": "Errors."},
            format="json",
            headers={"Idempotency-Key": "k1"},
        )
        for _ in range(2)
    ]
    assert [answer.json()["revision"] for answer in answers] == [3, 3]
    assert answers[0].json()["weights"] == {"1": 100}
    assert answers[0].json()["job"]
    none = sam.post(f"{ENDPOINT}rollback/", {"reason": "x", "to": 9}, format="json")
    assert (none.status_code, none.json()["code"]) == (409, "not_ready")


def test_a_mode_is_set_with_a_reason(two: Fleet, sam: APIClient) -> None:
    answer = sam.put(f"{ENDPOINT}mode/", {"mode": "open", "reason": "Bad."}, format="json")
    assert (answer.status_code, answer.json()["mode"]) == (200, "open")
    bad = sam.put(f"{ENDPOINT}mode/", {"mode": "off", "reason": "Bad."}, format="json")
    assert (bad.status_code, bad.json()["code"]) == (422, "invalid_mode")
    silent = sam.put(f"{ENDPOINT}mode/", {"mode": "open"}, format="json")
    assert silent.json()["errors"][0]["pointer"] == "/reason"


def test_who_may_only_look_may_not_move_anything(two: Fleet, vic: APIClient) -> None:
    assert put(vic, {"1": 95, "2": 5}, '"1"').status_code == 403
    for path, method in (("rollback/", vic.post), ("mode/", vic.put)):
        assert method(f"{ENDPOINT}{path}", {"reason": "x"}, format="json").status_code == 403
    node = "/api/v1/nodes/local/"
    assert vic.post(f"{node}cordon/", {"reason": "x"}, format="json").status_code == 403
    assert vic.post("/api/v1/deployments/", {}, format="json").status_code == 403
    assert APIClient().get(SPLIT).status_code in (401, 403)


def test_a_release_is_deployed_once_and_shown(two: Fleet, sam: APIClient) -> None:
    release = factories.make_release(factories.make_version())
    for _ in range(2):
        made = sam.post("/api/v1/deployments/", {"release": str(release.pk)}, format="json")
        assert made.status_code == 201
    body = made.json()
    assert (body["model"], body["version"], body["environment"]) == (
        "fraud_detector",
        3,
        "production",
    )
    assert [(p["node"], p["state"]) for p in body["placements"]] == [("local", "pending")]
    assert sam.get(f"/api/v1/jobs/{body['placements'][0]['job']}/").json()["kind"] == "deploy"
    listed = sam.get("/api/v1/deployments/?version=3&model=fraud_detector").json()["results"]
    assert [one["id"] for one in listed] == [body["id"]]
    busy = sam.delete(f"/api/v1/deployments/{body['id']}/?reason=Old")
    assert (busy.status_code, busy.json()["code"]) == (409, "deploy_under_way")
    unknown = sam.post("/api/v1/deployments/", {"release": str(uuid.uuid4())}, format="json")
    assert unknown.status_code == 404


def test_a_release_that_is_not_approved_is_refused(two: Fleet, sam: APIClient) -> None:
    release = factories.make_release(factories.make_version(), state=ReleaseState.PROPOSED)
    refused = sam.post("/api/v1/deployments/", {"release": str(release.pk)}, format="json")
    assert (refused.status_code, refused.json()["code"]) == (409, "release_not_approved")


def test_a_deployment_without_traffic_is_removed(two: Fleet, sam: APIClient) -> None:
    second = Deployment.objects.get(release__version__number=2)
    first = Deployment.objects.get(release__version__number=1)
    busy = sam.delete(f"/api/v1/deployments/{first.pk}/", {"reason": "Old."}, format="json")
    assert (busy.status_code, busy.json()["code"]) == (409, "has_traffic")
    gone = sam.delete(f"/api/v1/deployments/{second.pk}/", {"reason": "Old."}, format="json")
    assert gone.status_code == 202
    assert gone.json()["removal_requested_at"]
    assert Placement.objects.get(deployment=second).job.kind == "unload"
