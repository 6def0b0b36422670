"""What each check of an access policy costs a request, and how soon a change of it holds.

Counted is the processor time of a real Envoy for each request, with and without a check, turn by
turn in one run, so that whatever else runs here moves the figures little. Nothing else is needed:
it starts an Envoy of its own, without databases. Requests are answered by the gateway itself.

    .venv/bin/python -m benchmarks.access [--requests 2000] [--rounds 5]
"""

from __future__ import annotations

import argparse
import json
import socket
import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from joserfc import jwt
from joserfc.jwk import ECKey, RSAKey

from console.stack import envoy, process
from deployments.rules.access.caller_directory import CallerDirectory, Issuer
from deployments.rules.access.caller_keys import NewKey, new_key
from deployments.rules.access.policies import parse_policy
from deployments.rules.gateways.state import EndpointState, GatewayState, NodeAddress, Target

PORTS = {"admin": 9170, "ads": 9171, "gateway": 9172, "plain": 9173, "plain_admin": 9174}
ISS = "https://sign-in.example"
_HTTP = "type.googleapis.com/envoy.extensions.filters.http"


@dataclass(frozen=True, slots=True)
class Case:
    """One thing that is measured: the endpoint that has it, and what its callers send."""

    name: str
    model: str
    policy: dict[str, Any]
    headers: str = ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="covenant-access-"))
    measure_policies(folder, options.requests, options.rounds)
    measure_native_keys(folder, options.requests, options.rounds)


def measure_policies(folder: Path, requests: int, rounds: int) -> None:
    from tests.adapters.gateways import ControlPlane

    control = ControlPlane(PORTS["ads"])
    document = envoy.bootstrap(admin_port=PORTS["admin"], ads_port=PORTS["ads"])
    child = process.spawn(
        envoy.server(envoy.find(), folder / "policies", document, concurrency=1),
        folder / "policies.log",
    )
    keys = [key_of(number) for number in range(1000)]
    rsa = RSAKey.generate_key(2048, {"kid": "rsa", "alg": "RS256", "use": "sig"})
    curve = ECKey.generate_key("P-256", {"kid": "ec", "alg": "ES256", "use": "sig"})
    known = CallerDirectory(
        keys=tuple((key.digest, f"caller-{n}") for n, key in enumerate(keys)),
        issuers=(issuer(rsa, curve),),
    )
    cases = cases_of(keys[500], rsa, curve)
    try:
        apply(control, cases, CallerDirectory(), 1)
        took = [apply(control, cases, known, 2)]
        for turn in range(20):
            less = CallerDirectory(known.keys[turn % 2 :], issuers=known.issuers)
            took.append(apply(control, cases, less, 3 + turn))
        tell("a key of 1,000 revoked → in force, ms", took[1:])
        fewer = known
        took = [apply(control, change(cases, turn), fewer, 100 + turn) for turn in range(20)]
        tell("a policy changed → in force, ms", took)
        apply(control, cases, known, 200)
        compare(child.pid, PORTS["gateway"], {case.name: case for case in cases}, requests, rounds)
    finally:
        control.stop()
        process.stop(child, 15, seconds=5)


def cases_of(key: NewKey, rsa: RSAKey, curve: ECKey) -> list[Case]:
    """Each check alone, and all of them together."""
    slow = {"requests": 1_000_000, "per": "1s"}
    keyed, tokens = {"required": True, "api_key": True}, {"required": True, "issuers": ["acme"]}
    with_key = f"x-api-key: {key.key}\r\n"
    with_token = f"authorization: {token(rsa, 'RS256')}\r\n"
    networks = [f"10.{n}.0.0/16" for n in range(99)] + ["127.0.0.0/8"]
    return [
        Case("no policy", "plain", {}),
        Case("API key", "keyed", {"authentication": keyed}, with_key),
        Case("token, RS256", "tokens", {"authentication": tokens}, with_token),
        Case(
            "token, ES256",
            "curve",
            {"authentication": tokens},
            f"authorization: {token(curve, 'ES256')}\r\n",
        ),
        Case("one network", "network", {"allow": {"networks": ["127.0.0.0/8"]}}),
        Case("100 networks", "networks", {"allow": {"networks": networks}}),
        Case("rate of all", "total", {"rate_limits": {"total": slow}}),
        Case("rate by address", "nameless", {"rate_limits": {"per_caller": slow}}),
        Case(
            "API key, lists of 1,000, networks, both rates",
            "whole",
            {
                "authentication": keyed,
                "allow": {
                    "callers": [f"caller-{n}" for n in range(1000)],
                    "networks": ["127.0.0.0/8"],
                },
                "rate_limits": {"per_caller": slow, "total": slow},
            },
            with_key,
        ),
    ]


def change(cases: list[Case], turn: int) -> list[Case]:
    """The first case with another policy each turn."""
    other = {"deny": {"networks": [f"10.{turn}.0.0/16"]}}
    return [Case(cases[0].name, cases[0].model, other), *cases[1:]]


def apply(control: Any, cases: list[Case], known: CallerDirectory, revision: int) -> float:
    """Have the gateway take this; milliseconds until it acts on it."""
    node = NodeAddress("n", "127.0.0.1", 9)
    states = tuple(
        EndpointState(
            "production",
            case.model,
            revision,
            weights={1: 10000},
            targets={1: Target(case.model, 1, (node,))},
            access=parse_policy(case.policy),
        )
        for case in cases
    )
    started = time.perf_counter()
    control.apply(
        GatewayState(
            {"production": PORTS["gateway"]},
            states,
            access_log="/dev/null",
            directories={"production": known},
        )
    )
    return (time.perf_counter() - started) * 1000


def compare(pid: int, port: int, cases: dict[str, Case], requests: int, rounds: int) -> None:
    """Processor time of each case, turn by turn; the first is what the others are held against."""
    spent: dict[str, list[float]] = {name: [] for name in cases}
    for turn in range(rounds + 1):
        for name, case in cases.items():
            before = processor_seconds(pid)
            send(port, case, requests)
            if turn:
                spent[name].append((processor_seconds(pid) - before) / requests * 1e6)
    # Others on the machine only ever add: the least of the rounds says most.
    base = min(next(iter(spent.values())))
    for name, values in spent.items():
        figures = {
            "what": name,
            "us_per_request": round(min(values), 1),
            "more_than_without_us": round(min(values) - base, 1),
            "rounds_us": [round(value, 1) for value in values],
        }
        print(json.dumps(figures))


def send(port: int, case: Case, requests: int) -> None:
    """So many requests on one connection, one after the other; each has to be let through (405)."""
    # Asked for by GET, an inference is refused by the route itself, after every check.
    one = f"GET /v2/models/{case.model}/infer HTTP/1.1\r\nhost: a\r\n{case.headers}\r\n".encode()
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        for _ in range(requests):
            connection.sendall(one)
            read = connection.recv(1 << 16)
            while not is_whole(read):
                block = connection.recv(1 << 16)
                if not block:
                    raise SystemExit("the gateway hung up")
                read += block
            if not read.startswith(b"HTTP/1.1 405"):
                raise SystemExit(f"{case.name} is not let through: {read[:400]!r}")


def is_whole(read: bytes) -> bool:
    """Whether an answer has come to its end."""
    head, found, body = read.partition(b"\r\n\r\n")
    if not found:
        return False
    length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
    return len(body) >= length


def processor_seconds(pid: int) -> float:
    """What a process has used of processors since it began, to the nanosecond."""
    threads = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((one / "schedstat").read_text().split()[0]) for one in threads) / 1e9


def measure_native_keys(folder: Path, requests: int, rounds: int) -> None:
    """Envoy's own filter for API keys beside ours, both with 1,000 keys, without anything else."""
    from deployments.adapters.envoy import access
    from deployments.rules.access.rules import AccessRules

    keys = [key_of(number) for number in range(1000)]
    known = CallerDirectory(keys=tuple((k.digest, f"caller-{n}") for n, k in enumerate(keys)))
    native = {
        "@type": f"{_HTTP}.api_key_auth.v3.ApiKeyAuth",
        "key_sources": [{"header": "x-api-key"}],
        "forwarding": {"header": "x-covenant-caller", "hide_credentials": True},
    }
    per_route = {
        **native,
        "@type": f"{_HTTP}.api_key_auth.v3.ApiKeyAuthPerRoute",
        "credentials": [{"key": k.key, "client": f"caller-{n}"} for n, k in enumerate(keys)],
    }
    script = access.callers_config("e", known, ())
    ours = {**script, "disabled": True}
    rules = access.route_filters("e", "m", AccessRules(required=True, api_key=True), ())
    routes = {"plain": {}, "native": {"covenant.native": per_route}, "ours": rules}
    document = static_document(
        [{"name": "covenant.native", "disabled": True, "typed_config": native}, ours],
        routes,
    )
    child = process.spawn(
        envoy.server(envoy.find(), folder / "native", document, concurrency=1),
        folder / "native.log",
    )
    try:
        deadline = time.monotonic() + 20
        while not envoy.is_ready(PORTS["plain_admin"]) and time.monotonic() < deadline:
            time.sleep(0.05)
        header = f"x-api-key: {keys[500].key}\r\n"
        names = {"plain": "no key looked at", "native": "api_key_auth", "ours": "SHA-256 in Lua"}
        cases = {names[one]: Case(names[one], one, {}, header) for one in routes}
        compare(child.pid, PORTS["plain"], cases, requests, rounds)
    finally:
        process.stop(child, 15, seconds=5)


def static_document(
    filters: list[dict[str, Any]], routes: dict[str, dict[str, Any]]
) -> dict[str, Any]:
    """A bootstrap with one listener that answers 405 itself."""
    router = {"name": "router", "typed_config": {"@type": f"{_HTTP}.router.v3.Router"}}
    manager = {
        "@type": "type.googleapis.com/envoy.extensions.filters.network"
        ".http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "plain",
        "http_filters": [*filters, router],
        "route_config": {
            "virtual_hosts": [
                {
                    "name": "all",
                    "domains": ["*"],
                    "routes": [
                        {
                            "match": {"path": f"/v2/models/{name}/infer"},
                            "direct_response": {"status": 405, "body": {"inline_string": "no"}},
                            **({"typed_per_filter_config": one} if one else {}),
                        }
                        for name, one in routes.items()
                    ],
                }
            ]
        },
    }
    chain = {
        "filters": [
            {"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}
        ]
    }
    listener = {
        "name": "plain",
        "address": {"socket_address": {"address": "127.0.0.1", "port_value": PORTS["plain"]}},
        "filter_chains": [chain],
    }
    admin = {"socket_address": {"address": "127.0.0.1", "port_value": PORTS["plain_admin"]}}
    return {"admin": {"address": admin}, "static_resources": {"listeners": [listener]}}


def key_of(number: int) -> NewKey:
    return new_key(number.to_bytes(5, "big"), number.to_bytes(24, "big"))


def issuer(*keys: RSAKey | ECKey) -> Issuer:
    jwks = json.dumps({"keys": [key.as_dict(private=False) for key in keys]})
    return Issuer("acme", ISS, ("models",), "sub", jwks)


def token(key: RSAKey | ECKey, algorithm: str) -> str:
    claims = {"iss": ISS, "aud": "models", "sub": "billing", "exp": int(time.time()) + 36_000}
    return "Bearer " + jwt.encode({"alg": algorithm, "kid": key.kid}, claims, key)


def tell(what: str, took: list[float]) -> None:
    ordered = sorted(took)
    figures = {
        "what": what,
        "p50": round(statistics.median(ordered), 1),
        "max": round(ordered[-1], 1),
        "times": len(ordered),
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
