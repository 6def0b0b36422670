from __future__ import annotations

from typing import Any

import pytest
from rest_framework.test import APIClient

from console import env
from console.models import AuditEntry, Job
from deployments.adapters import live_store
from deployments.models import Gateway, Node
from deployments.selectors.fleet.nodes import node_list, node_page, nodes_in_trouble
from deployments.services.fleet import nodes as fleet
from models_registry.models import Environment
from tests import factories
from tests.deployments.conftest import Fleet, ready_version

pytestmark = pytest.mark.django_db

NODE = {
    "name": "gpu-1",
    "http_address": "10.0.0.1:8000",
    "grpc_address": "10.0.0.1:8001",
    "repository": "/models",
    "environments": ["production"],
    "gpus": [1, 0],
}


@pytest.fixture
def sam(fleet_rows: Fleet) -> APIClient:
    client = APIClient()
    client.force_login(factories.people().sam)
    return client


def test_a_node_is_registered_and_changed(sam: APIClient) -> None:
    made = sam.post("/api/v1/nodes/", NODE, format="json")
    assert made.status_code == 201
    assert (made.json()["gpus"], made.json()["environments"]) == ([0, 1], ["production"])
    sam.post("/api/v1/nodes/", {**NODE, "http_address": "10.0.0.2:8000"}, format="json")
    assert Node.objects.get(name="gpu-1").http_address == "10.0.0.2:8000"
    names = [one["name"] for one in sam.get("/api/v1/nodes/").json()["results"]]
    assert names == ["gpu-1", "local"]
    assert AuditEntry.objects.filter(action="node.register", subject="node gpu-1").count() == 2


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"name": "GPU 1"}, "/name"),
        ({"http_address": "10.0.0.1"}, "/http_address"),
        ({"grpc_address": "host:99999"}, "/grpc_address"),
        ({"repository": "models"}, "/repository"),
        ({"environments": ["moon"]}, "/environments"),
        ({"environments": []}, "/environments"),
    ],
)
def test_a_node_that_cannot_be_is_refused(
    sam: APIClient, change: dict[str, Any], pointer: str
) -> None:
    refused = sam.post("/api/v1/nodes/", {**NODE, **change}, format="json")
    assert refused.status_code == 422
    assert [one["pointer"] for one in refused.json()["errors"]] == [pointer]
    assert not Node.objects.filter(http_address="10.0.0.1:8000").exists()


def test_a_node_is_cordoned_with_a_reason_and_uncordoned(sam: APIClient) -> None:
    path = "/api/v1/nodes/local/"
    assert sam.post(f"{path}cordon/", {}, format="json").status_code == 422
    assert (
        sam.post(f"{path}cordon/", {"reason": "Fan."}, format="json").json()["state"] == "cordoned"
    )
    sam.post(f"{path}cordon/", {"reason": "Twice."}, format="json")
    assert Node.objects.get(name="local").cordon_reason == "Fan."
    fleet.node_lost("local")
    fleet.node_restored("local")
    assert Node.objects.get(name="local").state == "cordoned"
    assert sam.post(f"{path}uncordon/").json()["state"] == "ready"
    actions = list(AuditEntry.objects.order_by("sequence").values_list("action", flat=True))
    assert actions[-4:] == ["node.cordon", "node.lost", "node.restored", "node.uncordon"]


def test_a_node_shows_what_is_loaded_against_what_should_be(
    fleet_rows: Fleet, sam: APIClient
) -> None:
    ready_version(fleet_rows, factories.make_version())
    ready_version(fleet_rows, factories.make_version())
    loaded = [
        {"model": "fraud_detector", "version": "1", "state": "READY", "reason": ""},
        {"model": "stranger", "version": "4", "state": "READY", "reason": ""},
        {"model": "unloaded", "version": "1", "state": "UNAVAILABLE", "reason": "unloaded"},
    ]
    live_store.store_node("local", {"at": 1.0, "version": "2.51.0", "loaded": loaded})
    rows = sam.get("/api/v1/nodes/local/").json()["loaded"]
    assert [(r["triton_model"], r["version"], r["drift"]) for r in rows] == [
        ("fraud_detector", 1, ""),
        ("fraud_detector", 2, "missing"),
        ("stranger", 4, "extra"),
        ("unloaded", 1, ""),
    ]
    assert rows[0]["wanted"] == ["production/fraud_detector v1"]
    job = sam.post("/api/v1/nodes/local/reconcile/", {}, format="json")
    again = sam.post("/api/v1/nodes/local/reconcile/", {}, format="json")
    assert job.status_code == 202
    assert job.json()["id"] == again.json()["id"]
    assert Job.objects.get().queue == "node.local"
    assert sam.get("/api/v1/nodes/nowhere/").status_code == 404


def test_a_version_that_two_environments_share_is_wanted_once(fleet_rows: Fleet) -> None:
    version = factories.make_version()
    ready_version(fleet_rows, version)
    ready_version(fleet_rows, version, fleet_rows.staging)
    loaded = [
        {"model": "fraud_detector", "version": "1", "state": "READY", "reason": ""},
        {"model": "stranger", "version": "4", "state": "READY", "reason": ""},
    ]
    live_store.store_node("local", {"at": 1.0, "version": "2.51.0", "loaded": loaded})
    of_list, of_page = node_list()[0], node_page("local", user=fleet_rows.sam.user).row
    assert (of_list.wanted, of_list.loaded) == (of_page.wanted, of_page.loaded) == (1, 1)
    assert nodes_in_trouble() == []
    live_store.store_node("local", {"at": 1.0, "version": "2.51.0", "loaded": loaded[1:]})
    assert [(row.wanted, row.loaded) for row in nodes_in_trouble()] == [(1, 0)]


def test_the_embedded_stack_is_registered_once_and_keeps_changed_policies(
    fleet_rows: Fleet, tmp_path: Any
) -> None:
    Environment.objects.filter(name="production").update(
        approval_rules=factories.approval_rules("business_owner")
    )
    config = env.load({"COVENANT_HOME": str(tmp_path), "COVENANT_PORT_BASE": "9300"})
    for _ in range(2):
        fleet.bootstrap_embedded(config, fleet_rows.system)
    production = Environment.objects.get(name="production")
    assert production.approver_roles == ["business_owner"]
    node = Node.objects.get(name="local")
    assert (node.grpc_address, node.queue) == ("127.0.0.1:9321", "node.local")
    gateway = Gateway.objects.get()
    ports = dict(gateway.listeners.values_list("environment__name", "port"))
    assert ports == {"production": 9310, "staging": 9313}
    assert gateway.admin_url == "http://127.0.0.1:9311"
    outside = env.load(
        {"COVENANT_HOME": str(tmp_path), "COVENANT_TRITON": "gpu:8001", "COVENANT_GATEWAY": "none"}
    )
    fleet.bootstrap_embedded(outside, fleet_rows.system)
    assert Node.objects.get(name="node-1").http_address == "gpu:8000"
