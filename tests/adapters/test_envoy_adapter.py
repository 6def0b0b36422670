"""What callers meet at a real Envoy in front of a real Triton: routing, fallback, counting."""

from __future__ import annotations

import json
import re
import struct
import threading
import time
from collections import Counter

from deployments.rules.gateways.state import HeaderRule, Mirror, Mode, NodeAddress, Target
from deployments.rules.statistics.answers import Answer
from deployments.rules.statistics.histograms import share_at_most
from tests.adapters.edges import (  # noqa: F401 - fixtures
    FALLBACK,
    MODEL,
    NEXT,
    Edge,
    edge,
    factor,
    problem,
    statistics_after_flush,
    targets,
)
from tests.adapters.gateways import Upstream, read_statistics
from tests.adapters.onnx_models import COLUMNS, request


def test_a_split_is_kept_and_callers_stay_where_they_are(edge: Edge) -> None:
    edge.apply(weights={1: 9500, 2: 500})
    caller = edge.caller()
    versions = {}
    for user in range(1000):
        reply = caller.infer(MODEL, request(1.0), x_user_id=f"user-{user}")
        assert factor(reply) == float(reply.version)
        versions[user] = reply.version
    shares = Counter(versions.values())
    assert shares["1"] + shares["2"] == 1000
    # 50 are expected; five standard deviations of a binomial are 34.
    assert 16 <= shares["2"] <= 84
    second = [user for user, version in versions.items() if version == "2"][:3]
    for user in (*second, 0, 1):
        again = {caller.infer(MODEL, request(1.0), x_user_id=f"user-{user}").version}
        assert again == {versions[user]}
    edge.apply(weights={1: 9000, 2: 1000})
    for user in second:
        assert caller.infer(MODEL, request(1.0), x_user_id=f"user-{user}").version == "2"


def test_a_version_in_several_places_keeps_its_callers(edge: Edge) -> None:
    people = [f"user-{number}" for number in range(600)]
    caller = edge.caller()

    def who() -> list[str]:
        return [caller.infer(MODEL, request(1.0), x_user_id=user).version for user in people]

    edge.apply(weights={1: 7000, 2: 3000}, slices=((1, 2000), (2, 1000), (1, 5000), (2, 2000)))
    before = who()
    assert 110 <= Counter(before)["2"] <= 250
    edge.apply(weights={1: 6000, 2: 4000}, slices=((1, 2000), (2, 2000), (1, 4000), (2, 2000)))
    after = who()
    moved = [old + new for old, new in zip(before, after, strict=True) if old != new]
    assert set(moved) == {"12"}
    assert 30 <= len(moved) <= 95


def test_callers_without_identity_are_split_as_well(edge: Edge) -> None:
    edge.apply(weights={1: 5000, 2: 5000})
    caller = edge.caller()
    shares = Counter(caller.infer(MODEL, request(1.0)).version for _ in range(200))
    assert min(shares["1"], shares["2"]) > 50


def test_a_flip_moves_every_request_and_fails_none(edge: Edge) -> None:
    stop = threading.Event()
    answers: list[tuple[int, str]] = []

    def call(user: int) -> None:
        caller = edge.caller()
        while not stop.is_set():
            reply = caller.infer(MODEL, request(1.0), x_user_id=f"user-{user}")
            answers.append((reply.status, reply.version))

    threads = [threading.Thread(target=call, args=(user,)) for user in range(3)]
    for thread in threads:
        thread.start()
    try:
        caller = edge.caller()
        for turn in range(10):
            version = 2 - turn % 2
            edge.apply(weights={version: 10000})
            while caller.infer(MODEL, request(1.0)).version != str(version):
                pass
            assert {caller.infer(MODEL, request(1.0)).version for _ in range(20)} == {str(version)}
    finally:
        stop.set()
        for thread in threads:
            thread.join(10)
    assert {status for status, _ in answers} == {200}
    assert {version for _, version in answers} == {"1", "2"}


def test_request_ids_are_kept_or_made_and_versions_cannot_be_faked(edge: Edge) -> None:
    caller = edge.caller()
    kept = caller.infer(MODEL, request(1.0), x_request_id="my-id-1", x_model_version="77")
    assert kept.headers["x-request-id"] == "my-id-1"
    assert kept.version == "1"
    made = {caller.infer(MODEL, request(1.0)).headers["x-request-id"] for _ in range(5)}
    assert len(made) == 5
    assert all(re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", one) for one in made)


def test_an_upstream_can_neither_see_nor_say_another_version(edge: Edge) -> None:
    upstream = Upstream("7")
    try:
        node = NodeAddress("n", "127.0.0.1", upstream.port)
        edge.apply(weights={7: 10000}, targets={7: Target(NEXT, 5, (node,))})
        reply = edge.caller().infer(
            MODEL,
            request(1.0),
            x_model_version="1",
            x_covenant_fallback="yes",
            x_request_id="my-id-2",
        )
    finally:
        upstream.stop()
    assert reply.version == "7"
    assert upstream.paths == [f"/v2/models/{NEXT}/versions/5/infer"]
    assert "x-model-version" not in upstream.headers[0]
    assert "x-covenant-fallback" not in upstream.headers[0]
    assert upstream.headers[0]["x-request-id"] == "my-id-2"


def test_rules_pins_and_descriptions_reach_their_version(edge: Edge) -> None:
    edge.apply(weights={1: 10000}, header_rules=(HeaderRule("X-Exp-Id", "42", 2),))
    caller = edge.caller()
    assert factor(caller.infer(MODEL, request(1.0), x_exp_id="42")) == 2.0
    assert factor(caller.infer(MODEL, request(1.0), x_exp_id="43")) == 1.0
    pinned = f"/v2/models/{MODEL}/versions/2"
    assert factor(caller.send("POST", f"{pinned}/infer?trace=1", request(1.0))) == 2.0
    assert caller.send("GET", f"{pinned}/ready").status == 200
    assert caller.send("GET", pinned).json["name"] == NEXT
    assert caller.send("GET", f"/v2/models/{MODEL}/ready").status == 200
    described = caller.send("GET", f"/v2/models/{MODEL}").json
    assert described["name"] == MODEL
    assert described["inputs"][0]["shape"] == [-1, COLUMNS]


def test_what_is_not_served_is_a_problem(edge: Edge) -> None:
    caller = edge.caller()
    for method, path, wanted in (
        ("POST", "/v2/models/nobody/infer", (404, "model_not_found")),
        ("POST", f"/v2/models/{MODEL}/versions/9/infer", (404, "model_not_found")),
        ("POST", f"/v2/models/{MODEL}x/infer", (404, "model_not_found")),
        ("POST", f"/v2/repository/models/{MODEL}/unload", (404, "model_not_found")),
        ("GET", f"/v2/models/{MODEL}/stats", (404, "model_not_found")),
        ("GET", f"/v2/models/{MODEL}/infer", (405, "method_not_allowed")),
        ("POST", f"/v2/models/{MODEL}/ready", (405, "method_not_allowed")),
        ("POST", f"/v1/models/{MODEL}:predict", (404, "model_not_found")),
    ):
        reply = caller.send(method, path, {"inputs": []} if method == "POST" else None)
        assert problem(reply) == wanted, path
        assert reply.headers["x-request-id"]


def test_binary_tensors_pass_unchanged(edge: Edge) -> None:
    edge.apply(weights={2: 10000})
    values = [1.5, 2.5, 3.5, 4.5]
    raw = struct.pack("<4f", *values)
    head = json.dumps(
        {
            "inputs": [
                {
                    "name": "features",
                    "datatype": "FP32",
                    "shape": [1, COLUMNS],
                    "parameters": {"binary_data_size": len(raw)},
                }
            ],
            "outputs": [{"name": "score", "parameters": {"binary_data": True}}],
        }
    ).encode()
    reply = edge.caller().infer(MODEL, head + raw, inference_header_content_length=str(len(head)))
    assert reply.status == 200
    size = int(reply.headers["inference-header-content-length"])
    assert struct.unpack("<4f", reply.body[size:]) == (3.0, 5.0, 7.0, 9.0)


def test_fallback_answers_in_the_callers_own_protocol(edge: Edge) -> None:
    edge.apply(mode=Mode.FALLBACK)
    caller = edge.caller()
    body = {"id": "call-9", **request(1.0, 2.0, 3.0)}
    reply = caller.infer(MODEL, body, x_request_id="my-id-3")
    assert reply.status == 200
    assert reply.headers["x-covenant-fallback"] == "model_down"
    assert reply.version == "fallback"
    assert reply.headers["x-request-id"] == "my-id-3"
    assert reply.json == {
        "id": "call-9",
        "model_name": MODEL,
        "parameters": {"fallback": True, "reason": "model_down"},
        "outputs": [
            {
                "name": "score",
                "datatype": "FP32",
                "shape": [3, COLUMNS],
                "data": [0.25] * 3 * COLUMNS,
            },
            {"name": "label", "datatype": "BYTES", "shape": [3, 1], "data": ["unknown"] * 3},
        ],
    }
    pinned = caller.send("POST", f"/v2/models/{MODEL}/versions/1/infer", request(1.0))
    assert pinned.json["outputs"][0]["shape"] == [1, COLUMNS]
    plain = {"score": 0.25, "label": "unknown", "reason": "model_down"}
    assert caller.send("POST", f"/v1/models/{MODEL}:predict", {"features": [1]}).json == plain
    asked = caller.infer(MODEL, request(1.0), accept="application/json;format=plain")
    assert asked.json == plain
    assert caller.send("GET", f"/v2/models/{MODEL}/ready").status == 200
    described = caller.send("GET", f"/v2/models/{MODEL}").json
    assert [(o["name"], o["shape"]) for o in described["outputs"]] == [
        ("score", [-1, COLUMNS]),
        ("label", [-1, 1]),
    ]


def test_fallback_survives_hostile_bodies(edge: Edge) -> None:
    edge.apply(mode=Mode.FALLBACK)
    caller = edge.caller()
    large = {"inputs": [{"name": "features", "data": [0.5] * 500_000, "shape": [2, 250_000]}]}
    assert caller.infer(MODEL, large).json["outputs"][0]["shape"] == [2, COLUMNS]
    assert caller.infer(MODEL, b"{ this is no JSON").json["outputs"][0]["shape"] == [1, COLUMNS]
    assert caller.infer(MODEL, b"").json["outputs"][0]["shape"] == [1, COLUMNS]
    assert caller.infer(MODEL, b'{"inputs":[{"shape":[0,4]}]}').json["outputs"][0]["data"] == []
    huge = caller.infer(MODEL, b'{"inputs":[{"shape":[99999999999999999999,4]}]}')
    assert problem(huge) == (422, "batch_too_large")
    escaped = json.dumps({"id": 'a"b', "inputs": [{"data": ['"shape": [9'], "shape": [2, 1]}]})
    reply = caller.infer(MODEL, escaped.encode())
    assert reply.json["outputs"][0]["shape"] == [2, COLUMNS]
    assert "id" not in reply.json


def test_an_open_circuit_answers_everybody_with_the_contracts_code(edge: Edge) -> None:
    edge.apply(mode=Mode.OPEN, unavailable_code="fraud_service_down", retry_after_s=120)
    caller = edge.caller()
    for method, path in (
        ("POST", f"/v2/models/{MODEL}/infer"),
        ("POST", f"/v2/models/{MODEL}/versions/1/infer"),
        ("POST", f"/v1/models/{MODEL}:predict"),
        ("GET", f"/v2/models/{MODEL}/ready"),
    ):
        reply = caller.send(method, path, request(1.0) if method == "POST" else None)
        assert problem(reply) == (503, "fraud_service_down")
        assert reply.headers["retry-after"] == "120"
    edge.apply(weights={1: 10000})
    assert factor(caller.infer(MODEL, request(1.0))) == 1.0


def test_an_endpoint_without_any_version_is_open(edge: Edge) -> None:
    edge.apply(weights={}, targets={})
    assert problem(edge.caller().infer(MODEL, request(1.0))) == (503, "model_unavailable")


def test_everything_is_counted_where_it_was_answered(edge: Edge) -> None:
    caller = edge.caller()
    edge.apply(weights={1: 10000}, mirror=Mirror(2))
    for _ in range(12):
        assert caller.infer(MODEL, request(1.0)).version == "1"
    for _ in range(3):
        assert caller.infer(MODEL, {"inputs": []}).status == 400
    edge.apply(mode=Mode.FALLBACK, mirror=Mirror(2))
    for _ in range(5):
        caller.infer(MODEL, request(1.0))
    edge.apply(mode=Mode.OPEN, mirror=Mirror(2))
    for _ in range(4):
        caller.infer(MODEL, request(1.0))
    version = statistics_after_flush(edge, 15, f"production/{MODEL}/1")
    sample = read_statistics(edge.envoy.admin)
    counters = version.counters
    assert (counters["total"], counters["ok_2xx"], counters["client_4xx"]) == (15, 12, 3)
    assert counters["healthy"] == counters["members"] == 1
    assert version.latency.total == 15
    assert share_at_most(version.latency, 5000) == 1.0
    shadow = sample.clusters[f"production/{MODEL}/2/shadow"].counters
    assert (shadow["total"], shadow["ok_2xx"]) == (15, 12)
    assert sample.clusters[f"production/{MODEL}/2"].counters["total"] == 0
    assert sample.clusters[f"production/{MODEL}/fallback"].counters["ok_2xx"] == 5
    assert sample.clusters[f"production/{MODEL}/open"].counters["server_5xx"] == 4
    stem = f"production/{MODEL}"
    assert sample.callers["production", MODEL] == {
        Answer(200, f"{stem}/1", "1").name: 12,
        Answer(400, f"{stem}/1", "1").name: 3,
        Answer(200, f"{stem}/fallback", "fallback").name: 5,
        Answer(503, f"{stem}/open", "").name: 4,
    }
    assert 0 <= sample.uptime_s < 120
    assert time.time() - 120 < sample.started_at <= time.time()
