"""An uploaded ONNX file as a source: it is its own export, in a session of its own as reference."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any, Final

from models_registry.exporting import (
    axes,
    graph_findings,
    lowering,
    onnx_files,
    onnx_weights,
    operators,
    protocol,
)
from models_registry.exporting.harness import INPUT, WORK
from models_registry.exporting.protocol import MODEL_DATA, Refused, TensorSpec
from models_registry.exporting.sampling import Array, Feeds
from models_registry.exporting.sessions import Session
from models_registry.exporting.sources import Opening, Wanted
from models_registry.rules import tensors

_LARGE_BYTES: Final = 256 * 1024**2


@dataclass(frozen=True, slots=True)
class OnnxSource:
    """See `sources.Source`."""

    inputs: tuple[TensorSpec, ...]
    session: Session
    ranges: dict[str, list[Any]] = field(default_factory=dict)
    keeps_names: bool = True
    notes: tuple[str, ...] = ()
    mended: bool = False

    def run(self, feeds: Feeds) -> list[tuple[str, Array]]:
        """Outputs by name; inputs that the graph does not use are left out."""
        used = {name: value for name, value in feeds.items() if name in self.session.inputs}
        return list(zip(self.session.outputs, self.session.run(used), strict=True))

    def export(self, path: Path, wanted: Wanted) -> tuple[str, list[str]]:
        """The file lies there already: opening checks that very copy."""
        words = (
            "the ONNX file in versions of the target" if self.mended else "the ONNX file as it is"
        )
        return words, list(self.notes)


def to_export(opening: Opening) -> OnnxSource:
    """The model where an export lies, in one file or with its weights beside it, checked."""
    origin = _unpacked(opening)
    model = onnx_files.graph_of(origin)
    elsewhere = onnx_weights.beside(model)
    onnx_weights.attach(model, origin.parent, keep_above=opening.inline_bytes)
    model, mended = lowering.fit(model, opening.target)
    operators.check(model, opening.target)
    graph_findings.refuse_training(model)
    specs = _described(onnx_files.inputs(model), opening.inputs, onnx_files.without_shape(model))
    ranges = graph_findings.compared_numbers(model)
    path = WORK / protocol.MODEL
    if not mended and not elsewhere and origin.stat().st_size <= opening.inline_bytes:
        shutil.copyfile(origin, path)
    else:
        onnx_weights.write(model, origin.parent, path, keep_above=opening.inline_bytes)
    del model  # a large one is not held twice
    shutil.rmtree(WORK / "unpacked", ignore_errors=True)
    onnx_files.checked(path, opening.target)
    session = Session(path, seconds=opening.seconds, lean=_is_large(path))
    found = OnnxSource(
        specs, session, ranges, notes=(*mended, *_unused(origin, elsewhere)), mended=bool(mended)
    )
    return found if opening.inputs else _with_states(found)


def _with_states(source: OnnxSource) -> OnnxSource:
    """The same, the one free axis of a recurrent state taken for the batch where that runs.

    Nobody named the axes of such a file; a state is [layers, batch, width].
    """
    batch = tensors.batch_name(source.inputs)
    renamed = tuple(_as_state(spec, batch) if batch else spec for spec in source.inputs)
    if renamed == source.inputs:
        return source
    try:
        axes.first_run(source.run, renamed, None, source.ranges)
    except Refused:
        return source
    return replace(source, inputs=renamed)


def _as_state(spec: TensorSpec, batch: str) -> TensorSpec:
    free = [axis for axis, name in enumerate(spec.dims) if name]
    if len(spec.shape) < 3 or len(free) != 1 or spec.dims[free[0]] != f"dim_{free[0]}":
        return spec
    return replace(spec, dims=tuple(batch if name else "" for name in spec.dims))


def reference(opening: Opening) -> OnnxSource:
    """The uploaded file in a session of its own without optimisations: nothing else runs it."""
    path = _unpacked(opening)
    model = onnx_files.graph_of(path)
    if onnx_weights.beside(model):
        # ONNX Runtime needs the values of small tensors, such as shapes, in the graph.
        origin, path = path, WORK / "source.onnx"
        onnx_weights.write(model, origin.parent, path, keep_above=opening.inline_bytes)
        shutil.rmtree(WORK / "unpacked", ignore_errors=True)
    del model
    session = Session(path, seconds=opening.seconds, optimised=False, lean=_is_large(path))
    return OnnxSource(opening.inputs, session)


def _is_large(path: Path) -> bool:
    """Whether its weights are better not held twice."""
    return path.stat().st_size > _LARGE_BYTES or path.with_name(MODEL_DATA).exists()


def _unused(origin: Path, elsewhere: Sequence[str]) -> tuple[str, ...]:
    """A sentence when files came with an uploaded ONNX file that it does not refer to."""
    if origin.parent != INPUT:
        return ()
    given = {file.name for file in INPUT.iterdir() if file.is_file()} - protocol.OWN_FILES
    unused = sorted(given - {PurePosixPath(name).name for name in elsewhere})
    if not unused:
        return ()
    return (f"The graph does not refer to {', '.join(unused)[:300]}; it was left out.",)


def _unpacked(opening: Opening) -> Path:
    if opening.source_format == "onnx_archive":
        return onnx_files.unpack(opening.path, WORK / "unpacked")
    return opening.path


def _described(
    own: Sequence[TensorSpec], wanted: Sequence[TensorSpec], shapeless: set[str]
) -> tuple[TensorSpec, ...]:
    """The file's inputs with the names, sizes and ranges that the person gave for them."""
    described = {spec.name: spec for spec in wanted}
    if described and set(described) != {spec.name for spec in own}:
        there = ", ".join(f"{spec.name} {spec.dtype} {list(spec.shape)}" for spec in own)
        raise Refused(
            "inputs_do_not_fit",
            f"The described inputs ({', '.join(described)}) are not those of the file: {there}."[
                :600
            ],
            "Use the file's names, or leave the inputs out to take them from the file.",
            "/inputs",
        )
    result = []
    for spec in own:
        person = described.get(spec.name)
        if person is None:
            if spec.name in shapeless:
                raise Refused(
                    "input_shape_unknown",
                    f"The file does not say which shape the input “{spec.name}” has.",
                    "Describe the input with its shape.",
                    "/inputs",
                )
            result.append(spec)
            continue
        if person.dtype != spec.dtype:
            raise Refused(
                "dtype_does_not_fit",
                f"The input “{spec.name}” is {spec.dtype} in the file and {person.dtype} "
                "as described.",
                f"Describe it as {spec.dtype}.",
                "/inputs",
            )
        if spec.name not in shapeless:
            _refuse_other_shape(spec, person)
        result.append(person)
    return tuple(result)


def _refuse_other_shape(spec: TensorSpec, person: TensorSpec) -> None:
    same = len(spec.shape) == len(person.shape) and all(
        name or (size == other)
        for size, name, other in zip(spec.shape, spec.dims, person.shape, strict=True)
    )
    if not same:
        raise Refused(
            "shape_does_not_fit",
            f"The input “{spec.name}” has shape {list(spec.shape)} in the file and "
            f"{list(person.shape)} "
            "as described.",
            "Use the file's shape; -1 stands for a free size.",
            "/inputs",
        )
