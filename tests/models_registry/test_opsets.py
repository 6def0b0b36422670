"""Which files which Triton release loads."""

from __future__ import annotations

from dataclasses import replace

import onnxruntime
import pytest
from onnxruntime.capi import onnxruntime_pybind11_state
from pytest_django import Settings

from models_registry.checks import triton_release_is_known
from models_registry.rules import contributed_operators, opsets


@pytest.mark.parametrize(
    ("target", "versions", "ir", "code"),
    [
        ("23.12", {"": 19}, 9, None),
        ("23.12", {"": 20}, 9, "opset_too_new"),
        ("24.04", {"": 17}, 8, None),
        ("24.04", {"": 20}, 9, None),
        ("24.04", {"": 21}, 9, "opset_too_new"),
        ("24.04", {"": 17}, 10, "ir_version_too_new"),
        ("24.10", {"": 21}, 10, None),
        ("24.10", {"": 22}, 10, "opset_too_new"),
        ("24.10", {"": 17, "ai.onnx.ml": 6}, 8, "opset_too_new"),
        ("24.10", {"": 6}, 3, "opset_too_old"),
        ("24.10", {"ai.onnx.ml": 3}, 8, None),
        ("26.08", {"": 26}, 13, None),
        (opsets.EMBEDDED, {"": 28}, 14, None),
    ],
)
def test_a_file_is_gated_on_its_target(
    target: str, versions: dict[str, int], ir: int, code: str | None
) -> None:
    refusal = opsets.refusal(target, versions, ir)

    assert (refusal.code if refusal else None) == code
    assert refusal is None or (refusal.message.endswith(".") and refusal.hint)


def test_the_refusal_names_the_highest_opset() -> None:
    refusal = opsets.refusal("24.10", {"": 99}, 8)

    assert refusal is not None
    assert "7 to 21" in refusal.message


def test_an_unknown_release_is_named_with_those_that_are_known() -> None:
    with pytest.raises(ValueError, match=r"31\.01.*24\.10"):
        opsets.runtime("31.01")


def test_operators_that_onnx_runtime_has_beside_onnx_are_told_by_release() -> None:
    assert contributed_operators.has("1.19", "com.microsoft", "FusedMatMul")
    assert not contributed_operators.has("1.19", "com.microsoft", "GatherBlockQuantized")
    assert contributed_operators.has("1.20", "com.microsoft", "GatherBlockQuantized")
    assert contributed_operators.since("GatherBlockQuantized") == "1.20"
    assert contributed_operators.since("Secret") is None
    assert not contributed_operators.has("1.32", "com.acme.secret", "FusedMatMul")
    here = {
        schema.name
        for schema in onnxruntime_pybind11_state.get_all_operator_schema()
        if schema.domain == contributed_operators.DOMAIN
    }
    release = ".".join(onnxruntime.__version__.split(".")[:2])
    assert here == contributed_operators.known(release)


def test_newer_releases_never_load_less() -> None:
    releases = [name for name in sorted(opsets.TRITON) if name != opsets.EMBEDDED]
    limits = [opsets.runtime(name) for name in releases]

    assert [limit.opset for limit in limits] == sorted(limit.opset for limit in limits)
    assert [limit.ir_version for limit in limits] == sorted(limit.ir_version for limit in limits)


def test_the_site_s_own_release_has_to_be_in_the_table(settings: Settings) -> None:
    assert triton_release_is_known(None) == []
    settings.CONFIG = replace(settings.CONFIG, triton_release="31.01")
    [fault] = triton_release_is_known(None)
    assert "31.01" in fault.msg
    assert "24.10" in str(fault.hint)
