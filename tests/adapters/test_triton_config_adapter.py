"""`config.pbtxt` is what Triton's own protobuf prints, and a real Triton loads it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from onnx import TensorProto, helper

from console.adapters.triton import TritonClient
from console.errors import Invalid
from deployments.adapters import repository
from deployments.adapters.repository import FilePart
from models_registry.adapters import triton_config
from models_registry.adapters.triton_config import parse, render, same_serving_config, specialise
from models_registry.rules.tuning import Tensor, TuningChoice, TuningFacts, plan
from tests.stack import RunningTriton

FACTS = TuningFacts(
    model="fraud_detector",
    inputs=(Tensor("features", "FP32", ("batch", 10)),),
    outputs=(Tensor("risk_score", "FP32", ("batch", 1)),),
    mean_latency_ms=2.5,
    sample={"features": (1, 10)},
)


def test_the_config_says_all_that_production_needs() -> None:
    config = parse(render(plan(FACTS)))
    assert (config.name, config.platform) == ("fraud_detector", "onnxruntime_onnx")
    assert config.max_batch_size == 32
    assert [(i.name, i.data_type, list(i.dims)) for i in config.input] == [("features", 11, [10])]
    assert [(o.name, o.data_type, list(o.dims)) for o in config.output] == [("risk_score", 11, [1])]
    assert config.version_policy.HasField("all")
    assert config.default_model_filename == "model.onnx"
    assert config.dynamic_batching.max_queue_delay_microseconds == 1500
    assert config.dynamic_batching.HasField("default_queue_policy")
    assert [(g.count, g.kind) for g in config.instance_group] == [(1, 0)]
    assert config.model_warmup[0].inputs["features"].input_data_file == "features"
    assert dict(config.metric_tags) == {"model": "fraud_detector"}


def test_what_a_person_set_is_written() -> None:
    choice = TuningChoice(
        preferred_batch_sizes=(4, 8),
        default_timeout_us=500_000,
        max_queue_size=64,
        priority_levels=3,
        default_priority_level=1,
        response_cache=True,
        instance_count=2,
    )
    config = parse(render(plan(FACTS, choice)))
    batching = config.dynamic_batching
    assert list(batching.preferred_batch_size) == [4, 8]
    assert batching.default_queue_policy.timeout_action == 0
    assert batching.default_queue_policy.default_timeout_microseconds == 500_000
    assert batching.default_queue_policy.max_queue_size == 64
    assert (batching.priority_levels, batching.default_priority_level) == (3, 1)
    assert config.response_cache.enable
    assert config.instance_group[0].count == 2


def test_equal_plans_give_equal_text() -> None:
    assert render(plan(FACTS)) == render(plan(replace(FACTS)))


def test_a_node_gets_its_own_name_and_devices() -> None:
    signed = render(plan(FACTS))
    on_cpu = parse(specialise(signed, triton_model="fraud_detector_g2"))
    assert on_cpu.name == "fraud_detector_g2"
    assert [(g.kind, list(g.gpus)) for g in on_cpu.instance_group] == [(2, [])]
    on_gpu = parse(specialise(signed, triton_model="fraud_detector", gpus=[1, 0]))
    assert [(g.kind, list(g.gpus)) for g in on_gpu.instance_group] == [(1, [0, 1])]
    again = specialise(signed, triton_model="fraud_detector", gpus=[0, 1])
    assert again == specialise(signed, triton_model="fraud_detector", gpus=[1, 0])


def test_only_the_name_may_differ_in_one_serving_model() -> None:
    signed = render(plan(FACTS))
    assert same_serving_config(signed, render(plan(replace(FACTS, model="fraud_detector"))))
    renamed = signed.replace('name: "fraud_detector"', 'name: "other"', 1)
    assert same_serving_config(signed, renamed)
    retuned = render(plan(FACTS, TuningChoice(max_batch_size=16)))
    assert not same_serving_config(signed, retuned)


def test_what_is_no_config_is_refused() -> None:
    with pytest.raises(Invalid, match="no config") as caught:
        parse("priority: 3")
    assert caught.value.code == "invalid_triton_config"


def test_an_unknown_datatype_is_refused() -> None:
    facts = replace(FACTS, inputs=(Tensor("features", "COMPLEX64", ("batch", 10)),), sample=None)
    with pytest.raises(Invalid) as caught:
        render(plan(facts))
    assert caught.value.code == "unsupported_dtype"


def test_a_recorded_input_must_be_there() -> None:
    chosen = plan(FACTS)
    assert triton_config.warmup_files(chosen, {"features": b"1234"}) == {"warmup/features": b"1234"}
    with pytest.raises(Invalid) as caught:
        triton_config.warmup_files(chosen, {})
    assert caught.value.code == "sample_incomplete"


IDENTITY_CASES = [
    # name, dtype of ONNX and of the protocol, all dimensions, sample's shape, request's shape
    ("batched", TensorProto.FLOAT, "FP32", ("batch", 3), (1, 3), [2, 3]),
    ("rows", TensorProto.FLOAT, "FP32", ("batch",), (1,), [2, 1]),
    ("fixed", TensorProto.FLOAT, "FP32", (2, 3), (2, 3), [2, 3]),
    ("tokens", TensorProto.INT64, "INT64", ("batch", "sequence"), None, [2, 5]),
    ("text", TensorProto.STRING, "BYTES", ("batch", 2), (1, 2), [2, 2]),
]


@pytest.fixture
def client(triton: RunningTriton) -> Iterator[TritonClient]:
    with TritonClient(triton.grpc, repository_key=triton.key) as client:
        yield client


@pytest.mark.parametrize(
    ("name", "onnx_type", "datatype", "dims", "sample", "shape"),
    IDENTITY_CASES,
    ids=[case[0] for case in IDENTITY_CASES],
)
def test_a_real_triton_loads_warms_up_and_runs_it(
    client: TritonClient,
    triton: RunningTriton,
    name: str,
    onnx_type: int,
    datatype: str,
    dims: tuple[int | str, ...],
    sample: tuple[int, ...] | None,
    shape: list[int],
) -> None:
    model = f"config_{name}"
    values = [helper.make_tensor_value_info(n, onnx_type, list(dims)) for n in ("x", "y")]
    graph = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["y"])], "g", *[[v] for v in values]
    )
    onnx = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    facts = TuningFacts(
        model=model,
        inputs=(Tensor("x", datatype, dims),),
        outputs=(Tensor("y", datatype, dims),),
        sample={"x": sample} if sample else None,
    )
    chosen = plan(facts)
    text = specialise(render(chosen), triton_model=model)
    size = 4 * _product(sample)
    warmup = triton_config.warmup_files(chosen, {"x": b"\x00" * size})
    repository.place(
        triton.repository,
        triton_model=model,
        version=1,
        config=[
            FilePart.of_bytes("config.pbtxt", text.encode()),
            *(FilePart.of_bytes(path, data) for path, data in warmup.items()),
        ],
        files=[FilePart.of_bytes("model.onnx", onnx.SerializeToString())],
    )
    try:
        client.load(model)
        assert client.model_ready(model, 1)
        count = _product(shape)
        data: list[object] = list(range(count))
        if datatype == "FP32":
            data = [float(value) + 0.5 for value in range(count)]
        if datatype == "BYTES":
            data = [f"word {value}" for value in range(count)]
        tensor = {"name": "x", "datatype": datatype, "shape": shape, "data": data}
        (answer,) = client.infer(model, 1, [tensor]).outputs
        assert answer["data"] == data
        assert answer["shape"] == shape
    finally:
        client.unload(model)
        repository.remove_version(triton.repository, model, 1)
        repository.remove_model(triton.repository, model)


def _product(shape: tuple[int, ...] | list[int] | None) -> int:
    result = 1
    for size in shape or ():
        result *= size
    return result
