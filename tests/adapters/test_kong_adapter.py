"""What is Kong's own: refusals in its words, edits by others, and how long it may take."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from deployments.adapters.gateway import Acked, Connected, Disconnected
from deployments.adapters.gateway_exports import export
from deployments.adapters.kong.line import settle_seconds
from deployments.rules.gateways.snapshots import render
from deployments.rules.gateways.state import HeaderRule
from tests.adapters.gateway_edges import BODY, MODEL, Driven, KongEdge, driven
from tests.deployments.waiting import eventually


@pytest.fixture
def kong(tmp_path: Path) -> Iterator[tuple[Driven, KongEdge]]:
    edge = KongEdge(tmp_path / "secrets")
    with driven(edge) as made:
        edge.control.wait(Connected)
        yield made, edge


def test_what_somebody_else_changed_is_put_right(kong: tuple[Driven, KongEdge]) -> None:
    gateway, edge = kong
    gateway.apply(weights={1: 5000, 2: 5000})
    with edge.kong.lock:
        (plugin,) = (p for p in edge.kong.stored["plugins"].values() if p["name"] == "pre-function")
        asked = plugin["config"]
        plugin["config"] = {"access": []}
        service = next(iter(edge.kong.stored["services"].values()))
        service["path"] = "/elsewhere"
    eventually(lambda: edge.kong.stored["plugins"][plugin["id"]]["config"] == asked)
    eventually(lambda: edge.kong.stored["services"][service["id"]]["path"] != "/elsewhere")


def test_entities_of_others_are_neither_changed_nor_removed(
    kong: tuple[Driven, KongEdge],
) -> None:
    gateway, edge = kong
    theirs = {"id": "theirs", "name": "theirs", "host": "example.org", "tags": ["team-b"]}
    edge.kong.stored["services"]["theirs"] = theirs
    gateway.apply(weights={1: 5000, 2: 5000})
    gateway.apply()
    assert edge.kong.stored["services"]["theirs"] == theirs


def test_a_name_that_is_taken_is_refused_in_kongs_words(kong: tuple[Driven, KongEdge]) -> None:
    gateway, edge = kong
    taken = f"production.{MODEL}.v1.infer"
    edge.kong.stored["services"]["theirs"] = {
        "id": "theirs", "name": taken, "host": "example.org", "tags": None,
    }  # fmt: skip
    said = gateway.refused(gateway.snapshot())
    assert said.resource_type == "services"
    assert said.reason == f"UNIQUE violation detected on '{{name=\"{taken}\"}}'"


def test_a_kong_that_runs_no_functions_says_so_and_still_serves_one_version(
    kong: tuple[Driven, KongEdge],
) -> None:
    gateway, edge = kong
    gateway.apply()
    edge.kong.configuration["untrusted_lua"] = "off"
    written = edge.kong.writes
    said = gateway.refused(gateway.snapshot(weights={1: 5000, 2: 5000}))
    assert "untrusted_lua" in said.reason
    # It was refused before anything was written.
    assert edge.kong.writes == written
    gateway.apply(weights={2: 10000})
    assert gateway.caller().infer(MODEL, BODY).version == "2"


def test_a_kong_without_a_database_is_told_by_file(kong: tuple[Driven, KongEdge]) -> None:
    gateway, edge = kong
    edge.kong.configuration["database"] = "off"
    eventually(lambda: "kong.yaml" in gateway.refused(gateway.snapshot()).reason)


def test_a_value_that_kong_reads_as_an_expression_is_refused(
    kong: tuple[Driven, KongEdge],
) -> None:
    gateway, _ = kong
    rule = HeaderRule("x-exp-id", "~*.*", 2)
    assert "expression" in gateway.refused(gateway.snapshot(header_rules=(rule,))).reason


def test_a_wrong_token_is_an_absence_that_ends_when_it_is_put_right(
    kong: tuple[Driven, KongEdge],
) -> None:
    gateway, edge = kong
    gateway.apply()
    edge.kong.token = "another"
    edge.control.wait(Disconnected)
    seen = gateway.set(gateway.snapshot(weights={2: 10000}))
    Path(edge.registration.options["token_file"]).write_text("another")
    edge.control.wait(Acked, seen=seen)
    assert gateway.caller().infer(MODEL, BODY).version == "2"


def test_an_acknowledgement_waits_for_as_long_as_kong_may_take() -> None:
    assert settle_seconds({}) == 10
    assert settle_seconds({"worker_consistency": "strict", "db_update_frequency": 1}) == 1
    slow = {"db_update_propagation": 3, "worker_state_update_frequency": 2}
    assert settle_seconds(slow) == 10


def test_a_rollback_waits_for_no_change_that_is_under_way(kong: tuple[Driven, KongEdge]) -> None:
    """Kong's workers take their time with a new version; going back needs none."""
    gateway, edge = kong
    alone = {1: gateway.state().endpoints[0].targets[1]}
    gateway.apply(targets=alone)
    edge.kong.configuration["db_update_frequency"] = 60
    edge.restart_control()
    edge.control.wait(Connected)
    gateway.apply(targets=alone)
    gateway.set(gateway.snapshot(weights={1: 5000, 2: 5000}))

    def said(kind: str) -> str:
        with edge.kong.lock:
            return str(edge.kong.stored[kind])

    eventually(lambda: f"production.{MODEL}.v2.infer" in said("services"))
    # Nothing leads to the new version yet: a worker may not know it.
    assert set(gateway.versions(range(20)).values()) == {"1"}
    gateway.set(gateway.snapshot(targets=alone, unavailable_code="gone_back"))
    eventually(lambda: "gone_back" in said("plugins"), seconds=5)
    assert "pre-function" not in said("plugins")


def test_the_exported_file_holds_every_entity_under_what_it_belongs_to(
    kong: tuple[Driven, KongEdge],
) -> None:
    gateway, edge = kong
    snapshot = render(gateway.state(weights={1: 9000, 2: 1000}))
    gateway.edge.control.apply(snapshot)
    made = export(edge.registration, snapshot)
    document = YAML(typ="safe").load(made.text)
    assert made.filename == "kong.yaml"
    assert document["_format_version"] == "3.0"
    services = document["services"]
    routes = [*document["routes"], *(r for s in services for r in s.get("routes", ()))]
    plugins = [p for owner in (*services, *routes) for p in owner.get("plugins", ())]
    targets = [t for upstream in document["upstreams"] for t in upstream["targets"]]
    held = {
        "services": services,
        "routes": routes,
        "plugins": plugins,
        "upstreams": document["upstreams"],
        "targets": targets,
    }
    for kind, found in held.items():
        assert {one["id"] for one in found} == set(edge.kong.stored[kind]), kind
