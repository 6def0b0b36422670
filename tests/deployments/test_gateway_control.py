"""The gateway control with gateways of several products: rows in, words out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deployments.models import Gateway, SplitState, TrafficSplit
from deployments.services.gateways.registrations import change_gateway, register_gateway
from deployments.services.traffic.splits import set_split
from tests import factories
from tests.adapters.gateways import Caller, Upstream
from tests.adapters.kong_double import KongDouble
from tests.adapters.kubernetes_double import KubernetesDouble
from tests.deployments.conftest import Fleet, ready_version, running_control
from tests.deployments.waiting import eventually

pytestmark = pytest.mark.django_db(transaction=True)

MODEL = "fraud_detector"


@pytest.fixture
def kong() -> Iterator[KongDouble]:
    double = KongDouble(token="a-token")
    yield double
    double.stop()


@pytest.fixture
def upstream(fleet_rows: Fleet) -> Iterator[Upstream]:
    """In place of the node's Triton."""
    made = Upstream("1", port=int(fleet_rows.node.http_address.rpartition(":")[2]))
    yield made
    made.stop()


@pytest.fixture
def with_kong(
    fleet_rows: Fleet, kong: KongDouble, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> Fleet:
    """Production is served by a Kong alone; two versions are ready, the first has all traffic."""
    monkeypatch.setenv("COVENANT_GATEWAY_KONG", "a-token")
    change_gateway(
        name="embedded", listeners={"staging": ("127.0.0.1", 9998)}, actor=fleet_rows.sam
    )
    register_gateway(
        name="kong-eu",
        adapter="kong",
        admin_url=kong.admin.url,
        options={"token_env": "COVENANT_GATEWAY_KONG"},
        listeners={"production": ("127.0.0.1", kong.proxy.port)},
        actor=fleet_rows.sam,
    )
    model = factories.make_model(MODEL)
    for _ in range(2):
        ready_version(fleet_rows, factories.make_version(model))
    return fleet_rows


def _split(fleet: Fleet, **weights: int) -> TrafficSplit:
    numbers = {int(name.removeprefix("v")): share for name, share in weights.items()}
    return set_split(
        environment="production", model=MODEL, weights=numbers, expected_revision=None,
        reason="a move", actor=fleet.sam,
    )  # fmt: skip


def _state(split: TrafficSplit) -> str:
    return TrafficSplit.objects.values_list("state", flat=True).get(pk=split.pk)


def test_a_split_goes_to_kong_and_its_word_comes_back(with_kong: Fleet, kong: KongDouble) -> None:
    with running_control():
        first = _split(with_kong, v1=100)
        eventually(lambda: _state(first) == SplitState.APPLIED)
        assert Caller(kong.proxy.port).infer(MODEL, {"inputs": []}).version == "1"
        moved = _split(with_kong, v1=50, v2=50)
        eventually(lambda: _state(moved) == SplitState.APPLIED)
        assert _state(first) == SplitState.SUPERSEDED
        gateway = Gateway.objects.get(name="kong-eu")
        assert gateway.connected
        assert gateway.acknowledged_at is not None
        kong.configuration["untrusted_lua"] = "off"
        refused = _split(with_kong, v1=40, v2=60)
        eventually(lambda: _state(refused) == SplitState.REFUSED)
        gateway.refresh_from_db()
        assert "untrusted_lua" in gateway.last_refusal
        # The last good one is wanted again, and Kong still has it.
        assert refused.endpoint.splits.get(state=SplitState.APPLIED) == moved
    gateway.refresh_from_db()


def test_a_gateway_that_is_away_holds_up_no_other(with_kong: Fleet, kong: KongDouble) -> None:
    away = KubernetesDouble()
    away.stop()
    register_gateway(
        name="cluster-a",
        adapter="kubernetes",
        admin_url=away.api.url,
        options={"parent": {"name": "public"}, "backend_rewrites": True},
        listeners={"production": ("127.0.0.1", 9997)},
        actor=with_kong.sam,
    )
    with running_control():
        split = _split(with_kong, v1=100)
        eventually(lambda: _state(split) == SplitState.APPLIED)
        assert not Gateway.objects.get(name="cluster-a").connected
        kong.admin.go_away()
        eventually(lambda: not Gateway.objects.get(name="kong-eu").connected)
        later = _split(with_kong, v2=100)
        kong.admin.come_back()
        eventually(lambda: _state(later) == SplitState.APPLIED)
        assert Caller(kong.proxy.port).infer(MODEL, {"inputs": []}).version == "2"


def test_a_registration_takes_effect_and_ends_without_a_restart(
    with_kong: Fleet, kong: KongDouble, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    facts: dict[str, Any] = {"name": "kong-eu", "actor": with_kong.sam}
    change_gateway(**facts, admin_url="http://127.0.0.1:9")
    with running_control():
        split = _split(with_kong, v1=100)
        change_gateway(**facts, admin_url=kong.admin.url)
        eventually(lambda: _state(split) == SplitState.APPLIED)
        change_gateway(**facts, admin_url="http://127.0.0.1:9")
        eventually(lambda: not Gateway.objects.get(name="kong-eu").connected)
