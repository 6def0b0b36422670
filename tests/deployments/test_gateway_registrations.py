"""Registering gateways by every door, and refusing what their products cannot do."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from rest_framework.test import APIClient
from ruamel.yaml import YAML

from console.errors import Conflict, Invalid
from console.models import AuditEntry
from deployments.models import Gateway
from deployments.rules.gateways.capabilities import Capability, Level, supports
from deployments.selectors.gateways.capabilities import check_capability
from deployments.services.gateways.desired import desired_snapshots
from deployments.services.gateways.registrations import (
    change_gateway,
    register_gateway,
    remove_gateway,
)
from deployments.services.traffic.splits import set_mode, set_split
from tests import factories
from tests.deployments.conftest import Fleet, ready_version

pytestmark = pytest.mark.django_db

KONG: dict[str, Any] = {
    "name": "kong-eu",
    "adapter": "kong",
    "admin_url": "https://kong-admin.example.com:8444/",
    "options": {"token_env": "COVENANT_GATEWAY_KONG"},
    "listeners": [
        {"environment": "production", "address": "10.0.0.9", "port": 8000,
         "public_url": "https://models.example.com"},
    ],
}  # fmt: skip
KUBERNETES: dict[str, Any] = {
    "name": "cluster-a",
    "adapter": "kubernetes",
    "admin_url": "https://10.0.0.1:6443",
    "options": {"parent": {"name": "public"}, "namespace": "models"},
    "listeners": [{"environment": "staging", "address": "10.0.0.2", "port": 80}],
}


@pytest.fixture
def sam(fleet_rows: Fleet) -> APIClient:
    client = APIClient()
    client.force_login(factories.people().sam)
    return client


def test_a_gateway_is_registered_changed_and_forgotten(sam: APIClient) -> None:
    made = sam.post("/api/v1/gateways/", KONG, format="json")
    assert made.status_code == 201, made.json()
    assert made.json()["admin_url"] == "https://kong-admin.example.com:8444"
    assert made.json()["listeners"][0]["public_url"] == "https://models.example.com"
    levels = {one["key"]: one["level"] for one in made.json()["capabilities"]}
    assert (levels["weights"], levels["mirror"]) == ("part", "none")
    sam.post("/api/v1/gateways/", KONG, format="json")
    assert AuditEntry.objects.filter(subject="gateway kong-eu").count() == 1
    changed = sam.patch("/api/v1/gateways/kong-eu/", {"admin_url": "http://kong:8001"}, "json")
    assert changed.json()["listeners"] == made.json()["listeners"]
    assert Gateway.objects.get(name="kong-eu").admin_url == "http://kong:8001"
    names = [one["name"] for one in sam.get("/api/v1/gateways/").json()["results"]]
    assert names == ["embedded", "kong-eu"]
    gone = sam.delete("/api/v1/gateways/kong-eu/", {"reason": "replaced"}, format="json")
    assert gone.status_code == 204
    assert sam.get("/api/v1/gateways/kong-eu/").status_code == 404
    entry = AuditEntry.objects.get(action="gateway.remove")
    assert (entry.subject, entry.reason) == ("gateway kong-eu", "replaced")


@pytest.mark.parametrize(
    ("body", "change", "pointer"),
    [
        (KONG, {"name": "Kong EU"}, "/name"),
        (KONG, {"admin_url": "kong:8001"}, "/admin_url"),
        (KONG, {"admin_url": "http://admin:secret@kong:8001"}, "/admin_url"),
        (KONG, {"options": {"token": "secret"}}, "/options/token"),
        (KONG, {"options": {"token_env": "SECRET_KEY"}}, "/options/token_env"),
        (KONG, {"options": {"token_file": "/etc/shadow"}}, "/options/token_file"),
        (KONG, {"options": {"token_file": "/run/secrets/../../etc/shadow"}}, "/options/token_file"),
        (KONG, {"options": {"hosts": {"moon": "a.example.com"}}}, "/options/hosts/moon"),
        (KONG, {"options": []}, "/options"),
        (KUBERNETES, {"options": {}}, "/options/parent"),
        (KUBERNETES, {"options": {"parent": {"name": "x", "uid": "y"}}}, "/options/parent"),
        (
            KONG,
            {"listeners": [{"environment": "moon", "address": "10.0.0.9", "port": 80}]},
            "/listeners",
        ),
        (
            KONG,
            {"listeners": [*KONG["listeners"], *KUBERNETES["listeners"]]},
            "/options/hosts",
        ),
    ],
)
def test_a_registration_that_cannot_be_is_refused_where_it_is_wrong(
    sam: APIClient, body: dict[str, Any], change: dict[str, Any], pointer: str
) -> None:
    answer = sam.post("/api/v1/gateways/", {**body, **change}, format="json")
    assert answer.status_code == 422, answer.json()
    assert pointer in [one["pointer"] for one in answer.json()["errors"]]
    assert not Gateway.objects.filter(name=body["name"]).exists()


def test_a_name_stays_with_its_product(fleet_rows: Fleet) -> None:
    with pytest.raises(Conflict, match="is registered as Envoy") as refused:
        register_gateway(
            name="embedded",
            adapter="kong",
            admin_url="http://kong:8001",
            listeners={"production": ("10.0.0.9", 80)},
            actor=fleet_rows.sam,
        )
    assert refused.value.code == "other_product"


def test_listeners_that_are_left_out_end_and_the_others_stay(fleet_rows: Fleet) -> None:
    changed = change_gateway(
        name="embedded", listeners={"staging": ("127.0.0.1", 9999)}, actor=fleet_rows.sam
    )
    assert [one.public_url for one in changed.listeners.all()] == ["http://127.0.0.1:9999"]


def test_a_gateway_that_serves_alone_is_not_forgotten(fleet_rows: Fleet) -> None:
    ready_version(fleet_rows, factories.make_version(factories.make_model("fraud_detector")))
    set_split(
        environment="production", model="fraud_detector", weights={1: 100},
        expected_revision=None, reason="a start", actor=fleet_rows.sam,
    )  # fmt: skip
    Gateway.objects.update(connected=True)
    with pytest.raises(Conflict, match="no other gateway serves production"):
        remove_gateway(name="embedded", reason="tidy", actor=fleet_rows.sam)
    with pytest.raises(Invalid, match="reason"):
        remove_gateway(name="embedded", reason=" ", actor=fleet_rows.sam)
    Gateway.objects.update(connected=False)
    remove_gateway(name="embedded", reason="it burnt", actor=fleet_rows.sam)
    assert not Gateway.objects.exists()


def _with_kong(fleet: Fleet, **changes: Any) -> None:
    listeners = {"production": ("10.0.0.9", 8000)}
    options: dict[str, Any] = {}
    wanted = {"admin_url": "http://kong:8001", "options": options, **changes}
    register_gateway(name="kong-eu", adapter="kong", listeners=listeners, actor=fleet.sam, **wanted)


def test_what_one_gateway_of_an_environment_cannot_do_is_refused_with_its_name(
    fleet_rows: Fleet,
) -> None:
    model = factories.make_model("fraud_detector")
    for _ in range(2):
        ready_version(fleet_rows, factories.make_version(model))
    here: dict[str, Any] = {"environment": "production", "model": model.name}
    split: dict[str, Any] = {**here, "expected_revision": None, "reason": "a look"}
    _with_kong(fleet_rows, options={"functions": False})
    with pytest.raises(Conflict, match="kong-eu is Kong: This Kong runs no functions") as refused:
        set_split(**split, weights={1: 50, 2: 50}, actor=fleet_rows.sam)
    assert refused.value.code == "not_by_gateway"
    set_split(**split, weights={1: 100}, actor=fleet_rows.sam)
    mirror = {"version": 2, "percent": 10}
    with pytest.raises(Conflict, match="no plugin for mirroring"):
        set_split(**split, weights={1: 100}, mirror=mirror, actor=fleet_rows.sam)
    # An open circuit is the last way out: it is in part there, so it is not refused.
    assert set_mode(**here, mode="open", reason="it fails", actor=fleet_rows.sam).mode == "open"
    check_capability("staging", *Capability)


def test_an_endpoint_that_must_be_guarded_is_not_served_where_it_cannot_be(
    fleet_rows: Fleet,
) -> None:
    """Its access policy was set before this gateway was there: callers find a closed door."""
    from deployments.services.access.policies import set_access_policy

    model = factories.make_model("fraud_detector")
    other = factories.make_model("churn")
    for one in (model, other):
        ready_version(fleet_rows, factories.make_version(one))
        set_split(
            environment="production", model=one.name, weights={1: 100},
            expected_revision=None, reason="a start", actor=fleet_rows.sam,
        )  # fmt: skip
    set_access_policy(
        environment="production", model=model.name, expected_revision=0, reason="guard it",
        policy={"authentication": {"required": True, "api_key": True}}, actor=fleet_rows.sam,
    )  # fmt: skip
    _with_kong(fleet_rows)
    (kong, envoy) = sorted(
        desired_snapshots(["kong-eu", "embedded"]), key=lambda d: -len(d.refused)
    )
    assert [state.model for state, _ in kong.refused] == ["fraud_detector"]
    assert "Callers and their keys are not sent to Kong" in kong.refused[0][1]
    answers = {e.model: e.answer for t in kong.snapshot.route_tables for e in t.endpoints}
    assert answers == {"fraud_detector": "production/fraud_detector/open", "churn": None}
    assert envoy.refused == ()


def test_every_product_says_something_of_every_capability() -> None:
    for product in ("envoy", "kong", "kubernetes"):
        found = supports(product, {})
        assert [one.capability for one in found] == list(Capability)
        assert all(one.words for one in found if one.level is not Level.FULL)
    can = {one.capability: one for one in supports("kubernetes", {"backend_rewrites": True})}
    assert can[Capability.WEIGHTS].level is Level.FULL
    assert not can[Capability.STICKY].usable


def test_the_pages_say_what_a_gateway_cannot_do(fleet_rows: Fleet, client: Client) -> None:
    model = factories.make_model("fraud_detector")
    ready_version(fleet_rows, factories.make_version(model))
    _with_kong(fleet_rows, options={"functions": False})
    client.force_login(factories.people().sam)
    page = client.get("/gateways/kong-eu/").content.decode()
    assert "no plugin for mirroring" in page
    assert client.get("/gateways/").status_code == 200
    assert "HX-Request" not in client.get("/gateways/", headers={"HX-Request": "1"}).headers
    endpoint = client.get("/endpoints/production/fraud_detector/").content.decode()
    assert "This Kong runs no functions" in endpoint
    routing = client.get("/endpoints/production/fraud_detector/routing/").content.decode()
    assert routing


def test_a_gateway_is_registered_and_changed_by_its_page(fleet_rows: Fleet, client: Client) -> None:
    client.force_login(factories.people().sam)
    form = {
        "name": "kong-eu",
        "adapter": "kong",
        "admin_url": "http://kong:8001",
        "listeners": "production 10.0.0.9:8000 https://models.example.com",
        "options": "{}",
    }
    wrong = client.post("/gateways/", {**form, "options": '{"token": "x"}'})
    assert wrong.status_code == 422
    assert "not the token" in wrong.content.decode()
    assert client.post("/gateways/", {**form, "listeners": "production"}).status_code == 422
    made = client.post("/gateways/", form)
    assert made["Location"] == "/gateways/kong-eu/"
    change = {**form, "admin_url": "http://kong:8002", "options": '{"functions": false}'}
    assert client.post("/gateways/kong-eu/change/", change).status_code == 302
    gateway = Gateway.objects.get(name="kong-eu")
    assert (gateway.admin_url, gateway.options) == ("http://kong:8002", {"functions": False})
    export = client.get("/gateways/kong-eu/export/")
    assert export["Content-Disposition"] == 'attachment; filename="kong.yaml"'
    assert YAML(typ="safe").load(export.content)["_format_version"] == "3.0"
    assert AuditEntry.objects.filter(action="gateway.export").exists()
    gone = client.post("/gateways/kong-eu/remove/", {"reason": "replaced"})
    assert gone["Location"] == "/gateways/"
