"""How people write inputs and outputs, and the samples that they give."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from models_registry.exporting import protocol, samples, sampling
from models_registry.exporting.proposing import renamed
from models_registry.exporting.protocol import Refused, TensorSpec
from models_registry.rules import tensors


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("FP32", "FP32"),
        ("float32", "FP32"),
        ("torch.float32", "FP32"),
        ("tensor(float)", "FP32"),
        ("TYPE_INT64", "INT64"),
        ("TYPE_STRING", "BYTES"),
        ("np.int8", "INT8"),
        ("half", "FP16"),
        ("string", "BYTES"),
    ],
)
def test_data_types_have_many_names(text: str, name: str) -> None:
    assert tensors.dtype(text) == name


@pytest.mark.parametrize(
    ("shape", "dims", "expected"),
    [
        ([-1, 10], None, ((-1, 10), ("batch", ""))),
        ([None, 10], None, ((-1, 10), ("batch", ""))),
        (["N", 3, 64], None, ((-1, 3, 64), ("N", "", ""))),
        ([2, 7], ["batch", "seq"], ((2, 7), ("batch", "seq"))),
        (None, ["batch", 10], ((-1, 10), ("batch", ""))),
        ([-1, 10], ["batch", 10], ((-1, 10), ("batch", ""))),
        ([-1, -1], None, ((-1, -1), ("batch", "dim_1"))),
        ([], None, ((), ())),
        ([16], None, ((16,), ("",))),
    ],
)
def test_axes_are_read_from_sizes_and_names(shape: Any, dims: Any, expected: Any) -> None:
    (spec,) = tensors.parse([{"name": "x", "dtype": "FP32", "shape": shape, "dims": dims}])

    assert (spec.shape, spec.dims) == expected


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"dtype": "FP8"}, "/inputs/0/dtype"),
        ({"name": ""}, "/inputs/0/name"),
        ({"name": "a\0b"}, "/inputs/0/name"),
        ({"shape": [0]}, "/inputs/0/shape/0"),
        ({"shape": [True]}, "/inputs/0/shape/0"),
        ({"shape": [2**40]}, "/inputs/0/shape/0"),
        ({"shape": [1] * 17}, "/inputs/0/shape"),
        ({"shape": "10"}, "/inputs/0/shape"),
        ({"shape": None}, "/inputs/0/shape"),
        ({"shape": [-1, 4], "dims": ["batch"]}, "/inputs/0/dims"),
        ({"shape": [4], "dims": [5]}, "/inputs/0/dims/0"),
        ({"min": 2, "max": 1}, "/inputs/0/min"),
        ({"max": "much"}, "/inputs/0/max"),
        ({"size": 3}, "/inputs/0/size"),
    ],
)
def test_a_wrong_field_is_named(change: dict[str, Any], pointer: str) -> None:
    with pytest.raises(tensors.SpecError) as caught:
        tensors.parse([{"name": "x", "dtype": "FP32", "shape": [-1, 2], **change}])

    assert caught.value.pointer == pointer


def test_a_name_stands_once() -> None:
    entry = {"name": "x", "dtype": "FP32", "shape": [1]}

    with pytest.raises(tensors.SpecError, match="twice"):
        tensors.parse([entry, entry])


def test_requests_and_facts_survive_json() -> None:
    specs = tensors.parse([{"name": "x", "dtype": "FP32", "shape": [-1, 2], "min": 0, "max": 1}])
    facts = protocol.ExportFacts(
        inputs=specs,
        outputs=specs,
        batch_axis=0,
        opset=17,
        ir_version=8,
        operators={"Add": 1},
        parameters=3,
        size_bytes=4,
        sha256="0" * 64,
        exporter="e",
        producer="p",
        sizes={"batch": [1, 2]},
        ranges={"x": [0.0, 1.0]},
        warnings=("w",),
    )
    export = protocol.ExportRequest("onnx", specs, ("y",), 18, "24.04")
    validate = protocol.ValidateRequest("onnx", facts, specs, atol=1e-3, batches=(1, 4))

    def back(document: Any) -> Any:
        return json.loads(json.dumps(document.to_json()))

    assert protocol.ExportFacts.from_json(back(facts)) == facts
    assert protocol.ExportRequest.from_json(back(export)) == export
    assert protocol.ValidateRequest.from_json(back(validate)) == validate


def test_a_sample_does_not_depend_on_its_batch() -> None:
    specs = tensors.parse([{"name": "x", "dtype": "FP32", "shape": [-1, 4]}])

    def rows(batches: tuple[int, ...]) -> sampling.Array:
        found = sampling.groups(
            specs,
            batch="batch",
            sizes={"batch": [1]},
            ranges={},
            samples=11,
            seed=3,
            batches=batches,
        )
        return np.concatenate([group.feeds["x"] for group in found])

    assert np.array_equal(rows((1,)), rows((1, 2, 8)))
    assert len(np.unique(rows((1,)))) == 44


@pytest.mark.parametrize(
    ("spec", "low", "high"),
    [
        (TensorSpec("x", "FP32", (500,), ("",), 2.0, 3.0), 2, 3),
        (TensorSpec("x", "INT64", (500,), ("",), 5.0, 7.0), 5, 7),
        (TensorSpec("x", "UINT8", (500,), ("",)), 0, 255),
        (TensorSpec("x", "INT32", (500,), ("",), None, 4.0), 0, 4),
    ],
)
def test_drawn_values_keep_to_their_range(spec: TensorSpec, low: float, high: float) -> None:
    array = sampling.draw(spec, spec.shape, np.random.default_rng(0), {})

    assert array.dtype.name == tensors.DTYPES[spec.dtype][0]
    assert low <= array.min() < array.max() <= high


@pytest.mark.parametrize(
    "document",
    [
        {"x": [[1, 2]], "t": ["a"]},
        {"inputs": {"x": [[1, 2]], "t": ["a"]}},
        {
            "inputs": [
                {"name": "x", "datatype": "FP32", "shape": [1, 2], "data": [1, 2]},
                {"name": "t", "datatype": "BYTES", "shape": [1], "data": ["a"]},
            ]
        },
    ],
)
def test_a_sample_may_be_json(tmp_path: Path, document: dict[str, Any]) -> None:
    specs = tensors.parse(
        [
            {"name": "x", "dtype": "FP32", "shape": [-1, 2]},
            {"name": "t", "dtype": "BYTES", "shape": [-1]},
        ]
    )
    path = tmp_path / "sample"
    path.write_text(json.dumps(document))

    feeds = samples.read(path, specs)

    assert feeds["x"].dtype == np.float32
    assert feeds["x"].tolist() == [[1.0, 2.0]]
    assert feeds["t"].tolist() == ["a"]


@pytest.mark.parametrize(
    ("document", "code"),
    [
        ({"y": [[1, 2]]}, "sample_does_not_fit"),
        ({"x": [[1, 2, 3]]}, "sample_does_not_fit"),
        ({"x": [["a", "b"]]}, "sample_does_not_fit"),
        ({"x": [[1], [1, 2]]}, "sample_does_not_fit"),
        ([1], "sample_invalid"),
    ],
)
def test_a_sample_that_does_not_fit_is_refused(tmp_path: Path, document: Any, code: str) -> None:
    path = tmp_path / "sample"
    path.write_text(json.dumps(document))

    with pytest.raises(Refused) as caught:
        samples.read(path, tensors.parse([{"name": "x", "dtype": "FP32", "shape": [-1, 2]}]))

    assert caught.value.refusal.code == code


def test_a_sample_is_never_unpickled(tmp_path: Path) -> None:
    path = tmp_path / "sample.npz"
    np.savez(path, x=np.array([object()], dtype=object))

    with pytest.raises(Refused) as caught:
        samples.read(path, tensors.parse([{"name": "x", "dtype": "FP32", "shape": [-1]}]))

    assert caught.value.refusal.code == "sample_invalid"


def test_axes_that_an_exporter_numbered_get_the_name_that_they_probably_have() -> None:
    image = TensorSpec("image", "FP32", (-1, 3, -1, -1), ("unk__1", "", "dim_2", "dim_3"))
    ids = TensorSpec("ids", "INT64", (-1, -1), ("unk__1", "dim_1"))
    state = TensorSpec("state", "FP32", (2, -1, 8), ("", "dim_1", ""))

    assert renamed([image])[0].dims == ("batch", "", "height", "width")
    assert renamed([ids])[0].dims == ("batch", "sequence")
    assert renamed([replace(ids, dims=("rows", "words"))])[0].dims == ("rows", "words")
    tied = [spec.dims for spec in renamed([replace(ids, dtype="FP32"), state])]
    assert tied == [("batch", "dim_1"), ("", "dim_1", "")]


def test_a_sample_of_inputs_that_nobody_described_shows_their_types(tmp_path: Path) -> None:
    path = tmp_path / "sample.json"
    path.write_text(json.dumps({"ids": [[1, 2]], "x": [[0.5]], "words": [["a"]]}))
    plain = {
        name: array.dtype.kind + str(array.ndim) for name, array in samples.arrays(path).items()
    }
    request = [{"name": "x", "datatype": "FP64", "shape": [1, 2], "data": [1, 2]}]
    path.write_text(json.dumps({"inputs": request}))
    archive = tmp_path / "sample.npz"
    np.savez(archive, x=np.zeros((2, 3)), flag=np.array(True))

    assert plain == {"ids": "i2", "x": "f2", "words": "O2"}
    assert samples.arrays(path)["x"].dtype == np.float64
    kinds = {name: array.dtype.name for name, array in samples.arrays(archive).items()}
    assert kinds == {"x": "float64", "flag": "bool"}
    path.write_text("[1, 2]")
    with pytest.raises(Refused, match="not a JSON object"):
        samples.arrays(path)
