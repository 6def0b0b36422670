"""From a service to what callers meet: policies, keys and certificates at a live gateway."""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from django.db import transaction

from console.stack import envoy
from deployments.models import Endpoint, Gateway, GatewayListener
from deployments.services.access.callers import (
    block_caller,
    create_caller,
    create_caller_key,
    revoke_caller_key,
)
from deployments.services.access.policies import set_access_policy
from deployments.services.gateways.certificates import set_certificate
from deployments.services.traffic.splits import offer_first_traffic
from tests import factories, stack
from tests.adapters.certificates import make_pair, write_pair
from tests.adapters.gateways import Caller, Upstream
from tests.deployments.conftest import Fleet, ready_version, running_control
from tests.deployments.waiting import eventually

HERE = {"environment": "production"}


@pytest.fixture
def live(
    transactional_db: None, fleet_rows: Fleet, envoy_factory: Callable[..., stack.RunningEnvoy]
) -> Iterator[Fleet]:
    """A gateway under its control, in front of one version that a server stands in for."""
    upstream = Upstream("1")
    fleet_rows.node.http_address = f"127.0.0.1:{upstream.port}"
    fleet_rows.node.save()
    version = factories.make_version()
    ready_version(fleet_rows, version)
    with transaction.atomic():
        offer_first_traffic(Endpoint.objects.get(), version.number, fleet_rows.sam)
    with running_control() as port:
        admin = int(fleet_rows.gateway.admin_url.rsplit(":", 1)[1])
        envoy_factory(envoy.bootstrap(admin_port=admin, ads_port=port, node_id="embedded"))
        eventually(lambda: Gateway.objects.get(name="embedded").acknowledged_at is not None)
        yield fleet_rows
    upstream.stop()


def status(fleet: Fleet, **headers: str) -> int:
    """What a caller is answered now: ready is asked for, as every operation is guarded."""
    port = fleet.gateway.listeners.get(environment__name="production").port
    caller = Caller(port)
    answer = caller.send("GET", "/v2/models/fraud_detector/ready", **headers)
    caller.close()
    return answer.status


def test_what_is_decided_holds_at_the_gateway(live: Fleet) -> None:
    assert status(live) == 200
    set_access_policy(
        **HERE,
        model="fraud_detector",
        policy={"authentication": {"required": True, "api_key": True}},
        expected_revision=0,
        reason="Callers have names.",
        actor=live.sam,
    )
    eventually(lambda: status(live) == 401)
    create_caller(**HERE, name="billing", actor=live.sam)
    key, text = create_caller_key(**HERE, name="billing", actor=live.sam)
    eventually(lambda: status(live, x_api_key=text) == 200)
    block_caller(**HERE, name="billing", actor=live.sam)
    eventually(lambda: status(live, x_api_key=text) == 403)
    revoke_caller_key(**HERE, name="billing", prefix=key.prefix, actor=live.sam)
    eventually(lambda: status(live, x_api_key=text) == 401)


def test_a_listener_takes_up_the_certificate_that_its_files_hold(
    live: Fleet, tmp_path: Path
) -> None:
    first = make_pair()
    files = write_pair(tmp_path, first)
    port = live.gateway.listeners.get(environment__name="production").port

    def speaks_with(certificate: str) -> bool:
        context = ssl.create_default_context(cadata=certificate)
        opened = http.client.HTTPSConnection("localhost", port, timeout=5, context=context)
        try:
            opened.request("GET", "/v2/models/fraud_detector/ready")
            return opened.getresponse().status == 200
        except (ssl.SSLError, OSError):
            return False
        finally:
            opened.close()

    set_certificate(
        gateway="embedded",
        environment="production",
        certificate_file=files[0],
        key_file=files[1],
        actor=live.sam,
    )
    eventually(lambda: speaks_with(first[0]))
    second = make_pair(days=60)
    write_pair(tmp_path, second)
    eventually(lambda: speaks_with(second[0]))
    held = GatewayListener.objects.get(environment__name="production")
    assert held.certificate_not_after is not None
