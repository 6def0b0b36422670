"""The Triton client against a real Triton."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator

import pytest

from console.adapters.triton import Timeouts, TritonClient
from console.errors import Invalid, Unavailable
from deployments.adapters import repository
from deployments.adapters.repository import FilePart
from tests.adapters.onnx_models import (
    COLUMNS,
    LIBRARY,
    place_scaled,
    place_upper,
    request,
    serve,
)
from tests.stack import RunningTriton

_NAMES = itertools.count(1)


@pytest.fixture
def client(triton: RunningTriton) -> Iterator[TritonClient]:
    with TritonClient(triton.grpc, repository_key=triton.key) as client:
        yield client


@pytest.fixture
def model(triton: RunningTriton, client: TritonClient) -> Iterator[str]:
    """The name of a Triton model that is unloaded and removed after the test."""
    name = f"adapter_model_{next(_NAMES)}"
    yield name
    client.unload(name)
    for found in repository.present(triton.repository):
        if found.triton_model == name:
            repository.remove_version(triton.repository, name, found.version)
    repository.remove_model(triton.repository, name)


def tensors(*rows: float) -> list[dict[str, object]]:
    return request(*rows)["inputs"]  # type: ignore[return-value]


def test_the_server_describes_itself(client: TritonClient) -> None:
    assert client.live()
    assert client.ready()
    metadata = client.metadata()
    assert metadata.name == "triton"
    assert metadata.version.startswith("2.")
    assert "model_repository" in metadata.extensions


def test_a_version_is_placed_loaded_run_and_counted(
    client: TritonClient, triton: RunningTriton, model: str
) -> None:
    assert not client.model_ready(model, 1)
    serve(client, triton.repository, model, 1, 2)
    assert client.model_ready(model, 1)
    assert client.model_ready(model, 2)
    assert not client.model_ready(model, 3)
    answer = client.infer(model, 2, tensors(1.0, 1.5), outputs=["score"])
    assert answer.outputs == (
        {
            "name": "score",
            "datatype": "FP32",
            "shape": [2, COLUMNS],
            "data": [2.0] * COLUMNS + [3.0] * COLUMNS,
        },
    )
    assert (answer.model, answer.version) == (model, "2")
    assert answer.duration_ms > 0
    first, second = client.statistics(model)
    assert (first.version, second.version) == (1, 2)
    # Triton counts the warm-up's one row too, mostly.
    assert first.inference_count in (0, 1)
    assert second.inference_count - first.inference_count in (1, 2, 3)
    assert 1 <= second.execution_count == second.success.count <= 2
    assert second.compute_infer.ns > 0
    assert (2, 1) in second.batches
    assert second.last_inference_ms > 1_600_000_000_000
    config = client.config(model)
    assert config.max_batch_size == 32
    assert config.model_warmup[0].name == "recorded_sample"


def test_a_version_joins_and_leaves_without_touching_the_others(
    client: TritonClient, triton: RunningTriton, model: str
) -> None:
    serve(client, triton.repository, model, 1)
    client.infer(model, 1, tensors(1.0))
    serve(client, triton.repository, model, 2)
    aside = repository.set_aside(triton.repository, model, 2)
    assert aside is not None
    client.load(model)
    assert not client.model_ready(model, 2)
    repository.discard(aside)
    assert client.model_ready(model, 1)
    (left,) = [entry for entry in client.statistics(model) if entry.version == 1]
    assert left.success.count >= 1


def test_a_broken_version_is_told_in_tritons_words_and_the_others_serve(
    client: TritonClient, triton: RunningTriton, model: str
) -> None:
    serve(client, triton.repository, model, 1)
    config = (triton.repository / model / "config.pbtxt").read_bytes()
    repository.place(
        triton.repository,
        triton_model=model,
        version=2,
        config=[FilePart.of_bytes("config.pbtxt", config)],
        files=[FilePart.of_bytes("model.onnx", b"no model")],
    )
    with pytest.raises(Invalid, match="Protobuf parsing failed") as caught:
        client.load(model)
    assert client.ready()
    assert caught.value.code == "load_failed"
    entries = {entry.version: entry for entry in client.index() if entry.name == model}
    assert entries["1"].state == "READY"
    assert entries["2"].state == "UNAVAILABLE"
    assert "Protobuf parsing failed" in entries["2"].reason
    assert client.infer(model, 1, tensors(1.0)).outputs[0]["data"] == [1.0] * COLUMNS


def test_operators_of_a_library_are_there_where_the_config_names_it(
    client: TritonClient, triton: RunningTriton, model: str
) -> None:
    place_upper(triton.repository, model, 1, LIBRARY)
    client.load(model)
    words = {"name": "words", "datatype": "BYTES", "shape": [1, 1], "data": ["green"]}
    answer = client.infer(model, 1, [words], outputs=["upper"])
    assert answer.outputs[0]["data"] == ["GREEN"]


def test_a_library_that_a_node_lacks_is_named(
    client: TritonClient, triton: RunningTriton, model: str
) -> None:
    place_upper(triton.repository, model, 1, "/usr/lib/no_such_operators.so")
    with pytest.raises(Invalid, match=r"no_such_operators\.so is missing on this node"):
        client.load(model)


def test_a_model_that_is_not_there_does_not_load(client: TritonClient) -> None:
    with pytest.raises(Invalid) as caught:
        client.load("nobody_knows_it")
    assert caught.value.code == "load_failed"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"name": "feature"}, "feature"),
        ({"datatype": "INT64", "data": [1] * COLUMNS}, "INT64"),
        ({"shape": [1, 2], "data": [1.0, 2.0]}, "shape"),
    ],
)
def test_a_wrong_request_is_the_callers_fault(
    client: TritonClient,
    triton: RunningTriton,
    model: str,
    change: dict[str, object],
    words: str,
) -> None:
    serve(client, triton.repository, model, 1)
    with pytest.raises(Invalid, match=words) as caught:
        client.infer(model, 1, [{**tensors(1.0)[0], **change}])
    assert caught.value.code == "infer_refused"


@pytest.mark.parametrize(
    "change",
    [{"shape": [2, 3]}, {"datatype": "FP99"}, {"data": ["one"] * COLUMNS}, {"data": None}],
)
def test_what_is_no_tensor_never_leaves(
    client: TritonClient, model: str, change: dict[str, object]
) -> None:
    with pytest.raises(Invalid) as caught:
        client.infer(model, 1, [{**tensors(1.0)[0], **change}])
    assert caught.value.code == "invalid_tensor"


def test_an_unknown_version_is_refused(
    client: TritonClient, triton: RunningTriton, model: str
) -> None:
    serve(client, triton.repository, model, 1)
    with pytest.raises(Invalid, match="version 9 is not found"):
        client.infer(model, 9, tensors(1.0))


def test_without_the_key_nothing_is_loaded(triton: RunningTriton) -> None:
    for key in ("", "wrong"):
        with TritonClient(triton.grpc, repository_key=key) as stranger:
            assert stranger.ready()
            with pytest.raises(Unavailable) as caught:
                stranger.load("anything")
            assert caught.value.code == "triton_key_refused"
            assert not caught.value.retryable


def test_a_server_that_is_away_is_retryable(free_port: object) -> None:
    address = f"127.0.0.1:{free_port()}"  # type: ignore[operator]
    with TritonClient(address, timeouts=Timeouts(control_s=1, infer_s=1)) as client:
        assert not client.live()
        assert not client.ready()
        with pytest.raises(Unavailable, match=address) as caught:
            client.index()
        assert caught.value.retryable


def test_a_call_that_takes_too_long_is_given_up(
    client: TritonClient, triton: RunningTriton, model: str
) -> None:
    # A single row waits two seconds for others to fill its batch.
    place_scaled(triton.repository, model, 1, queue_delay_us=2_000_000)
    client.load(model)
    with pytest.raises(Unavailable, match="Deadline") as caught:
        client.infer(model, 1, tensors(1.0), timeout_s=0.1)
    assert caught.value.retryable


def test_threads_share_one_client(client: TritonClient, triton: RunningTriton, model: str) -> None:
    serve(client, triton.repository, model, 3)
    wrong: list[object] = []

    def work(number: float) -> None:
        for _ in range(20):
            data = client.infer(model, 3, tensors(number)).outputs[0]["data"]
            if data != [3 * number] * COLUMNS:
                wrong.append(data)

    threads = [threading.Thread(target=work, args=(float(n),)) for n in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert wrong == []
    assert client.statistics(model)[0].inference_count in (80, 81)
