"""TLS at a real Envoy: the certificate comes by SDS, and another takes its place."""

from __future__ import annotations

import http.client
import ssl
import stat
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from console.errors import Unavailable
from console.stack import envoy as envoy_stack
from deployments.adapters.certificates import read_pair, stamp
from deployments.rules.access.caller_directory import Certificate
from deployments.rules.gateways.state import EndpointState, GatewayState, NodeAddress, Target
from tests.adapters.certificates import make_pair, write_pair
from tests.adapters.gateways import ControlPlane, Upstream
from tests.stack import RunningEnvoy


def connection(port: int, certificate: str) -> http.client.HTTPSConnection:
    """A connection that trusts this certificate and no other, open."""
    context = ssl.create_default_context(cadata=certificate)
    opened = http.client.HTTPSConnection("localhost", port, timeout=10, context=context)
    opened.connect()
    return opened


def status(opened: http.client.HTTPSConnection) -> int:
    opened.request("POST", "/v2/models/a_model/infer", b'{"inputs":[]}')
    answer = opened.getresponse()
    answer.read()
    return answer.status


def test_a_listener_speaks_tls_and_takes_another_certificate_without_a_lost_connection(
    envoy_factory: Callable[..., RunningEnvoy], free_port: Callable[[], int]
) -> None:
    control, upstream, port = ControlPlane(free_port()), Upstream("1"), free_port()
    document = envoy_stack.bootstrap(admin_port=free_port(), ads_port=control.port)
    envoy = envoy_factory(document, wait=False)
    target = Target("a_model", 1, (NodeAddress("n", "127.0.0.1", upstream.port),))
    revision = [0]

    def apply(pair: tuple[str, str] | None) -> None:
        revision[0] += 1
        state = EndpointState(
            "production", "a_model", revision[0], weights={1: 10000}, targets={1: target}
        )
        held = Certificate("production", *pair) if pair else None
        ports = {"production": port}
        control.apply(GatewayState(ports, (state,), certificates={"production": held}))

    old, new = make_pair(), make_pair()
    try:
        apply(old)
        kept = connection(port, old[0])
        assert status(kept) == 200
        with pytest.raises(httpx.HTTPError):
            httpx.get(f"http://localhost:{port}/", timeout=5)
        apply(new)
        assert status(connection(port, new[0])) == 200
        assert status(kept) == 200, "a connection that is open stays"
        with pytest.raises(ssl.SSLCertVerificationError):
            connection(port, old[0])
        # Without a pair to give, the gateway keeps the one that it has.
        apply(None)
        assert status(connection(port, new[0])) == 200
        shown = httpx.get(f"http://{envoy.admin}/config_dump?include_eds", timeout=5).text
        assert new[1].splitlines()[1] not in shown
    finally:
        control.stop()
        upstream.stop()


def test_a_pair_is_read_when_it_belongs_together(tmp_path: Path) -> None:
    pair = make_pair(days=40, host="models.example")
    files = write_pair(tmp_path, pair)
    read = read_pair(*files)
    assert read.chain == pair[0]
    assert read.names == ("models.example",)
    before = stamp(*files)
    write_pair(tmp_path, make_pair())
    assert stamp(*files) != before


@pytest.mark.parametrize("fault", ["other key", "no key", "no certificate", "missing", "too large"])
def test_a_bad_pair_is_refused_without_quoting_a_file(tmp_path: Path, fault: str) -> None:
    pair, other = make_pair(), make_pair()
    secret = "s3cret-in-a-file"
    texts = {
        "other key": (pair[0], other[1]),
        "no key": (pair[0], secret),
        "no certificate": (secret, pair[1]),
        "missing": pair,
        "too large": (secret * 20_000, pair[1]),
    }[fault]
    files = write_pair(tmp_path, texts)
    if fault == "missing":
        Path(files[1]).unlink()
    else:
        Path(files[1]).chmod(stat.S_IRUSR)
    with pytest.raises(Unavailable) as refused:
        read_pair(*files)
    assert refused.value.code == "bad_certificate"
    assert str(tmp_path) in refused.value.message
    assert secret not in refused.value.message
