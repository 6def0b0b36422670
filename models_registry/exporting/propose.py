"""Program `propose`: what inputs and outputs a file has, to fill in the form.

Request: `protocol.ProposeRequest`; files: source, and sample, code where there are any.
Answer: {"inputs": [TensorSpec], "outputs": [TensorSpec], "notes": [str]}; an empty shape with a
note means: not in the file, the person has to say. For an ONNX file that is not in an archive also
"beside": the names of the files that hold its weights. What can be run is run, at several sizes,
so that axes which are proposed as free are free.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from models_registry.exporting import (
    harness,
    module_source,
    onnx_files,
    onnx_weights,
    proposing,
    protocol,
    samples,
    sources,
)
from models_registry.exporting.harness import WORK, Reporter
from models_registry.exporting.proposing import Clock
from models_registry.exporting.protocol import Json, ProposeRequest, Refused, TensorSpec
from models_registry.exporting.sampling import Array, Feeds
from models_registry.exporting.sessions import Session

_ONNX: Final = frozenset({"onnx", "onnx_archive"})
_RUN_BELOW: Final = 200 * 1000 * 1000
_WEIGHTS_ONLY: Final = (
    "The file holds weights only and does not say what its inputs are: add the module's source, "
    "and they are read from it."
)


def program(document: Json, reporter: Reporter) -> Json:
    """See the module."""
    request = ProposeRequest.from_json(document)
    source = harness.needed_file(protocol.SOURCE)
    reporter.progress(0.1, "Reading the file")
    if request.source_format in _ONNX:
        return _onnx(request, source)
    if request.source_format in module_source.NEEDS_CODE | module_source.TAKES_CODE:
        return _torch(request, source)
    known = sources.propose(request.source_format, source)
    return known or proposing.answer([], [], ["The file does not say what its inputs are."])


def _sample() -> dict[str, Array] | None:
    path = harness.input_file(protocol.SAMPLE)
    return samples.arrays(path) if path is not None else None


# ONNX


def _onnx(request: ProposeRequest, source: Path) -> Json:
    archive = request.source_format == "onnx_archive"
    path = onnx_files.unpack(source, WORK / "unpacked", graph_only=True) if archive else source
    model = onnx_files.graph_of(path)
    missing = onnx_files.without_shape(model)
    notes = [f"The file does not say the shape of “{name}”." for name in sorted(missing)]
    inputs, outputs = onnx_files.inputs(model), onnx_files.outputs(model)
    beside = list(onnx_weights.beside(model))
    if not beside and not missing and path.stat().st_size < _RUN_BELOW:
        inputs, outputs, said = _tried(path, inputs, outputs, Clock(request.seconds))
        notes += said
    said_of_file = proposing.answer(inputs, outputs, notes)
    return said_of_file | ({} if archive else {"beside": beside})


def _tried(
    path: Path, inputs: tuple[TensorSpec, ...], outputs: tuple[TensorSpec, ...], clock: Clock
) -> tuple[tuple[TensorSpec, ...], tuple[TensorSpec, ...], list[str]]:
    """The file's axes in business words, after runs at other sizes; else as declared."""
    named = proposing.renamed(inputs)
    try:
        session = Session(path, seconds=min(5.0, clock.seconds))
        sample = harness.input_file(protocol.SAMPLE)
        feeds = samples.read(sample, named) if sample is not None else None

        def run(given: Feeds) -> list[tuple[str, Array]]:
            used = {name: value for name, value in given.items() if name in session.inputs}
            return list(zip(session.outputs, session.run(used), strict=True))

        return proposing.explored(run, named, feeds, clock)
    except Refused as refused:
        # The export will say it in full; here it only keeps the axes from being tried.
        return named, outputs, [refused.refusal.message]


# PyTorch


def _torch(request: ProposeRequest, source: Path) -> Json:
    given = harness.input_file(protocol.CODE)
    needs_code = request.source_format in module_source.NEEDS_CODE
    if needs_code and given is None:
        return proposing.answer([], [], [_WEIGHTS_ONLY])
    code = module_source.code_of(request.source_format, request.module)
    from models_registry.exporting import torch_propose, torch_sources  # torch takes two seconds

    if request.source_format == torch_sources.TORCH_EXPORT:
        return torch_propose.program_inputs(torch_sources.open_program(source, code))
    return torch_propose.proposal(
        request.source_format, source, code, _sample(), Clock(request.seconds)
    )


if __name__ == "__main__":
    harness.run(program)
