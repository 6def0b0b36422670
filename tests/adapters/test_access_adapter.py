"""Who gets through a real Envoy, and what the others are told, under an access policy."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from joserfc import jwt
from joserfc.jwk import RSAKey

from console.stack import envoy as envoy_stack
from deployments.rules.access.caller_directory import NOBODY, CallerDirectory, Issuer
from deployments.rules.access.caller_keys import NewKey, new_key
from deployments.rules.access.policies import parse_policy
from deployments.rules.gateways.state import EndpointState, GatewayState, NodeAddress, Target
from tests.adapters.edges import problem
from tests.adapters.gateways import Caller, ControlPlane, Upstream, read_statistics
from tests.stack import RunningEnvoy

BODY = {"inputs": []}
ISS = "https://sign-in.example"


@dataclass
class Gate:
    """A gateway in front of one upstream that serves `guarded` and `open_model`."""

    control: ControlPlane
    envoy: RunningEnvoy
    upstream: Upstream
    port: int
    log: str
    policy: dict[str, Any] = field(default_factory=dict)
    directory: CallerDirectory = NOBODY
    revision: int = 0

    def apply(
        self, policy: dict[str, Any] | None = None, directory: CallerDirectory | None = None
    ) -> float:
        """Set policy or directory or both; the milliseconds until the gateway acts on it."""
        self.policy = self.policy if policy is None else policy
        self.directory = self.directory if directory is None else directory
        self.revision += 1
        node = NodeAddress("n", "127.0.0.1", self.upstream.port)
        states = tuple(
            EndpointState(
                "production",
                model,
                self.revision,
                weights={1: 10000},
                targets={1: Target(model, 1, (node,))},
                access=parse_policy(self.policy if model == "guarded" else {}),
            )
            for model in ("guarded", "open_model")
        )
        acked = self.control.apply(
            GatewayState(
                {"production": self.port},
                states,
                access_log=self.log,
                directories={"production": self.directory},
            )
        )
        return acked.took_ms

    def caller(self) -> Caller:
        return Caller(self.port)


@pytest.fixture
def gate(
    envoy_factory: Callable[..., RunningEnvoy],
    free_port: Callable[[], int],
    tmp_path: Path,
) -> Iterator[Gate]:
    upstream = Upstream("1")
    control = ControlPlane(free_port())
    document = envoy_stack.bootstrap(admin_port=free_port(), ads_port=control.port)
    envoy = envoy_factory(document, wait=False)
    made = Gate(control, envoy, upstream, free_port(), str(tmp_path / "access.jsonl"))
    made.apply()
    yield made
    control.stop()
    upstream.stop()


def key_of(number: int) -> NewKey:
    return new_key(number.to_bytes(5, "big"), number.to_bytes(24, "big"))


def directory(*named: tuple[NewKey, str], **rest: Any) -> CallerDirectory:
    return CallerDirectory(keys=tuple((key.digest, name) for key, name in named), **rest)


def token(key: RSAKey, **claims: Any) -> str:
    header = {"alg": "RS256", "kid": key.kid}
    body = {"iss": ISS, "aud": "models", "sub": "billing", "exp": int(time.time()) + 600, **claims}
    return "Bearer " + jwt.encode(header, {k: v for k, v in body.items() if v is not None}, key)


def issuer(*keys: RSAKey) -> Issuer:
    jwks = json.dumps({"keys": [key.as_dict(private=False) for key in keys]})
    return Issuer("acme", ISS, ("models",), "sub", jwks)


def signing_key(kid: str) -> RSAKey:
    return RSAKey.generate_key(2048, {"kid": kid, "alg": "RS256", "use": "sig"})


KEYS = {"authentication": {"required": True, "api_key": True}}


def test_a_key_lets_its_caller_in_and_no_model_sees_it(gate: Gate) -> None:
    billing = key_of(1)
    gate.apply(KEYS, directory((billing, "billing")))
    caller = gate.caller()
    assert problem(caller.infer("guarded", BODY)) == (401, "authentication_required")
    refused = caller.infer("guarded", BODY, x_api_key=key_of(2).key)
    assert problem(refused) == (401, "key_refused")
    assert refused.headers["www-authenticate"] == "Bearer"
    assert refused.headers["x-request-id"]
    assert problem(caller.infer("guarded", BODY, x_api_key="x" * 5000)) == (401, "key_refused")
    assert (
        caller.infer("guarded", BODY, x_api_key=billing.key, x_covenant_caller="boss").status == 200
    )
    assert caller.infer("guarded", BODY, authorization=f"Bearer {billing.key}").status == 200
    for seen in gate.upstream.headers:
        assert seen["x-covenant-caller"] == "billing"
        assert "x-api-key" not in seen
        assert "authorization" not in seen
    for path in ("/v2/models/guarded", "/v2/models/guarded/ready"):
        assert caller.send("GET", path).status == 401
        assert caller.send("GET", path, x_api_key=billing.key).status == 200
    assert problem(caller.send("POST", "/v2/models/guarded/versions/1/infer", BODY))[0] == 401


def test_nobody_says_who_he_is_where_nobody_asks(gate: Gate) -> None:
    assert gate.caller().infer("open_model", BODY, x_covenant_caller="boss").status == 200
    assert "x-covenant-caller" not in gate.upstream.headers[0]


def test_no_key_stands_in_what_the_gateway_tells_of_itself(gate: Gate) -> None:
    billing = key_of(3)
    gate.apply(KEYS, directory((billing, "billing")))
    shown = httpx.get(f"http://{gate.envoy.admin}/config_dump", timeout=5).text
    assert billing.digest in shown
    assert billing.key not in shown
    assert billing.key.rpartition("_")[2] not in shown


def test_a_key_that_is_revoked_stops_at_once_and_no_request_of_others_fails(gate: Gate) -> None:
    kept, lost = key_of(4), key_of(5)
    both = directory((kept, "kept"), (lost, "lost"))
    gate.apply(KEYS, both)
    stop = threading.Event()
    answers: dict[str, list[int]] = {"kept": [], "open": []}

    def call(name: str, model: str, headers: dict[str, str]) -> None:
        caller = gate.caller()
        while not stop.is_set():
            answers[name].append(caller.infer(model, BODY, **headers).status)

    threads = [
        threading.Thread(target=call, args=("kept", "guarded", {"x_api_key": kept.key})),
        threading.Thread(target=call, args=("open", "open_model", {})),
    ]
    for thread in threads:
        thread.start()
    try:
        caller = gate.caller()
        for _ in range(10):
            gate.apply(directory=both)
            assert caller.infer("guarded", BODY, x_api_key=lost.key).status == 200
            gate.apply(directory=directory((kept, "kept")))
            refused = caller.infer("guarded", BODY, x_api_key=lost.key)
            assert problem(refused) == (401, "key_refused")
            gate.apply({**KEYS, "deny": {"callers": ["lost"]}}, both)
            refused = caller.infer("guarded", BODY, x_api_key=lost.key)
            assert problem(refused) == (403, "caller_denied")
            gate.apply(KEYS)
    finally:
        stop.set()
        for thread in threads:
            thread.join(10)
    assert set(answers["kept"]) == {200}
    assert set(answers["open"]) == {200}


def test_lists_of_callers_and_blocked_ones(gate: Gate) -> None:
    keys = {name: key_of(10 + n) for n, name in enumerate(("in", "out", "both", "blocked"))}
    known = directory(*((key, name) for name, key in keys.items()), blocked=("blocked",))
    gate.apply(
        {
            "authentication": {"api_key": True},
            "allow": {"callers": ["in", "both", "blocked"]},
            "deny": {"callers": ["both"]},
        },
        known,
    )
    caller = gate.caller()
    told = {name: caller.infer("guarded", BODY, x_api_key=key.key) for name, key in keys.items()}
    assert told["in"].status == 200
    assert problem(told["out"]) == (403, "caller_not_allowed")
    assert problem(told["both"]) == (403, "caller_denied")
    assert problem(told["blocked"]) == (403, "caller_blocked")
    # An allow list asks for a name, also where a key is otherwise not needed.
    assert problem(caller.infer("guarded", BODY)) == (401, "authentication_required")


def test_a_key_may_be_brought_where_none_is_needed_but_not_a_wrong_one(gate: Gate) -> None:
    billing = key_of(20)
    gate.apply({"authentication": {"api_key": True}}, directory((billing, "billing")))
    caller = gate.caller()
    assert caller.infer("guarded", BODY).status == 200
    assert "x-covenant-caller" not in gate.upstream.headers[-1]
    assert caller.infer("guarded", BODY, x_api_key=billing.key).status == 200
    assert gate.upstream.headers[-1]["x-covenant-caller"] == "billing"
    assert problem(caller.infer("guarded", BODY, x_api_key="cvk_old")) == (401, "key_refused")


@pytest.mark.parametrize(
    ("lists", "status"),
    [
        ({"allow": {"networks": ["127.0.0.0/8"]}}, 200),
        ({"allow": {"networks": ["10.0.0.0/8"]}}, 403),
        ({"deny": {"networks": ["127.0.0.1"]}}, 403),
        ({"allow": {"networks": ["127.0.0.0/8"]}, "deny": {"networks": ["127.0.0.0/16"]}}, 403),
        ({"deny": {"networks": ["10.0.0.0/8", "2001:db8::/32"]}}, 200),
    ],
)
def test_networks_count_by_the_connection_whatever_a_header_says(
    gate: Gate, lists: dict[str, Any], status: int
) -> None:
    gate.apply(lists)
    for forwarded in ("10.1.2.3", "127.0.0.1", "192.0.2.7, 10.0.0.1"):
        reply = gate.caller().infer("guarded", BODY, x_forwarded_for=forwarded)
        assert reply.status == status
        if status == 403:
            assert problem(reply) == (403, "network_denied")
    assert gate.caller().infer("open_model", BODY).status == 200


def test_tokens_name_their_caller(gate: Gate) -> None:
    key = signing_key("one")
    gate.apply(
        {"authentication": {"required": True, "issuers": ["acme"]}},
        CallerDirectory(issuers=(issuer(key),), blocked=("gone",)),
    )
    caller = gate.caller()

    def told(value: str) -> tuple[int, str]:
        reply = caller.infer("guarded", BODY, authorization=value)
        return (200, "") if reply.status == 200 else problem(reply)

    assert told(token(key)) == (200, "")
    assert gate.upstream.headers[-1]["x-covenant-caller"] == "billing"
    assert "authorization" not in gate.upstream.headers[-1]
    assert "x-covenant-issuer" not in gate.upstream.headers[-1]
    assert told(token(key, sub="gone")) == (403, "caller_blocked")
    assert told(token(key, sub=None)) == (401, "token_without_caller")
    assert told(token(key, sub="two words")) == (401, "token_without_caller")
    assert told(token(key, aud="others")) == (401, "token_refused")
    assert told(token(key, iss="https://elsewhere.example")) == (401, "token_refused")
    assert told(token(signing_key("one"))) == (401, "token_refused")
    assert told("Bearer nonsense") == (401, "token_refused")
    unseen = caller.send(
        "POST", f"/v2/models/guarded/infer?access_token={token(key).removeprefix('Bearer ')}", BODY
    )
    assert problem(unseen) == (401, "authentication_required")
    late = caller.infer("guarded", BODY, authorization=token(key, exp=int(time.time()) - 3600))
    assert problem(late) == (401, "token_refused")
    assert "expired" in late.json["detail"]
    assert told(token(key, exp=None)) == (401, "token_refused")
    assert problem(caller.infer("guarded", BODY)) == (401, "authentication_required")
    assert caller.infer("open_model", BODY, authorization="Bearer nonsense").status == 200


def test_keys_of_an_issuer_change_without_a_lost_request(gate: Gate) -> None:
    old, new = signing_key("old"), signing_key("new")
    gate.apply(
        {"authentication": {"required": True, "issuers": ["acme"]}},
        CallerDirectory(issuers=(issuer(old),)),
    )
    stop = threading.Event()
    answers: list[int] = []
    current = [token(old)]

    def call() -> None:
        caller = gate.caller()
        while not stop.is_set():
            answers.append(caller.infer("guarded", BODY, authorization=current[0]).status)

    thread = threading.Thread(target=call)
    thread.start()
    try:
        for _ in range(5):
            gate.apply(directory=CallerDirectory(issuers=(issuer(old, new),)))
            current[0] = token(new)
            assert gate.caller().infer("guarded", BODY, authorization=token(new)).status == 200
            old, new = new, signing_key(f"next-{len(answers)}")
    finally:
        stop.set()
        thread.join(10)
    gate.apply(directory=CallerDirectory(issuers=(issuer(signing_key("other")),)))
    assert gate.caller().infer("guarded", BODY, authorization=token(old)).status == 401
    assert set(answers) == {200}


def test_each_caller_has_a_bucket_and_all_have_one(gate: Gate) -> None:
    one, two = key_of(30), key_of(31)
    slow = {"requests": 1, "per": "1h"}
    gate.apply(
        {
            "authentication": {"api_key": True},
            "rate_limits": {"per_caller": {**slow, "burst": 3}, "total": {**slow, "burst": 8}},
        },
        directory((one, "one"), (two, "two")),
    )
    caller = gate.caller()
    first = [caller.infer("guarded", BODY, x_api_key=one.key) for _ in range(4)]
    assert [reply.status for reply in first] == [200, 200, 200, 429]
    assert problem(first[-1]) == (429, "rate_limited")
    assert int(first[-1].headers["retry-after"]) == 3600
    # Moving traffic, or another caller's key, fills nobody's bucket.
    gate.apply()
    assert caller.infer("guarded", BODY, x_api_key=one.key).status == 429
    assert [caller.infer("guarded", BODY, x_api_key=two.key).status for _ in range(3)] == [200] * 3
    # Who has no name is counted by his address; then everybody's bucket is empty.
    assert [caller.infer("guarded", BODY).status for _ in range(2)] == [200, 200]
    assert caller.infer("guarded", BODY).status == 429
    assert {caller.infer("open_model", BODY).status for _ in range(20)} == {200}


def test_what_is_refused_at_the_door_counts_against_no_version(gate: Gate) -> None:
    billing = key_of(40)
    gate.apply(
        {
            **KEYS,
            "deny": {"callers": ["bad"]},
            "rate_limits": {"per_caller": {"requests": 1, "per": "1h", "burst": 2}},
        },
        directory((billing, "billing"), (key_of(41), "bad")),
    )
    caller = gate.caller()
    told = [
        caller.infer("guarded", BODY, **headers).status
        for headers in ({}, {"x_api_key": "no"}, {"x_api_key": key_of(41).key})
    ]
    told += [caller.infer("guarded", BODY, x_api_key=billing.key).status for _ in range(4)]
    assert told == [401, 401, 403, 200, 200, 429, 429]
    counters = read_statistics(gate.envoy.admin).clusters["production/guarded/1"].counters
    assert counters["total"] == 2
    assert counters.get("client_4xx", 0) == 0
    assert len(gate.upstream.paths) == 2


def test_a_thousand_callers_with_keys(gate: Gate) -> None:
    keys = [key_of(1000 + n) for n in range(1000)]
    known = directory(*((key, f"caller-{n}") for n, key in enumerate(keys)))
    took_ms = gate.apply(KEYS, known)
    again_ms = gate.apply(directory=CallerDirectory(keys=known.keys[1:]))
    caller = gate.caller()
    assert caller.infer("guarded", BODY, x_api_key=keys[999].key).status == 200
    assert caller.infer("guarded", BODY, x_api_key=keys[0].key).status == 401
    assert max(took_ms, again_ms) < 2000
