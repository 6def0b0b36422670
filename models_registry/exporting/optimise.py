"""Program `optimise`: one ONNX file to a lighter one with the same interface, and its facts.

Request: `protocol.OptimiseRequest`; file: model.onnx, the original's. Answer:
`protocol.ExportFacts`; leaves model.onnx. The same input gives the same bytes.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Final

import numpy as np
import onnx

from models_registry.exporting import (
    harness,
    lighter_graphs,
    onnx_files,
    operators,
    protocol,
    sampling,
)
from models_registry.exporting.harness import WORK, Reporter
from models_registry.exporting.lighter_graphs import Lighter
from models_registry.exporting.protocol import (
    Json,
    OptimiseRequest,
    Refusal,
    Refused,
    TensorSpec,
)
from models_registry.exporting.sampling import Array, Feeds
from models_registry.exporting.sessions import RunFailed, Session
from models_registry.rules import optimisations, tensors

_TOOLS: Final = {
    optimisations.SIMPLIFY: ("onnxsim", "onnxsim"),
    optimisations.GRAPH: ("ONNX Runtime", "onnxruntime"),
    optimisations.FP16: ("ONNX Runtime’s FP16 converter", "onnxruntime"),
    optimisations.INT8: ("ONNX Runtime’s dynamic quantisation", "onnxruntime"),
}
_ROWS: Final = 8


def program(document: Json, reporter: Reporter) -> Json:
    """See the module."""
    request = OptimiseRequest.from_json(document)
    origin = harness.needed_file(protocol.MODEL)
    if onnx_files.sha256(origin) != request.facts.sha256:
        raise Refused(
            "digest_mismatch",
            "The ONNX file is not the one that was validated.",
            "Create the version anew from its checkpoint.",
        )
    reporter.progress(0.05, "Opening the original")
    model = onnx_files.load(origin)
    before = onnx_files.operators(model)
    _refuse(optimisations.refusal(request.optimisation, before, request.facts.opset))
    reporter.progress(0.15, "Making it lighter")
    path = WORK / protocol.MODEL
    lighter = _made(request, model)
    lighter_graphs.tidy(lighter.model)
    path.write_bytes(lighter.model.SerializeToString(deterministic=True))
    _refuse(optimisations.grown(request.facts.size_bytes, path.stat().st_size))
    reporter.progress(0.6, "Checking the graph")
    made, session = _loaded(request, path)
    after = onnx_files.operators(made)
    _refuse_what_is_no_gain(request.optimisation, before, after)
    _refuse_strangers(after, before)
    reporter.progress(0.7, "Running it at the original's sizes")
    inputs, outputs = _interface(request, made)
    original = Session(origin, seconds=request.inference_seconds)
    more = _tried(request, inputs, outputs, original, session)
    name, package = _TOOLS[request.optimisation]
    sizes = f"{sum(before.values())} → {sum(after.values())} operators"
    return replace(
        request.facts,
        inputs=inputs,
        outputs=outputs,
        operators=after,
        parameters=onnx_files.parameters(made),
        size_bytes=path.stat().st_size,
        sha256=onnx_files.sha256(path),
        opset=onnx_files.opsets(made).get("", 0),
        ir_version=made.ir_version,
        exporter=f"{name} ({package} {metadata.version(package)}): {sizes}",
        producer=f"{made.producer_name} {made.producer_version}".strip()[:200],
        warnings=(*request.facts.warnings, *lighter.warnings, *_of_runtime(after, before), *more),
    ).to_json()


def _made(request: OptimiseRequest, model: onnx.ModelProto) -> Lighter:
    own = [operators.LIBRARIES / name for name in request.facts.libraries]
    makers: dict[str, Callable[[], Lighter]] = {
        optimisations.SIMPLIFY: lambda: lighter_graphs.simplified(model, own),
        optimisations.GRAPH: lambda: lighter_graphs.fused(model, own),
        optimisations.FP16: lambda: lighter_graphs.halved(model, own, keep_io=request.keep_io),
        optimisations.INT8: lambda: lighter_graphs.quantised(model, own),
    }
    name, _ = _TOOLS[request.optimisation]
    # /tmp is memory and small; the tools write whole models into their temporary folder.
    scratch = WORK / "scratch"
    scratch.mkdir()
    tempfile.tempdir = str(scratch)
    try:
        return makers[request.optimisation]()
    except (Refused, MemoryError):
        raise
    except Exception as error:
        if harness.is_memory_error(error):
            raise MemoryError(str(error)) from error
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        raise Refused(
            "optimisation_failed",
            f"{name} cannot work on this model: {type(error).__name__}: "
            f"{(lines or [''])[-1][:300]}",
            "The original stays as it is. Try another optimisation, or export the original with "
            "another opset.",
        ) from error
    finally:
        shutil.rmtree(scratch)


def _loaded(request: OptimiseRequest, path: Path) -> tuple[onnx.ModelProto, Session]:
    """The new file, checked and in a session; a tool may well write what is not valid."""
    try:
        made = onnx_files.checked(path, request.target)
        return made, Session(path, seconds=request.inference_seconds)
    except Refused as refused:
        name, _ = _TOOLS[request.optimisation]
        raise Refused(
            "optimisation_failed",
            f"{name} cannot work on this model, its result is of no use: {refused.refusal.message}",
            "The original stays as it is. Models with If or Loop often keep the tools from their "
            "work; try another optimisation.",
        ) from refused


def _refuse(refusal: Refusal | None) -> None:
    if refusal is not None:
        raise Refused(refusal.code, refusal.message, refusal.hint, refusal.pointer)


def _refuse_what_is_no_gain(
    optimisation: str, before: dict[str, int], after: dict[str, int]
) -> None:
    if optimisation in (optimisations.SIMPLIFY, optimisations.GRAPH) and before == after:
        _refuse(optimisations.nothing_gained(optimisation))


def _refuse_strangers(after: dict[str, int], before: dict[str, int]) -> None:
    strangers = [name for name in optimisations.strangers(after) if name not in before]
    if strangers:
        raise Refused(
            "operators_not_in_target",
            f"The optimised graph would need {', '.join(strangers)[:300]}, which not every "
            "ONNX Runtime that Triton brings has.",
            "Use “simplify”, which keeps to the operators of the ONNX standard.",
        )


def _of_runtime(after: dict[str, int], before: dict[str, int]) -> list[str]:
    own = [
        name for name in optimisations.contributed(after) if f"com.microsoft:{name}" not in before
    ]
    if not own:
        return []
    return [
        f"{', '.join(own)} {'is' if len(own) == 1 else 'are'} ONNX Runtime’s own, made for the "
        "CPU: the file runs in ONNX Runtime alone, TensorRT cannot read it, and a GPU node runs "
        "what has no GPU kernel on its CPU."
    ]


def _interface(
    request: OptimiseRequest, made: onnx.ModelProto
) -> tuple[tuple[TensorSpec, ...], tuple[TensorSpec, ...]]:
    """The original's inputs and outputs with the data types that the file has now."""
    found = []
    for role, promised, real in (
        ("inputs", request.facts.inputs, onnx_files.inputs(made)),
        ("outputs", request.facts.outputs, onnx_files.outputs(made)),
    ):
        types = {spec.name: spec.dtype for spec in real}
        same = all(
            types.get(spec.name) in ({spec.dtype} if request.keep_io else {spec.dtype, "FP16"})
            for spec in promised
        )
        if not same or len(types) != len(promised):
            raise _other(f"its {role} are {', '.join(f'{n} {t}' for n, t in types.items())[:300]}")
        found.append(tuple(replace(spec, dtype=types[spec.name]) for spec in promised))
    return found[0], found[1]


def _other(what: str) -> Refused:
    return Refused(
        "variant_differs",
        f"The lighter file is not the same model any more: {what}.",
        "Keep the original, or try another optimisation.",
    )


def _tried(
    request: OptimiseRequest,
    inputs: tuple[TensorSpec, ...],
    outputs: tuple[TensorSpec, ...],
    original: Session,
    session: Session,
) -> list[str]:
    """Run both files at every size at which the original is known to run; gives warnings.

    How close the answers are is for validation to say; here shapes and names have to agree.
    """
    if session.outputs != original.outputs:
        raise _other(f"its outputs are {', '.join(session.outputs)[:300]}")
    facts = request.facts
    base = {name: sizes[0] for name, sizes in facts.sizes.items()}
    turns = [base] + [
        base | {name: size} for name, sizes in facts.sizes.items() for size in sizes[1:]
    ]
    for turn in turns:
        feeds = sampling.feeds_for(facts.inputs, turn, (0, 0), facts.ranges)
        wanted, given = _answers(original, facts.inputs, feeds), _answers(session, inputs, feeds)
        for spec, one, other in zip(outputs, wanted, given, strict=True):
            if one.shape != other.shape:
                raise _other(
                    f"at the sizes {turn} “{spec.name}” has shape {list(other.shape)}, the "
                    f"original {list(one.shape)}"
                )
    return _rows_together(request, inputs, session)


def _answers(session: Session, specs: tuple[TensorSpec, ...], feeds: Feeds) -> list[Array]:
    types = {spec.name: tensors.DTYPES[spec.dtype][0] for spec in specs if spec.dtype != "BYTES"}
    given = {
        name: value.astype(types[name], copy=False) if name in types else value
        for name, value in feeds.items()
        if name in session.inputs
    }
    try:
        return session.run(given)
    except RunFailed as failure:
        raise _other(f"it fails where the original runs: {failure}") from failure


def _rows_together(
    request: OptimiseRequest, inputs: tuple[TensorSpec, ...], session: Session
) -> list[str]:
    """Dynamic quantisation scales by the largest value of the whole batch: say what that does."""
    facts = request.facts
    batch = tensors.batch_name(facts.inputs) if facts.batch_axis == 0 else None
    if request.optimisation != optimisations.INT8 or batch is None:
        return []
    one = {name: sizes[0] for name, sizes in facts.sizes.items()} | {batch: 1}
    parts = [sampling.feeds_for(facts.inputs, one, (1, row), facts.ranges) for row in range(_ROWS)]
    whole = _answers(
        session, inputs, sampling.together(parts, sampling.batch_axes(facts.inputs, batch))
    )
    single = [_answers(session, inputs, part) for part in parts]
    apart = max(
        (
            float(np.max(np.abs(together.astype(float) - np.concatenate(alone)), initial=0.0))
            for index, together in enumerate(whole)
            if together.dtype.kind == "f"
            for alone in ([answers[index].astype(float) for answers in single],)
        ),
        default=0.0,
    )
    return [
        "INT8 rounds by the largest value of a whole batch, so a row’s answer moves a little with "
        f"the requests that share its batch: by {apart:.1e} at most among {_ROWS} drawn rows."
    ]


if __name__ == "__main__":
    harness.run(program)
