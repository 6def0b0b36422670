"""The profile and the command line of a TensorRT plan, and what has none."""

from __future__ import annotations

import pytest

from deployments.rules.fleet import tensorrt
from models_registry.exporting.protocol import TensorSpec

IDS = TensorSpec("input_ids", "INT64", (-1, -1), ("batch", "sequence"))
IMAGE = TensorSpec("image:0", "FP32", (-1, 3, 224, 224), ("batch", "", "", ""))
FIXED = TensorSpec("scale", "FP32", (1,), ("",))
SIZES = {"batch": [1, 2, 3, 5], "sequence": [16, 128, 64]}


def test_the_profile_spans_what_the_version_is_known_to_take() -> None:
    shapes = tensorrt.profile([IDS, IMAGE, FIXED], SIZES, preferred_batch=8, max_batch=32)
    assert set(shapes) == {"input_ids", "image:0"}
    assert shapes["input_ids"].to_json() == {"min": [1, 16], "opt": [8, 64], "max": [32, 128]}
    words = tensorrt.command(shapes, precision="fp16", workspace_mib=2048)
    assert words == [
        "trtexec",
        "--onnx=model.onnx",
        "--saveEngine=model.plan",
        "--minShapes=input_ids:1x16,'image:0':1x3x224x224",
        "--optShapes=input_ids:8x64,'image:0':8x3x224x224",
        "--maxShapes=input_ids:32x128,'image:0':32x3x224x224",
        "--memPoolSize=workspace:2048",
        "--fp16",
        "--skipInference",
    ]


def test_without_batching_the_sizes_that_ran_are_the_limit() -> None:
    shapes = tensorrt.profile([IDS], SIZES, preferred_batch=0, max_batch=0)
    assert shapes["input_ids"].to_json() == {"min": [1, 16], "opt": [3, 64], "max": [5, 128]}
    assert tensorrt.profile([FIXED], {}, preferred_batch=1, max_batch=1) == {}
    assert not [
        word
        for word in tensorrt.command({}, precision="fp32", workspace_mib=16)
        if "Shapes" in word or "fp32" in word
    ]


@pytest.mark.parametrize(
    ("operators", "inputs", "precision", "workspace", "code"),
    [
        ({"MatMul": 1}, [IMAGE], "fp16", 1024, None),
        ({"com.microsoft:FusedConv": 1}, [IMAGE], "fp16", 1024, "operators_not_in_tensorrt"),
        ({"DynamicQuantizeLinear": 1}, [IMAGE], "fp32", 1024, "operators_not_in_tensorrt"),
        ({"ai.onnx.ml:LabelEncoder": 1}, [IMAGE], "fp32", 1024, "operators_not_in_tensorrt"),
        ({"Identity": 1}, [TensorSpec("t", "BYTES", (1,))], "fp32", 64, "text_not_in_tensorrt"),
        ({"MatMul": 1}, [IMAGE], "int8", 1024, "int8_not_calibrated"),
        ({"MatMul": 1, "DequantizeLinear": 2}, [IMAGE], "int8", 1024, None),
        ({"MatMul": 1}, [IMAGE], "fp8", 1024, "unknown_precision"),
        ({"MatMul": 1}, [IMAGE], "fp16", 8, "workspace_out_of_range"),
    ],
)
def test_what_trtexec_would_refuse_or_get_wrong_is_refused_first(
    operators: dict[str, int],
    inputs: list[TensorSpec],
    precision: str,
    workspace: int,
    code: str | None,
) -> None:
    refusal = tensorrt.refusal(operators, inputs, precision, workspace)
    assert (refusal.code if refusal else None) == code
    assert refusal is None or refusal.hint


def test_the_first_error_of_its_output_is_what_it_complains_of() -> None:
    lines = ["&&&& RUNNING", "[I] ok", "[12/01] [E] Network must have a profile", "[E] again"]
    assert tensorrt.complaint(lines) == "Network must have a profile"
    assert tensorrt.complaint(["&&&& RUNNING", "Segmentation fault", ""]) == "Segmentation fault"
    assert tensorrt.complaint([]) == ""
    assert tensorrt.release_of("no banner") is None
