"""The lines of the report: each measured thing with limit, verdict and the way to mend it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import onnx
from onnx.checker import ValidationError
from onnx.shape_inference import InferenceError

from models_registry.exporting import onnx_files, operators
from models_registry.exporting.protocol import (
    Check,
    Json,
    Refused,
    TensorSpec,
    ValidateRequest,
)
from models_registry.rules import opsets, tensors

FORMAT, INTERFACE, BEHAVIOUR, SPEED = "Format", "Interface", "Behaviour", "Speed and size"
MIB = 1 << 20


def format_checks(model: onnx.ModelProto, target: str, path: Path) -> list[Check]:
    """onnx.checker, strict shape inference, versions against the target, operators' domains.

    `path` is where the model lies, its weights in it or beside it.
    """
    return [
        _onnx_checker(path),
        _shape_inference(model),
        _versions(model, target),
        _operators(model, target),
    ]


def _onnx_checker(path: Path) -> Check:
    title = "ONNX checker"
    try:
        onnx.checker.check_model(str(path), full_check=True)
    except (ValidationError, InferenceError) as error:
        detail = " ".join(str(error).split())[:500]
        return Check(
            "onnx_checker",
            title,
            FORMAT,
            "failed",
            detail=detail,
            fix="Mend what the checker names and export again.",
        )
    return Check(
        "onnx_checker",
        title,
        FORMAT,
        "passed",
        detail="onnx.checker with full_check finds no fault.",
    )


def _shape_inference(model: onnx.ModelProto) -> Check:
    title = "Shape inference"
    try:
        inferred = onnx.shape_inference.infer_shapes(
            model, check_type=True, strict_mode=True, data_prop=True
        )
    except (InferenceError, ValueError) as error:
        detail = " ".join(str(error).split())[:500]
        return Check(
            "shape_inference",
            title,
            FORMAT,
            "failed",
            detail=detail,
            fix="The named operator gets shapes that do not fit; mend the model and export again.",
        )
    count = len(inferred.graph.value_info)
    return Check(
        "shape_inference",
        title,
        FORMAT,
        "passed",
        count,
        None,
        "tensors",
        f"Strict inference is consistent; {count} inner tensors have a shape.",
    )


def _versions(model: onnx.ModelProto, target: str) -> Check:
    found, limits = onnx_files.opsets(model), opsets.runtime(target)
    refusal = opsets.refusal(target, found, model.ir_version)
    measured = f"opset {found.get('', 0)}, IR {model.ir_version}"
    limit = f"opset {limits.opset}, IR {limits.ir_version}"
    return Check(
        "target_versions",
        f"Loads on Triton {target}",
        FORMAT,
        "failed" if refusal else "passed",
        measured,
        limit,
        detail=refusal.message
        if refusal
        else f"ONNX Runtime {limits.version} of that release loads both versions.",
        fix=refusal.hint if refusal else "",
    )


def _operators(model: onnx.ModelProto, target: str) -> Check:
    title = "Operators that the target has"
    try:
        libraries = operators.check(model, target)
    except Refused as refused:
        return Check(
            "standard_operators",
            title,
            FORMAT,
            "failed",
            detail=refused.refusal.message,
            fix=refused.refusal.hint,
        )
    others = [f"{domain}:{name}" for domain, name in operators.foreign(model)]
    if not others:
        return Check(
            "standard_operators", title, FORMAT, "passed", detail="All operators are ONNX's own."
        )
    brought = f" and {', '.join(libraries)}" if libraries else ""
    return Check(
        "standard_operators",
        title,
        FORMAT,
        "passed",
        len(others),
        None,
        "other operators",
        f"ONNX Runtime {opsets.runtime(target).version}{brought} has {', '.join(others)}."[:500],
    )


def interface_checks(request: ValidateRequest) -> list[Check]:
    """Exported inputs and outputs against the contract's, and whether requests can be batched."""
    facts = request.facts
    checks = [
        _interface("inputs", request.inputs, facts.inputs, facts.batch_axis == 0),
        _interface("outputs", request.outputs, facts.outputs, facts.batch_axis == 0),
    ]
    if facts.batch_axis == 0:
        checks.append(
            Check(
                "batching",
                "Requests can be batched",
                INTERFACE,
                "passed",
                detail="The first axis of every tensor is the batch; rows do not "
                "influence each other.",
            )
        )
    else:
        checks.append(
            Check(
                "batching",
                "Requests can be batched",
                INTERFACE,
                "warning",
                detail=next(
                    (w for w in facts.warnings if "max_batch_size" in w),
                    "The model has no batch axis; max_batch_size will be 0.",
                ),
                fix="Make the first axis of every input and output the batch and export "
                "again, if throughput matters.",
            )
        )
    return checks


def _interface(
    role: str, promised: Sequence[TensorSpec], real: Sequence[TensorSpec], batched: bool
) -> Check:
    id_, title = f"interface_{role}", f"{role.capitalize()} as promised"
    if not promised:
        return Check(id_, title, INTERFACE, "skipped", detail=f"No contract names the {role} yet.")
    have = {spec.name: spec for spec in real}
    faults = []
    for spec in promised:
        other = have.get(spec.name)
        if other is None:
            faults.append(f"“{spec.name}” is missing")
        elif other.dtype != spec.dtype:
            faults.append(f"“{spec.name}” is {other.dtype} instead of {spec.dtype}")
        elif not _covers(other, spec) and not _covers(
            tensors.as_served(other, batched=batched), spec
        ):
            faults.append(
                f"“{spec.name}” has shape {list(other.shape)} instead of {list(spec.shape)}"
            )
    extra = sorted(set(have) - {spec.name for spec in promised})
    if extra and role == "inputs":
        faults.append(f"callers must also send {', '.join(extra)}")
    if faults:
        return Check(
            id_,
            title,
            INTERFACE,
            "failed",
            detail=f"{'; '.join(faults)}."[:600],
            fix="Export with these names, data types and axes, or propose a contract that "
            "says what the model has.",
        )
    return Check(
        id_,
        title,
        INTERFACE,
        "passed",
        detail=f"Names, data types and shapes of {len(promised)} {role} agree.",
    )


def _covers(real: TensorSpec, promised: TensorSpec) -> bool:
    """Whether every shape that was promised is one that the model takes or gives."""
    return len(real.shape) == len(promised.shape) and all(
        size == -1 or size == wanted
        for size, wanted in zip(real.shape, promised.shape, strict=True)
    )


def latency_checks(rows: Sequence[Json], p95_ms: float | None) -> list[Check]:
    """The p95 of a single request against the budget; larger batches are told only: where one
    takes too long, the configuration's largest batch is lowered (`rules.tuning`)."""
    checks = []
    for row in rows:
        judged = p95_ms is not None and row["batch"] == 1
        late = judged and row["p95_ms"] > (p95_ms or 0.0)
        checks.append(
            Check(
                f"latency.{row['batch']}",
                f"Latency at batch {row['batch']}",
                SPEED,
                "failed" if late else "passed" if judged else "skipped",
                row["p95_ms"],
                p95_ms if judged else None,
                "ms p95",
                f"Mean {row['mean_ms']:.3f} ms, p50 {row['p50_ms']:.3f} ms, p95 "
                f"{row['p95_ms']:.3f} ms over {row['runs']} "
                "runs, one thread on the export worker's CPU.",
                "Use a smaller or quantised model, or agree on a higher p95 in the contract."
                if late
                else "",
            )
        )
    return checks


def memory_checks(rows: Sequence[Json]) -> list[Check]:
    """By how much the process grew while it ran each batch size; told, not judged."""
    return [
        Check(
            f"memory.{row['batch']}",
            f"Memory at batch {row['batch']}",
            SPEED,
            "skipped",
            round(row["peak_bytes"] / MIB, 3),
            None,
            "MiB",
            f"The process grew by at most {row['peak_bytes'] / MIB:.1f} MiB while it ran batches "
            f"of {row['batch']}, beyond the loaded model.",
        )
        for row in rows
    ]


def size_check(size_bytes: int, peak_bytes: int) -> Check:
    """File size and memory while running; told, not judged."""
    return Check(
        "size",
        "Size and memory",
        SPEED,
        "skipped",
        round(size_bytes / MIB, 3),
        None,
        "MiB",
        f"The file has {size_bytes / MIB:.1f} MiB; the process that ran it took at most "
        f"{peak_bytes / MIB:.0f} MiB.",
    )
