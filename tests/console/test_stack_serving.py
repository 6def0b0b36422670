"""The embedded Triton with our `onnxruntime` backend, and the embedded Envoy, for real."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import tritonclient.grpc as triton_grpc
from onnx import TensorProto, helper
from tritonclient.utils import InferenceServerException

from console.stack import envoy, web
from console.stack.errors import ProgramMissing
from console.stack.triton import KEY_NAME, build_backends, find
from tests.stack import RunningEnvoy, RunningTriton

RANDOM = np.random.default_rng(7)
# Values must differ from each other: a constant hides a broken stride.
VALUES: dict[str, tuple[int, Any]] = {
    "FP32": (TensorProto.FLOAT, RANDOM.normal(size=(3, 7)).astype(np.float32)),
    "FP16": (TensorProto.FLOAT16, RANDOM.normal(size=(3, 7)).astype(np.float16)),
    "FP64": (TensorProto.DOUBLE, RANDOM.normal(size=(3, 7))),
    "INT32": (TensorProto.INT32, RANDOM.integers(-99, 99, (3, 7), dtype=np.int32)),
    "INT64": (TensorProto.INT64, RANDOM.integers(-99, 99, (3, 7), dtype=np.int64)),
    "UINT8": (TensorProto.UINT8, RANDOM.integers(0, 255, (3, 7), dtype=np.uint8)),
    "BOOL": (TensorProto.BOOL, RANDOM.integers(0, 2, (3, 7)).astype(np.bool_)),
    "STRING": (
        TensorProto.STRING,
        np.array([[b"ab", b"", "信用".encode()], [b"x", b"y", b"z"]], dtype=np.object_),
    ),
}


class Models:
    """Puts small models into the repository, loads them with the key, and takes them out."""

    def __init__(self, triton: RunningTriton) -> None:
        self.repository = triton.repository
        self.client = triton_grpc.InferenceServerClient(triton.grpc)
        self.headers = {f"triton-grpc-protocol-{KEY_NAME}": triton.key}
        self.loaded: list[str] = []

    def write(
        self, name: str, kind: str = "FP32", *, op: str = "Identity", extra: str = ""
    ) -> Path:
        """The version folder of a model `x` -> `y` with the one operator `op`."""
        element = VALUES[kind][0]
        tensors = [helper.make_tensor_value_info(n, element, ["batch", "n"]) for n in "xy"]
        graph = helper.make_graph(
            [helper.make_node(op, ["x"], ["y"])], "g", *([t] for t in tensors)
        )
        opset = [helper.make_opsetid("", 17)]
        folder = self.repository / name / "1"
        folder.mkdir(parents=True)
        onnx.save(
            helper.make_model(graph, opset_imports=opset, ir_version=8), folder / "model.onnx"
        )
        (folder.parent / "config.pbtxt").write_text(
            f'name: "{name}" platform: "onnxruntime_onnx" max_batch_size: 8 {extra}\n'
            f'input [ {{ name: "x" data_type: TYPE_{kind} dims: [ -1 ] }} ]\n'
            f'output [ {{ name: "y" data_type: TYPE_{kind} dims: [ -1 ] }} ]\n'
        )
        return folder

    def load(self, name: str) -> None:
        self.loaded.append(name)
        self.client.load_model(name, headers=self.headers)

    def infer(self, name: str, value: Any, kind: str = "FP32") -> Any:
        tensor = triton_grpc.InferInput("x", value.shape, "BYTES" if kind == "STRING" else kind)
        tensor.set_data_from_numpy(value)
        return self.client.infer(name, [tensor]).as_numpy("y")


@pytest.fixture
def models(triton: RunningTriton) -> Iterator[Models]:
    made = Models(triton)
    yield made
    for name in made.loaded:
        made.client.unload_model(name, headers=made.headers)
    made.client.close()


@pytest.mark.parametrize("kind", VALUES)
def test_every_dtype_comes_back_as_it_was_sent(models: Models, kind: str) -> None:
    name = f"same_{kind.lower()}"
    models.write(name, kind)
    models.load(name)
    value = VALUES[kind][1]
    answer = models.infer(name, value, kind)
    assert answer.shape == value.shape
    assert (answer == value).all()


def test_another_file_name_is_honoured(models: Models) -> None:
    folder = models.write("renamed", extra='default_model_filename: "scorer.onnx"')
    (folder / "model.onnx").rename(folder / "scorer.onnx")
    models.load("renamed")
    value = VALUES["FP32"][1]
    assert (models.infer("renamed", value) == value).all()


def test_a_missing_file_is_named_when_loading(models: Models) -> None:
    folder = models.write("hollow")
    (folder / "model.onnx").unlink()
    with pytest.raises(InferenceServerException, match=r"model\.onnx is missing in version folder"):
        models.load("hollow")


def test_names_that_are_not_in_the_file_are_refused_when_loading(models: Models) -> None:
    folder = models.write("misnamed")
    config = folder.parent / "config.pbtxt"
    config.write_text(config.read_text().replace('name: "y"', 'name: "score"'))
    with pytest.raises(InferenceServerException, match=r"outputs \['score'\] are not those"):
        models.load("misnamed")


def test_one_bad_request_of_a_batch_does_not_hurt_the_others(models: Models) -> None:
    batching = "dynamic_batching { max_queue_delay_microseconds: 100000 }"
    models.write("refuser", "STRING", extra=batching)
    models.load("refuser")
    good, bad = np.array([[b"fine"]], dtype=np.object_), np.array([[b"\xff"]], dtype=np.object_)
    answers: dict[int, Any] = {}
    for number, value in enumerate([good, bad, good]):
        tensor = triton_grpc.InferInput("x", value.shape, "BYTES")
        tensor.set_data_from_numpy(value)
        models.client.async_infer(
            "refuser",
            [tensor],
            callback=lambda result, error, n=number: answers.update({n: error or result}),
        )
    deadline = time.monotonic() + 10
    while len(answers) < 3 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert "onnx runtime error" in str(answers[1])
    assert answers[0].as_numpy("y").tolist() == answers[2].as_numpy("y").tolist() == [[b"fine"]]


def test_the_repository_is_locked_by_the_key(models: Models, triton: RunningTriton) -> None:
    models.write("locked")
    wrong = {f"triton-grpc-protocol-{KEY_NAME}": "guess"}
    for headers in ({}, wrong):
        with pytest.raises(InferenceServerException, match="restricted"):
            models.client.load_model("locked", headers=headers)
    assert web.status(f"http://{triton.http}/v2/health/ready") == 200
    assert not models.client.is_model_ready("locked")


def test_the_backends_are_built_only_when_something_has_changed(tmp_path: Path) -> None:
    folder = build_backends(find(), tmp_path)
    stub = folder / "python" / "triton_python_backend_stub"
    before = stub.stat().st_ctime_ns
    build_backends(find(), tmp_path)
    assert stub.stat().st_ctime_ns == before
    (folder / ".stamp").write_text("of another release")
    build_backends(find(), tmp_path)
    assert stub.stat().st_ctime_ns != before


def test_missing_programs_are_named_with_the_next_step(tmp_path: Path) -> None:
    with pytest.raises(ProgramMissing, match=r"Triton is missing .* `make setup`"):
        find(tmp_path)
    with pytest.raises(ProgramMissing, match=r"Envoy is missing .* `make setup`"):
        envoy.find(tmp_path)


def test_envoy_takes_the_bootstrap_and_counts_in_our_buckets(
    envoy_factory: Callable[..., RunningEnvoy], free_port: Callable[[], int]
) -> None:
    admin, ads = free_port(), free_port()
    document = envoy.bootstrap(admin_port=admin, ads_port=ads, bounds_ms=(7, 80, 80, 35))
    running = envoy_factory(document, wait=False)
    deadline = time.monotonic() + 10
    status, body = 0, b""
    while status != 200 and time.monotonic() < deadline and running.process.poll() is None:
        status, body = web.get(f"http://{running.admin}/config_dump")
    dumped = json.loads(body)["configs"][0]["bootstrap"]
    assert dumped["node"]["id"] == "embedded"
    assert dumped["node"]["cluster"] == "covenant"
    assert dumped["stats_config"]["histogram_bucket_settings"][0]["buckets"] == [7, 35, 80]
    # No control plane answers, so it must not be taken for ready.
    assert not envoy.is_ready(admin)


def test_latency_buckets_reach_from_half_a_millisecond_to_ten_seconds() -> None:
    bounds = envoy.LATENCY_BOUNDS_MS
    assert list(bounds) == sorted(set(bounds))
    assert (bounds[0], bounds[-1]) == (0.5, 10000)
