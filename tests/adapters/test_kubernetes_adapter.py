"""What is the Kubernetes API's own: fields that others own, the controller's words, and drafts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from deployments.adapters.gateway import Acked, Connected
from deployments.adapters.gateway_exports import export
from deployments.adapters.kubernetes import line
from deployments.adapters.kubernetes.objects import duration
from deployments.rules.gateways.state import NodeAddress, Target
from tests.adapters.gateway_edges import BODY, MODEL, Driven, KubernetesEdge, driven
from tests.deployments.waiting import eventually


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[tuple[Driven, KubernetesEdge]]:
    edge = KubernetesEdge(tmp_path / "secrets")
    with driven(edge) as made:
        edge.control.wait(Connected)
        yield made, edge


def _route(edge: KubernetesEdge) -> str:
    return next(
        name
        for kind, name in edge.cluster.stored
        if kind == "HTTPRoute" and name.endswith("-endpoint")
    )


def test_what_somebody_else_changed_is_taken_back(
    cluster: tuple[Driven, KubernetesEdge],
) -> None:
    gateway, edge = cluster
    gateway.apply()
    name = _route(edge)

    def rule_off(route: dict[str, Any]) -> None:
        route["spec"]["rules"] = route["spec"]["rules"][:1]

    edge.cluster.edit("HTTPRoute", name, "kubectl-edit", rule_off)
    eventually(lambda: len(edge.cluster.stored[("HTTPRoute", name)]["spec"]["rules"]) == 3)


def test_an_object_that_is_not_ours_is_refused_and_left_alone(
    cluster: tuple[Driven, KubernetesEdge],
) -> None:
    gateway, edge = cluster
    gateway.apply()
    name = _route(edge)

    def theirs(route: dict[str, Any]) -> None:
        route["metadata"]["labels"] = {"app.kubernetes.io/managed-by": "Helm"}
        route["spec"]["rules"] = []

    edge.cluster.edit("HTTPRoute", name, "helm", theirs)
    said = gateway.refused(gateway.snapshot(weights={2: 10000}))
    assert 'conflict with "helm"' in said.reason
    assert edge.cluster.stored[("HTTPRoute", name)]["spec"]["rules"] == []


def test_the_controllers_no_is_told_in_its_words(
    cluster: tuple[Driven, KubernetesEdge],
) -> None:
    gateway, edge = cluster
    gateway.apply()
    edge.cluster.backend_filters = False
    said = gateway.refused(gateway.snapshot(weights={1: 5000, 2: 5000}))
    assert "Accepted is False (UnsupportedValue)" in said.reason
    assert "filters within backendRefs are not supported" in said.reason
    gateway.apply(weights={2: 10000})
    assert gateway.caller().infer(MODEL, BODY).version == "2"


def test_a_silent_controller_is_waited_for(
    cluster: tuple[Driven, KubernetesEdge], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(line, "STATUS_WITHIN_S", 0.2)
    gateway, edge = cluster
    gateway.apply()
    edge.cluster.silent = True
    snapshot = gateway.snapshot(weights={2: 10000})
    seen = gateway.set(snapshot)
    eventually(lambda: gateway.caller().infer(MODEL, BODY).version == "2")
    assert not [e for e in edge.control.events[seen:] if isinstance(e, Acked)]
    edge.cluster.silent = False
    edge.cluster._judge_all()
    acked = edge.control.wait(Acked, seen=seen)
    assert acked.snapshot.version == snapshot.version


def test_a_split_is_refused_by_a_gateway_that_rewrites_no_backends_path(
    cluster: tuple[Driven, KubernetesEdge],
) -> None:
    gateway, edge = cluster
    options = {**edge.registration.options, "backend_rewrites": False}
    edge.registration = replace(edge.registration, options=options)
    edge.restart_control()
    edge.control.wait(Connected)
    gateway.apply()
    written = edge.cluster.writes
    said = gateway.refused(gateway.snapshot(weights={1: 5000, 2: 5000}))
    assert "backend_rewrites" in said.reason
    assert edge.cluster.writes == written


def test_a_loopback_address_is_refused_before_anything_is_written(
    cluster: tuple[Driven, KubernetesEdge],
) -> None:
    gateway, edge = cluster
    node = NodeAddress("local", "127.0.0.1", 8000)
    said = gateway.refused(gateway.snapshot(targets={1: Target(MODEL, 1, (node,))}))
    assert "loopback" in said.reason
    assert edge.cluster.writes == 0


def test_durations_have_at_most_five_digits_of_a_unit() -> None:
    assert [duration(ms) for ms in (500, 2000, 2500, 600_000)] == ["500ms", "2s", "2s500ms", "600s"]


def test_the_exported_manifests_are_what_is_applied(
    cluster: tuple[Driven, KubernetesEdge],
) -> None:
    gateway, edge = cluster
    snapshot = gateway.snapshot(weights={1: 9000, 2: 1000})
    edge.control.apply(snapshot)
    documents = list(YAML(typ="safe").load_all(export(edge.registration, snapshot).text))
    names = {(one["kind"], one["metadata"]["name"]) for one in documents}
    assert names == set(edge.cluster.stored)
