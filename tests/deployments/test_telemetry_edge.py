"""What the edge measures of sampled requests: drift and entropy become series, within bounds."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from console import live
from deployments.adapters import telemetry_store
from deployments.edge.http import Request
from deployments.edge.model_telemetry import ModelTelemetry
from deployments.models import Endpoint, PlacementState, SeriesMinute, TelemetrySetting
from deployments.rules.gateways.state import Sampling
from deployments.selectors.telemetry.measured_endpoints import measured_endpoints
from deployments.selectors.traffic.routing import endpoint_states
from deployments.services.telemetry.settings import set_telemetry
from deployments.services.traffic.splits import set_split
from tests import factories
from tests.adapters.gateways import Upstream
from tests.deployments.conftest import Fleet, applied, ready_version
from tests.deployments.edge_pair import answer
from tests.deployments.reference_rows import record_rows

KEY = "production/fraud_detector"


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    found = Upstream("first")
    found.content = answer(0.5)
    yield found
    found.stop()


def serve(fleet: Fleet, upstream: Upstream) -> Endpoint:
    """One version that a server answers for, with all the traffic."""
    model = factories.make_model("fraud_detector")
    factories.make_contract(model)
    version = factories.make_version(model)
    placement = ready_version(fleet, version)
    node = placement.node
    node.http_address = f"127.0.0.1:{upstream.port}"
    node.save()
    placement.state = PlacementState.READY
    placement.save()
    applied(
        set_split(
            environment="production",
            model=model.name,
            weights={1: 100},
            expected_revision=None,
            reason="a start",
            actor=fleet.sam,
        )
    )
    return Endpoint.objects.get(model=model)


async def until(true: Callable[[], bool]) -> None:
    """Wait for it; whoever calls has a time-out."""
    while not true():  # noqa: ASYNC110 - what is awaited is written by threads and Redis
        await asyncio.sleep(0.02)


def copy(rows: int, shift: float, source: np.random.Generator, width: int) -> Request:
    data = (source.normal(size=rows * width) + shift).tolist()
    tensor = {"name": "features", "datatype": "FP32", "shape": [rows, width], "data": data}
    body = json.dumps({"inputs": [tensor]}).encode()
    headers = {"content-type": "application/json"}
    return Request("POST", "/v2/models/fraud_detector/infer", headers, body)


@pytest.mark.django_db(transaction=True)
def test_drift_and_entropy_become_series(fleet_rows: Fleet, upstream: Upstream) -> None:
    live.connection().flushall()
    endpoint = serve(fleet_rows, upstream)
    version = endpoint.model.versions.get()
    record_rows(version)
    width = version.facts["inputs"][0]["shape"][1]
    source = np.random.default_rng(8)

    async def work() -> None:
        part = ModelTelemetry(measure_s=0.2)
        running = asyncio.create_task(part.run())
        async with asyncio.timeout(20):
            await until(lambda: KEY in part._endpoints)
            other = copy(1, 0, source, width)
            assert part.take("production/other", other, compared=False) is None
            taken = [
                part.take(KEY, copy(50, 1.0, source, width), compared=False) for _ in range(14)
            ]
            # Ten at once, and no more in that second.
            assert (taken.count(202), taken.count(429)) == (10, 4)
            await until(lambda: bool(telemetry_store.newest(KEY).get("versions")))
            broken = Request("POST", "/x", {}, b"{")
            await until(lambda: part.take(KEY, broken, compared=False) == 202)
            part.answered("production/other", {})
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(work())
    document = telemetry_store.newest(KEY)
    features = document["versions"]["1"]["features"]
    assert document["rows"] == 500
    # Two normal distributions a deviation apart.
    assert features[0]["score"] == pytest.approx(0.38, abs=0.1)
    assert features[0]["rows"] == 500
    rows = {
        (row.series.name, row.series.label): row
        for row in SeriesMinute.objects.select_related("series")
        if row.series.version == 1
    }
    assert rows["feature_drift_score", ""].newest == pytest.approx(features[0]["score"], abs=1e-5)
    assert ("feature_psi", features[0]["name"]) in rows


@pytest.mark.django_db
def test_what_is_measured_is_what_is_promised_or_chosen(
    fleet_rows: Fleet, upstream: Upstream
) -> None:
    endpoint = serve(fleet_rows, upstream)
    found = measured_endpoints()[KEY]
    assert found.probabilities == {"risk_score"}
    assert [one.number for one in found.versions] == [1]
    assert sampled(endpoint) == Sampling(500)
    options: dict[str, Any] = {
        "environment": "production",
        "model": "fraud_detector",
        "expected_revision": None,
        "actor": fleet_rows.sam,
    }
    set_telemetry(measured=False, percent=20, **options)
    assert sampled(endpoint) == Sampling(2000)
    assert TelemetrySetting.objects.get().revision >= 1


def sampled(endpoint: Endpoint) -> Sampling | None:
    (state,) = endpoint_states([endpoint.environment_id])
    return state.sampling
