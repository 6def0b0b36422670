"""Requests that do not fit a model are refused at a real Envoy before a real Triton gets them."""

from __future__ import annotations

import json
import struct
from collections import Counter
from collections.abc import Iterator
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper

from console.adapters.triton import TritonClient
from deployments.adapters import repository
from deployments.adapters.repository import FilePart
from deployments.rules.access.rules import AccessRules, RequestLimits
from deployments.rules.gateways.state import Target
from models_registry.adapters import triton_config
from models_registry.rules.tuning import Tensor, TuningChoice, TuningFacts, plan
from tests import stack
from tests.adapters import request_fuzz
from tests.adapters.edges import (  # noqa: F401 - fixtures
    MODEL,
    Edge,
    edge,
    problem,
    targets,
)
from tests.adapters.gateways import Caller, Reply, read_statistics
from tests.adapters.request_fuzz import RULES
from tests.stack import RunningTriton

JUDGED = "edge_judged"
KINDS = {
    "FP32": TensorProto.FLOAT,
    "FP64": TensorProto.DOUBLE,
    "INT64": TensorProto.INT64,
    "UINT8": TensorProto.UINT8,
    "BOOL": TensorProto.BOOL,
    "BYTES": TensorProto.STRING,
}
SEEDS = 400


@pytest.fixture(scope="module")
def judged(targets: dict[int, Target], triton: RunningTriton) -> Iterator[Target]:
    """A model that gives back what it gets, with an input of each kind."""
    names = {rule.name: (rule.datatype, rule.dims) for rule in RULES.inputs}
    graph = helper.make_graph(
        [helper.make_node("Identity", [name], [f"{name}_out"]) for name in names],
        "judged",
        [helper.make_tensor_value_info(n, KINDS[t], list(d)) for n, (t, d) in names.items()],
        [helper.make_tensor_value_info(f"{n}_out", KINDS[t], d) for n, (t, d) in names.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    facts = TuningFacts(
        model=JUDGED,
        inputs=tuple(Tensor(name, kind, dims) for name, (kind, dims) in names.items()),
        outputs=tuple(Tensor(f"{name}_out", kind, dims) for name, (kind, dims) in names.items()),
    )
    choice = TuningChoice(max_batch_size=RULES.most_rows, queue_delay_us=0, warmup=False)
    config = triton_config.specialise(
        triton_config.render(plan(facts, choice)), triton_model=JUDGED
    )
    repository.place(
        triton.repository,
        triton_model=JUDGED,
        version=1,
        config=[FilePart.of_bytes("config.pbtxt", config.encode())],
        files=[FilePart.of_bytes("model.onnx", model.SerializeToString())],
    )
    with TritonClient(triton.grpc, repository_key=triton.key) as client:
        client.load(JUDGED)
        yield Target(JUDGED, 1, targets[1].nodes)
        client.unload(JUDGED)
    repository.remove_version(triton.repository, JUDGED, 1)
    repository.remove_model(triton.repository, JUDGED)


@pytest.fixture
def caller(edge: Edge, judged: Target) -> Caller:
    edge.apply(weights={5: 10000}, targets={5: judged}, input_rules=RULES)
    return edge.caller()


def send(caller: Caller, sent: request_fuzz.Sent) -> Reply:
    header = {} if sent.header is None else {"inference_header_content_length": sent.header}
    return caller.infer(MODEL, sent.body, **header)


def test_exactly_what_fits_reaches_the_model(edge: Edge, caller: Caller) -> None:
    """A bounded campaign against Python's own reader: nothing good refused, nothing bad let in."""
    found: Counter[bool] = Counter()
    for seed in range(SEEDS):
        sent = request_fuzz.case(seed)
        fits = request_fuzz.is_valid(sent)
        reply = send(caller, sent)
        met = (reply.status, reply.version)
        assert met == ((200, "5") if fits else (422, "")), (seed, sent, reply.body)
        found[fits] += 1
    assert min(found.values()) > SEEDS // 4
    counters = read_statistics(edge.envoy.admin).clusters[f"production/{MODEL}/5"].counters
    assert (counters["total"], counters["ok_2xx"]) == (found[True], found[True])


def whole(**changes: Any) -> dict[str, Any]:
    """A good request of one row; `amounts={"data": …}` changes that input, None takes it out."""
    inputs = {
        "amounts": {"datatype": "FP32", "shape": [1, 3], "data": [1, 2, 3]},
        "counts": {"datatype": "INT64", "shape": [1, 2], "data": [1, 2]},
        "pixels": {"datatype": "UINT8", "shape": [1, 2], "data": [1, 2]},
        "flag": {"datatype": "BOOL", "shape": [1, 1], "data": [True]},
        "words": {"datatype": "BYTES", "shape": [1, 1], "data": ["x"]},
        "loose": {"datatype": "FP64", "shape": [1, 2], "data": [1.5, 2]},
    }
    merged = {
        name: {"name": name, **one, **changes.get(name, {})}
        for name, one in inputs.items()
        if changes.get(name, {}) is not None
    }
    return {"inputs": list(merged.values())}


FAULTS: dict[str, tuple[dict[str, Any], str, str]] = {
    "missing": (whole(flag=None), "/inputs", "'flag'"),
    "unknown": (
        {"inputs": [*whole()["inputs"], {"name": "age", "datatype": "FP32", "shape": [1],
                                         "data": [1]}]},
        "/inputs/6/name", "no such input",
    ),
    "twice": (
        {"inputs": [*whole()["inputs"], whole()["inputs"][0]]}, "/inputs/6/name", "twice"
    ),
    "type": (whole(flag={"datatype": "FP32"}), "/inputs/3/datatype", "BOOL"),
    "rank": (whole(counts={"shape": [2]}), "/inputs/1/shape", "dimensions"),
    "size": (whole(counts={"shape": [1, 3], "data": [1, 2, 3]}), "/inputs/1/shape/1", "is 3"),
    "count": (whole(counts={"data": [1]}), "/inputs/1/data", "There are 1 elements"),
    "text": (whole(amounts={"data": [1, "2", 3]}), "/inputs/0/data/1", "a string"),
    "null": (whole(amounts={"data": [[1, None, 3]]}), "/inputs/0/data/0/1", "null"),
    "boolean": (whole(counts={"data": [1, True]}), "/inputs/1/data/1", "a boolean"),
    "fraction": (whole(counts={"data": [1, 2.0]}), "/inputs/1/data/1", "whole number"),
    "range of the type": (whole(pixels={"data": [1, 256]}), "/inputs/2/data/1", "largest value"),
    "64 bits": (whole(counts={"data": [2**63, 1]}), "/inputs/1/data/0", "INT64"),
    "contract's least": (whole(amounts={"data": [1, -10.01, 3]}), "/inputs/0/data/1", "-10"),
    "contract's most": (whole(pixels={"data": [1, 201]}), "/inputs/2/data/1", "200"),
    "nan": (whole(amounts={"data": [1, float("nan"), 3]}), "/inputs/0/data/1", "NaN"),
    "output": ({**whole(), "outputs": [{"name": "no"}]}, "/outputs/0/name", "no such output"),
    "memory": (
        {**whole(), "outputs": [{"name": "flag_out", "parameters":
                                 {"shared_memory_region": "x"}}]},
        "/outputs/0/parameters/shared_memory_region", "Shared memory",
    ),
    "batch": (
        whole(amounts={"shape": [17, 3], "data": [1] * 51}), "/inputs/0/shape/0", "at most 16"
    ),
    "rows": (whole(amounts={"shape": [2, 3], "data": [1] * 6}), "/inputs/1/shape/0", "2 rows"),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(FAULTS))
def test_each_fault_is_told_with_its_place(caller: Caller, name: str) -> None:
    body, pointer, words = FAULTS[name]
    reply = caller.infer(MODEL, json.dumps(body).encode(), x_request_id="refused-1")
    assert problem(reply) == (422, "invalid_input")
    assert reply.json["request_id"] == "refused-1"
    told = {one["pointer"]: one["detail"] for one in reply.json["errors"]}
    assert words in told[pointer], told


def test_all_faults_are_told_at_once_and_the_first_is_logged(edge: Edge, caller: Caller) -> None:
    body = whole(amounts={"data": [1, "2", 3]}, counts={"shape": [2]}, flag=None)
    reply = caller.infer(MODEL, body, x_request_id="refused-2")
    assert caller.infer(MODEL, whole(), x_request_id="good-2").status == 200
    assert [one["pointer"] for one in reply.json["errors"]] == [
        "/inputs/0/data/1", "/inputs/1/shape", "/inputs",
    ]  # fmt: skip
    assert "(3 faults in all)" in reply.json["detail"]

    def logged() -> dict[str, tuple[int, str | None]]:
        lines = [json.loads(line) for line in edge.log.read_text().splitlines()]
        return {one["x_request_id"]: (one["status"], one["refused"]) for one in lines}

    stack.wait_until("access log", lambda: "good-2" in logged(), edge.envoy.process, edge.envoy.log)
    assert logged()["refused-2"] == (422, "/inputs/0/data/1")
    assert logged()["good-2"] == (200, None)


def test_binary_data_is_looked_at_as_well(caller: Caller) -> None:
    def sent(values: tuple[float, ...], size: int = 12) -> Reply:
        body = whole()
        body["inputs"][0] = {
            "name": "amounts", "datatype": "FP32", "shape": [1, 3],
            "parameters": {"binary_data_size": size},
        }  # fmt: skip
        head = json.dumps(body).encode()
        raw = struct.pack(f"<{len(values)}f", *values)
        return caller.infer(MODEL, head + raw, inference_header_content_length=str(len(head)))

    assert sent((1, 2, 10.5)).status == 200
    for values, size, pointer in (
        ((1, float("nan"), 3), 12, "/inputs/0/data/1"),
        ((1, 2, 11), 12, "/inputs/0/data/2"),
        ((1, 2), 8, "/inputs/0/parameters/binary_data_size"),
        ((1, 2, 3, 4), 12, ""),
    ):
        reply = sent(values, size)
        assert problem(reply) == (422, "invalid_input")
        assert reply.json["errors"][0]["pointer"] == pointer


def test_a_bodys_limit_and_the_contracts_own_code(edge: Edge, judged: Target) -> None:
    rules = AccessRules(limits=RequestLimits(max_body_bytes=2000))
    edge.apply(
        weights={5: 10000}, targets={5: judged}, input_rules=RULES, access=rules,
        invalid_code="bad_features",
    )  # fmt: skip
    caller = edge.caller()
    assert caller.infer(MODEL, whole()).status == 200
    assert problem(caller.infer(MODEL, whole(flag=None))) == (422, "bad_features")
    large = json.dumps(whole()).encode() + b" " * 2000
    assert problem(caller.infer(MODEL, large)) == (413, "body_too_large")
    assert caller.infer(MODEL, whole()).status == 200


def test_of_a_very_large_body_the_elements_are_left_to_triton(caller: Caller) -> None:
    count = 2_200_000
    plain = json.dumps(whole(pixels={"shape": [1, count], "data": ["here"]}))

    def sent(last: str, claimed: int = count) -> Reply:
        text = plain.replace('"here"', "1," * (count - 1) + last).replace(str(count), str(claimed))
        return caller.infer(MODEL, text.encode())

    good = sent("1")
    assert (good.status, good.version) == (200, "5")
    wrong = sent('"x"')
    assert (problem(wrong), wrong.version) == ((422, "invalid_input"), "5")
    claims = sent("1", 10**12)
    assert (problem(claims), claims.version) == ((422, "invalid_input"), "")
    assert claims.json["errors"][0]["pointer"] == "/inputs/2/shape"


def test_large_headers_are_refused_before_a_version_can_fail_them(
    edge: Edge, caller: Caller
) -> None:
    body = json.dumps(whole()).encode()
    for length in (7_700, 8_300, 20_000, 70_000):
        # Its name counts, too, and those of all other headers.
        reply = caller.infer(MODEL, body, x_note="a" * length)
        assert reply.status == (200 if length == 7_700 else 431), length
    for spread in (5, 20):
        many = {f"x_note_{index}": "a" * 1000 for index in range(spread)}
        assert caller.infer(MODEL, body, **many).status == (200 if spread == 5 else 431)
    counters = read_statistics(edge.envoy.admin).clusters[f"production/{MODEL}/5"].counters
    assert (counters["total"], counters["ok_2xx"]) == (2, 2)
