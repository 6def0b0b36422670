"""The five steps of a diagnosis as rules: what is seen gives which finding."""

from __future__ import annotations

import os
import stat
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from deployments.adapters import trial_models, triton_log
from deployments.rules.diagnosis import (
    compatibility,
    config_check,
    file_check,
    findings,
    onnx_check,
    releases,
    server_log,
)
from deployments.rules.diagnosis.config_check import ConfigFacts, ConfigTensor, GraphFacts, Group
from deployments.rules.diagnosis.findings import Finding, Step
from models_registry.exporting.protocol import TensorSpec

NOW = datetime(2026, 12, 1, 12, 30, tzinfo=UTC)
AT_ORT = "[ONNXRuntimeError] : 1 : FAIL : Load model from /r/m/1/model.onnx failed:"

# What Triton 2.51 really wrote, cut to the place that matters.
SAID = {
    f"{AT_ORT}Unsupported model IR version: 99, max supported IR version: 14": (
        "ir_version_too_new",
        {"found": "99", "most": "14"},
    ),
    f"{AT_ORT}Opset 99 is under development and support for this is limited. Current official "
    "support for domain ai.onnx is till opset 28.": (
        "opset_too_new",
        {"found": "99", "most": "28"},
    ),
    f"{AT_ORT}Fatal error: com.acme.secret:Mul(-1) is not a registered function/op": (
        "operator_unknown",
        {"operator": "com.acme.secret:Mul"},
    ),
    'External data path does not exist: "/r/m/1/weights.bin"': (
        "external_data_missing",
        {"path": "/r/m/1/weights.bin"},
    ),
    f"{AT_ORT}Protobuf parsing failed.": ("onnx_damaged", {}),
    f"{AT_ORT}No graph was found in the protobuf.": ("onnx_damaged", {}),
    "TritonModelException: model.onnx is missing in version folder /r/m/1/model.onnx": (
        "file_missing",
        {"name": "model.onnx"},
    ),
    "unable to find backend library for backend 'tensorrt', try specifying runtime": (
        "backend_missing",
        {"name": "tensorrt"},
    ),
    "instance group gpu_0 of model gpu has kind KIND_GPU but no GPUs are available": (
        "gpu_missing",
        {},
    ),
    "the custom operator library /nowhere/lib.so is missing on this node": (
        "operator_library_missing",
        {"path": "/nowhere/lib.so"},
    ),
    "the configuration's inputs ['x'] are not those of the ONNX file ['y']": (
        "interface_differs",
        {},
    ),
    "warmup setting expects 32 bytes, but the data provided from featuresonly has 16 bytes": (
        "warmup_differs",
        {"expected": "32", "name": "features"},
    ),
    "failed to open text file for read /r/m/warmup/features: No such file or directory": (
        "warmup_missing",
        {"path": "/r/m/warmup/features"},
    ),
    "failed to load model 'm': at least one version must be available under the version policy": (
        "version_folder_missing",
        {},
    ),
    "unexpected directory name 'a' for model 'b', directory name must equal model name": (
        "config_name_differs",
        {"folder": "a", "name": "b"},
    ),
    'Error parsing text-format inference.ModelConfig: 45:14: Message type "inference.ModelConfig" '
    'has no field named "log_frequency".': (
        "config_unknown_field",
        {"line": "45", "column": "14", "field": "log_frequency"},
    ),
    "unexpected 'platform' and 'backend' pair, got:onnxruntime_onx, onnxruntime": (
        "platform_unknown",
        {"platform": "onnxruntime_onx"},
    ),
    "Poll failed for model directory 'm': dynamic batching preferred size must be <= max batch "
    "size for m": ("preferred_too_large", {}),
    "CUDA out of memory. Tried to allocate 2.00 GiB": ("out_of_memory", {}),
    "CUDA driver version is insufficient for CUDA runtime version": ("driver_too_old", {}),
    "No space left on device": ("disk_full", {}),
    "Poll failed for model directory 'm': something new": (
        "config_refused",
        {"reason": "something new"},
    ),
}


@pytest.mark.parametrize("words", SAID)
def test_the_words_of_triton_are_recognised(words: str) -> None:
    code, data = SAID[words]
    found = server_log.recognised(words)
    assert found is not None
    assert (found.code, found.data) == (code, data)


LOG = """\
I1201 12:00:01.000001 7 model_lifecycle.cc:472] "loading: fraud:1"
E1201 12:00:02.000001 7 model_lifecycle.cc:642] "failed to load 'fraud' version 1: old"
I1201 12:10:01.000001 7 model_lifecycle.cc:472] "loading: other:1"
E1201 12:10:02.000001 7 model_lifecycle.cc:642] "failed to load 'other' version 1: Protobuf parsing failed"
I1201 12:20:01.000001 7 model_lifecycle.cc:472] "loading: fraud:2"
[libprotobuf ERROR text_format.cc:337] a line of a library
E1201 12:20:02.000001 7 backend_model.cc:692] "ERROR: Failed to create instance: first\\nsecond"
E1201 12:20:02.000002 7 model_lifecycle.cc:642] "failed to load 'fraud' version 2: something new"
"""  # noqa: E501 - lines of a log


def test_the_error_of_this_version_is_found_with_the_lines_before_it() -> None:
    lines = server_log.read(LOG, now=NOW)
    excerpt = server_log.about(lines, "fraud", 2)
    assert [line[:1] for line in excerpt.lines] == ["I", "[", "E", "E"]
    assert excerpt.at == datetime(2026, 12, 1, 12, 20, 2, 2, tzinfo=UTC)
    assert "first\nsecond" in excerpt.lines[2]
    said = server_log.explained("", excerpt)
    assert said is not None
    assert said.code == "log_error"
    assert server_log.about(lines, "fraud", 1).error.endswith('old"')
    assert server_log.about(lines, "fraud", 2, since=NOW - timedelta(minutes=5)).lines == ()
    assert server_log.about(lines, "fraud", 3).lines == ()
    assert server_log.explained("", server_log.about(lines, "nobody", 1)) is None


def test_what_was_wrong_before_it_loaded_is_told_no_more() -> None:
    loaded = (
        LOG + "I1201 12:25:00.000001 7 model_lifecycle.cc:839] \"successfully loaded 'fraud'\"\n"
    )
    assert server_log.about(server_log.read(loaded, now=NOW), "fraud", 2).lines == ()


def test_a_log_that_is_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    pipe, log = tmp_path / "pipe", tmp_path / "triton.log"
    os.mkfifo(pipe)
    log.write_text("first\nsecond\n")
    assert triton_log.tail(pipe) is None
    assert triton_log.tail(log, most=8) == "second\n"


def test_a_date_without_a_year_is_never_in_the_future() -> None:
    (line,) = server_log.read(
        'I1231 23:59:59.5 7 x.cc:1] "a"', now=datetime(2027, 1, 1, tzinfo=UTC)
    )
    assert line.at == datetime(2026, 12, 31, 23, 59, 59, 500_000, tzinfo=UTC)
    (odd,) = server_log.read('I0230 00:00:00.0 7 x.cc:1] "a"', now=NOW)
    assert odd.at is None


GRAPH = GraphFacts(
    (TensorSpec("features", "FP32", (-1, 10), ("batch", "")),),
    (TensorSpec("score", "FP32", (-1, 1), ("batch", "")),),
)
CONFIG = ConfigFacts(
    name="fraud",
    platform="onnxruntime_onnx",
    max_batch_size=32,
    inputs=(ConfigTensor("features", "FP32", (10,)),),
    outputs=(ConfigTensor("score", "FP32", (1,)),),
    groups=(Group("cpu", 1),),
)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({}, "config_fits"),
        ({"name": "other"}, "config_name_differs"),
        ({"platform": "onnxruntime_onx"}, "platform_unknown"),
        ({"platform": "", "backend": ""}, "platform_unknown"),
        ({"versions": (2, 3)}, "version_left_out"),
        ({"preferred": (64,)}, "preferred_too_large"),
        ({"groups": (Group("gpu", 1, (0,)),)}, "gpu_missing"),
        ({"missing_libraries": ("/nowhere/lib.so",)}, "operator_library_missing"),
        ({"inputs": (ConfigTensor("other", "FP32", (10,)),)}, "input_unknown"),
        ({"inputs": ()}, "input_missing"),
        ({"outputs": (ConfigTensor("other", "FP32", (1,)),)}, "output_unknown"),
        ({"inputs": (ConfigTensor("features", "FP64", (10,)),)}, "dtype_differs"),
        ({"inputs": (ConfigTensor("features", "FP32", (7,)),)}, "dims_differ"),
        ({"max_batch_size": 0}, "dims_differ"),
        ({"warmup": (config_check.WarmupFile("features", 40, None),)}, "warmup_missing"),
        ({"warmup": (config_check.WarmupFile("features", 40, 16),)}, "warmup_differs"),
    ],
)
def test_a_configuration_is_compared_with_its_graph(change: dict[str, Any], code: str) -> None:
    facts = replace(CONFIG, **change)
    found = config_check.check(facts, folder="fraud", number=1, gpus=(), graph=GRAPH)
    assert code in {one.code for one in found}


def test_gpus_of_the_node_and_shapes_that_are_given_by_reshape() -> None:
    some = replace(CONFIG, groups=(Group("gpu", 1, (0, 3)),))
    found = config_check.check(some, folder="fraud", number=1, gpus=(0, 1), graph=GRAPH)
    assert [(one.code, one.data) for one in found] == [("gpu_unknown", {"gpu": 3, "gpus": "0, 1"})]
    fixed = GraphFacts((TensorSpec("features", "FP32", (4, 10), ("", "")),), GRAPH.outputs)
    found = config_check.check(CONFIG, folder="fraud", number=1, gpus=(), graph=fixed)
    assert {one.code for one in found} == {"batch_axis_fixed"}
    scalar = GraphFacts((TensorSpec("n", "INT64", ()),), GRAPH.outputs)
    single = replace(
        CONFIG,
        max_batch_size=0,
        inputs=(ConfigTensor("n", "INT64", (1,)),),
        outputs=(ConfigTensor("score", "FP32", (-1, 1)),),
    )
    found = config_check.check(single, folder="fraud", number=1, gpus=(), graph=scalar)
    assert [one.code for one in found] == ["config_fits"]


def test_what_triton_filled_in_is_told() -> None:
    told = config_check.completed({"a": "1", "b": "2"}, {"a": "1", "b": "3", "c": "4"})
    assert told is not None
    assert told.evidence == "+ c: 4\n~ b: 2 → 3"
    assert config_check.completed({"a": "1"}, {"a": "1"}) is None


def test_a_trial_bears_a_name_of_its_own_and_all_else_as_it_was() -> None:
    text = 'name: "fraud"\ninput {\n  name: "features"\n}\nlog_frequency: 3\n'
    renamed = trial_models.renamed(text, "trial")
    assert renamed == 'name: "trial"\ninput {\n  name: "features"\n}\nlog_frequency: 3\n'
    assert trial_models.renamed("platform: 1\n", "trial").startswith('name: "trial"\n')


def test_files_against_what_was_signed() -> None:
    seen = {
        "model.onnx": onnx_check.FileSeen(10, "ab" * 32),
        "x": onnx_check.FileSeen(1, "cd" * 32),
    }
    wanted = {"model.onnx": "ef" * 32, "model.onnx.data": "00" * 32}
    found = onnx_check.files(wanted, seen, on_node=True)
    assert [one.code for one in found] == ["file_missing", "file_unexpected", "digest_differs"]
    link = {"model.onnx": onnx_check.FileSeen(10, "ef" * 32, link=True)}
    assert [
        one.code for one in onnx_check.files({"model.onnx": "ef" * 32}, link, on_node=True)
    ] == ["digest_differs"]
    short = onnx_check.GraphSeen(data=(onnx_check.DataFile("w", 40, 10),), loading="also")
    assert [one.code for one in onnx_check.graph(short)] == ["external_data_short"]


def node(server: str = "2.51.0", **more: object) -> compatibility.NodeFacts:
    return compatibility.NodeFacts(server, **more)  # type: ignore[arg-type]


def test_a_graph_and_the_release_of_a_node() -> None:
    seen = onnx_check.GraphSeen(opsets={"": 22}, ir_version=8, nodes=1)
    found = {one.code: one for one in compatibility.check(node(), seen, target="24.10")}
    assert found["opset_too_new"].data == {"runtime": "1.19", "found": 22, "most": 21}
    assert "release_fits" not in found
    embedded = compatibility.check(node(embedded=True), seen, target="24.10")
    assert {one.code for one in embedded} == {"embedded_triton", "no_gpu", "release_fits"}
    newer = compatibility.check(node("2.45.0"), None, target="24.10")
    assert "release_older" in {one.code for one in newer}
    unknown = compatibility.check(node("9.9.9"), seen, target="24.10")
    assert [one.code for one in unknown] == ["release_unknown", "no_gpu"]
    gone = compatibility.check(node("", unreachable="no answer"), seen, target="24.10")
    assert [one.code for one in gone] == ["triton_unreachable"]


@pytest.mark.parametrize(
    ("server", "driver", "code"),
    [
        ("2.51.0", "560.35.03", "driver_fits"),
        ("2.51.0", "535.183.01", "driver_older"),
        ("2.51.0", "470.57.02", "driver_too_old"),
        ("2.60.0", "570.124.06", "driver_too_old"),
        ("2.51.0", "", "driver_unknown"),
    ],
)
def test_the_driver_of_a_node_with_gpus(server: str, driver: str, code: str) -> None:
    found = compatibility.check(node(server, gpus=(0,), driver=driver), None, target="24.10")
    assert code in {one.code for one in found}


def test_versions_of_drivers_are_compared_by_their_numbers() -> None:
    assert releases.is_older("525.60.13", "525.105.17")
    assert not releases.is_older("560.35.05", "560.35.3")
    assert releases.driver_floor("12.6") == "525.60.13"
    assert releases.driver_floor("10.2") == ""


def path(mode: int, uid: int = 0, gid: int = 0, name: str = "/r/m") -> file_check.PathFacts:
    return file_check.PathFacts(name, mode, uid, gid)


TRITON = file_check.Reader(1000, frozenset({1000}), "triton")
ROOMY = file_check.DiskFacts(total=100 * 2**30, free=50 * 2**30, inodes=1000, free_inodes=900)


@pytest.mark.parametrize(
    ("facts", "may"),
    [
        (path(stat.S_IFREG | 0o644), True),
        (path(stat.S_IFREG | 0o600), False),
        (path(stat.S_IFREG | 0o600, uid=1000), True),
        (path(stat.S_IFREG | 0o040, uid=1000), False),
        (path(stat.S_IFREG | 0o640, gid=1000), True),
        (path(stat.S_IFDIR | 0o755), True),
        (path(stat.S_IFDIR | 0o744), False),
        (path(stat.S_IFDIR | 0o750, gid=1000), True),
    ],
)
def test_who_may_read_a_path(facts: file_check.PathFacts, may: bool) -> None:
    assert file_check.may_read(facts, TRITON) is may
    assert file_check.may_read(facts, file_check.Reader(0))
    found = file_check.check([facts], TRITON, ROOMY, needed=10, on_node=True)
    assert ("not_readable" in {one.code for one in found}) is not may


def test_room_on_the_disk() -> None:
    def codes(disk: file_check.DiskFacts, *, on_node: bool = False) -> set[str]:
        found = file_check.check([], TRITON, disk, needed=2**30, on_node=on_node)
        return {one.code for one in found}

    full = replace(ROOMY, free=2**20)
    assert codes(full) == {"disk_full", "not_on_node"}
    assert codes(full, on_node=True) == {"disk_nearly_full", "files_readable"}
    assert "inodes_gone" in codes(replace(ROOMY, free_inodes=0))
    assert "inodes_few" in codes(replace(ROOMY, free_inodes=9))
    assert "repository_unwritable" in codes(replace(ROOMY, read_only=True))
    assert codes(file_check.DiskFacts(missing="/r")) == {"repository_missing"}
    unseen = file_check.check([path(0o600)], file_check.Reader(None), ROOMY, needed=1, on_node=True)
    assert {one.code for one in unseen} == {"perhaps_unreadable", "files_open"}


def steps(**found: list[Finding]) -> list[Step]:
    return [findings.step(name, found.get(name, [])) for name in findings.STEPS]


def test_the_cause_is_what_explains_all_else() -> None:
    bad = [Finding(code, "bad") for code in ("opset_too_new", "dims_differ", "digest_differs")]
    said = Finding("onnx_damaged", "bad")
    assert findings.cause(steps(log=[said], onnx=bad[2:])) == "digest_differs"
    assert findings.cause(steps(log=bad[:1], config=bad[1:2])) == "opset_too_new"
    assert findings.cause(steps(config=bad[1:2], compatibility=bad[:1])) == "opset_too_new"
    other = Finding("log_error", "bad")
    assert findings.cause(steps(log=[other], config=bad[1:2])) == "dims_differ"
    assert findings.cause(steps(log=[other])) == "log_error"
    assert findings.cause(steps(log=[Finding("log_error", "warn")])) == ""
    assert findings.worst(steps(log=[Finding("a", "warn")], onnx=[Finding("b", "good")])) == "warn"


def test_a_step_tells_each_thing_once_worst_first_and_no_more_than_a_page_shows() -> None:
    many = [Finding("x", "warn", {"n": n}) for n in range(50)]
    told = findings.step("log", [Finding("good", "good"), *many, *many, Finding("y", "bad")])
    assert told.findings[0].code == "y"
    assert len(told.findings) == findings.MOST_FINDINGS
    assert Step.from_json(told.to_json()) == told
    long = Finding("x", "bad", {}, "a" * 10_000 + "\0").to_json()["evidence"]
    assert len(long) < 6100
    assert "\0" not in long


def codes(found: list[Finding]) -> list[tuple[str, str]]:
    return [(one.code, one.verdict) for one in found]


def test_what_serves_is_said_to_serve_and_nothing_is_mended() -> None:
    tried = [Finding("trial_loaded", "warn"), Finding("config_completed", "good")]
    sound = findings.weighed(tried, [], serves=True, failed=False)
    assert codes(sound) == [("trial_loads", "good"), ("config_completed", "good")]
    unread = [Finding("log_unreadable", "unknown", {"path": ""})]
    assert codes(findings.weighed(tried, unread, serves=True, failed=False))[-1] == (
        "log_unreadable",
        "unknown",
    ), "that the log is not seen is no warning about the version"
    told = findings.with_serving(steps(log=sound))
    assert told[0].findings[0] == Finding("serves", "good")
    assert (findings.cause(told), told[0].verdict) == ("", "good")
    assert findings.serves(told)
    assert not findings.serves(steps(log=sound))


def test_what_serves_beside_a_fault_is_not_called_sound() -> None:
    full = Finding("disk_nearly_full", "warn")
    told = findings.with_serving(steps(log=[], files=[full]))
    assert told[0].findings == (Finding("serves_still", "good"),)
    assert findings.worst(told) == "warn"
    said = [Finding("out_of_memory", "bad")]
    once = findings.weighed([], said, serves=True, failed=False)
    assert codes(once) == [("out_of_memory", "warn")], "it serves: that was before"


@pytest.mark.parametrize(
    ("said", "failed", "trial"),
    [
        ([], False, "trial_loads"),
        ([], True, "trial_loaded"),
        ([Finding("out_of_memory", "bad")], False, "trial_loaded"),
    ],
)
def test_that_a_fault_is_gone_is_told_only_where_there_was_one(
    said: list[Finding], failed: bool, trial: str
) -> None:
    tried = [Finding("trial_loaded", "warn")]
    found = findings.weighed(tried, said, serves=False, failed=failed)
    assert found[0].code == trial
    assert all(one.verdict != "bad" for one in found)


def test_what_does_not_load_keeps_its_verdict() -> None:
    tried = [Finding("trial_failed", "bad")]
    found = findings.weighed(tried, [Finding("log_error", "bad")], serves=False, failed=True)
    assert codes(found) == [("trial_failed", "bad"), ("log_error", "bad")]
    assert codes(findings.weighed([], [], serves=False, failed=False)) == [("log_silent", "good")]
