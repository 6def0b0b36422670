"""A model of a table as a source: which inputs a caller gives, and the graph that takes just those.

The model wants a matrix, or columns by name. Callers may describe one input [batch, n], one input
[batch, 1] for each column, or anything whose widths add up; the graph gets the nodes in between.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx

from models_registry.exporting import (
    harness,
    module_source,
    protocol,
    sampling,
    scanning,
    tabular_assembly,
    tabular_skops,
)
from models_registry.exporting.protocol import Json, ModuleSource, Refused, TensorSpec
from models_registry.exporting.sampling import Array, Feeds
from models_registry.exporting.sessions import Session
from models_registry.exporting.sources import Opening, Wanted
from models_registry.exporting.tabular_columns import Column, Table
from models_registry.exporting.tabular_models import Answers, Model, Rows
from models_registry.rules import opsets, tensors

FEATURES: Final = "features"
_MISSING_SHARE: Final = 0.15
_SINGLE: Final = {"FP64": "FP32"}
_DOUBLE: Final = {"FP32": "FP64"}
_TRIED_ROWS: Final = 64
Initial = list[tuple[str, str, int]]


@dataclass(frozen=True, slots=True)
class TabularSource:
    """See `sources.Source`."""

    model: Model
    inputs: tuple[TensorSpec, ...]
    ranges: dict[str, Any]
    keeps_names: bool = False

    def run(self, feeds: Feeds) -> Answers:
        """The framework's own answers to the rows that the inputs make up together."""
        table = self.model.table
        columns: list[Array] = []
        for spec in self.inputs:
            array = feeds[spec.name]
            wide = array.reshape(len(array), -1)
            columns += [_value(wide[:, index]) for index in range(wide.shape[1])]
        order = _order(self.inputs, table)
        return self.model.answers(Rows(table, tuple(columns[index] for index in order)))

    def export(self, path: Path, wanted: Wanted) -> tuple[str, list[str]]:
        """The model's graph between the described inputs and the wanted outputs."""
        opset = min(wanted.opset, tabular_assembly.NEWEST_OPSET)
        initial = self._initial()
        notes = list(self.model.warnings)
        single = [(name, _SINGLE.get(dtype, dtype), width) for name, dtype, width in initial]
        double = [(name, _DOUBLE.get(dtype, dtype), width) for name, dtype, width in initial]
        try:
            core = self._written(path, wanted, initial, opset)
        except Refused:
            if single == initial:
                raise
            core = self._written(path, wanted, single, opset)
            notes.append(
                "The graph computes in single precision: one of its operators has no other form."
            )
        else:
            if initial == single != double and not self._agrees(path):
                core, note = self._in_double(path, wanted, (single, double), opset)
                notes += note
        if opset < wanted.opset:
            notes.append(f"The graph has opset {opset}: the converter knows no newer one.")
        return f"{tabular_assembly.exporter(core)}, opset {opset}", notes

    def _agrees(self, path: Path) -> bool:
        """Whether graph and framework give drawn rows the same answers, as validation will ask."""
        sizes = dict.fromkeys(tensors.free_names(self.inputs), _TRIED_ROWS)
        feeds = sampling.feeds_for(self.inputs, sizes, (0, 0), self.ranges)
        session = Session(path, seconds=60.0)
        try:
            wanted = self.run(feeds)
            given = session.run({name: feeds[name] for name in session.inputs})
        except Exception:  # noqa: BLE001 - what fails on drawn rows is for validation to say
            return True
        return all(
            np.allclose(ours, theirs, rtol=1e-4, atol=1e-5, equal_nan=True)
            for ours, (_, theirs) in zip(given, wanted, strict=True)
            if theirs.dtype.kind == "f"
        )

    def _in_double(
        self, path: Path, wanted: Wanted, forms: tuple[Initial, Initial], opset: int
    ) -> tuple[onnx.ModelProto, list[str]]:
        """The graph in double precision where that agrees, else in single again."""
        single, double = forms
        try:
            core = self._written(path, wanted, double, opset)
            if self._agrees(path):
                return core, [
                    "The graph computes in double precision: in single its answers would be others."
                ]
        except Refused:
            wanted.reporter.log("There is no form in double precision", "warning")
        return self._written(path, wanted, single, opset), []

    def _written(
        self, path: Path, wanted: Wanted, initial: list[tuple[str, str, int]], opset: int
    ) -> onnx.ModelProto:
        core = self.model.graph(initial, opset)
        tabular_assembly.assemble(
            core,
            self.inputs,
            initial=initial,
            order=_order(self.inputs, self.model.table),
            answers=self.run(wanted.feeds),
            names=wanted.outputs,
            feeds=wanted.feeds,
            path=path,
            ir_version=opsets.runtime(wanted.target).ir_version,
        )
        return core

    def _initial(self) -> list[tuple[str, str, int]]:
        """What the model's own graph takes: a matrix, or each column with its own type."""
        table = self.model.table
        double = any(spec.dtype == "FP64" for spec in self.inputs)
        if table.is_matrix:
            return [(FEATURES, "FP64" if double else "FP32", len(table.columns))]
        kinds = {column.dtype for column in table.columns}
        if not table.framed and len(kinds) == 1:
            return [(FEATURES, kinds.pop(), len(table.columns))]
        return [
            (column.name, "FP64" if double and column.dtype == "FP32" else column.dtype, 1)
            for column in table.columns
        ]


def _value(column: Array) -> Array:
    """Text as objects, numbers as they are."""
    if column.dtype.kind not in "OUS":
        return column
    return np.array(
        [one.decode("utf-8", "replace") if isinstance(one, bytes) else str(one) for one in column],
        dtype=object,
    )


def open_source(opening: Opening) -> TabularSource:
    """The model in the file with the inputs that were described, or those that it names itself."""
    return source_of(_open(opening.source_format, opening.path, opening.module), opening.inputs)


def source_of(model: Model, described: tuple[TensorSpec, ...] = ()) -> TabularSource:
    """An opened model with the inputs that were described, or those that it names itself."""
    inputs = described or proposed(model.table)
    _fit(inputs, model.table)
    return TabularSource(model, inputs, _ranges(inputs, model.table))


def proposal(source_format: str, path: Path) -> Json:
    """Inputs and outputs as the file says them; notes name the features of a matrix."""
    model = _open(source_format, path, ModuleSource())
    source = source_of(model)
    notes = list(model.warnings)
    names = [column.name for column in model.table.columns]
    if model.table.is_matrix and not names[0].startswith("column_"):
        notes.insert(0, f"The {len(names)} features are, in order: {', '.join(names)[:600]}.")
    outputs: list[TensorSpec] = []
    try:
        outputs = tabular_assembly.observed(source)
    except Refused as refused:
        notes.append(f"{refused.refusal.message} {refused.refusal.hint}")
    except Exception as error:  # noqa: BLE001 - what the model says of rows nobody gave
        notes.append(f"The outputs are not known yet: {type(error).__name__}: {error}"[:300])
    return {
        "inputs": [spec.to_json() for spec in source.inputs],
        "outputs": [spec.to_json() for spec in outputs],
        "notes": notes,
    }


def proposed(table: Table) -> tuple[TensorSpec, ...]:
    """The natural inputs of a table: one matrix of numbers, else one input for each column."""
    dims = (tensors.BATCH, "")
    if table.is_matrix:
        return (TensorSpec(FEATURES, "FP32", (-1, len(table.columns)), dims),)
    return tuple(TensorSpec(column.name, column.dtype, (-1, 1), dims) for column in table.columns)


# Opening by format


def _open(source_format: str, path: Path, module: ModuleSource) -> Model:
    scanning.refuse_unsafe(path)
    from models_registry.exporting import tabular_boosters, tabular_models, tabular_pickles

    with path.open("rb") as stream:
        head = stream.read(64)
    if source_format == "skops":
        return tabular_models.estimator_model(tabular_skops.load(path))
    if source_format == "xgboost" and head.lstrip()[:1] == b"{":
        return tabular_boosters.open_xgboost(path)
    if source_format == "lightgbm" and head.startswith(b"tree"):
        return tabular_boosters.open_lightgbm(path)
    if source_format == "catboost" and not head.startswith((b"\x80", b"x")):
        form = "json" if head.lstrip()[:1] == b"{" else "cbm"
        return tabular_boosters.open_catboost(path, form)
    given = harness.input_file(protocol.CODE)
    code = module_source.prepare(given, module, harness.WORK / "code") if given else None
    loaded = tabular_pickles.load(path, code)
    native = tabular_boosters.native(loaded.model, loaded.warnings)
    if native is not None:
        return native
    return tabular_models.estimator_model(loaded.model, loaded.warnings, loaded.versions)


# Described inputs against the table


def _width(spec: TensorSpec) -> int:
    if len(spec.shape) == 1:
        return 1
    return spec.shape[1] if len(spec.shape) == 2 and not spec.dims[1] else 0


def _fit(inputs: Sequence[TensorSpec], table: Table) -> None:
    """`Refused` unless the inputs are rows whose columns are those of the table."""
    wanted = len(table.columns)
    names = ", ".join(column.name for column in table.columns)[:400]
    for index, spec in enumerate(inputs):
        if not _width(spec):
            raise Refused(
                "shape_does_not_fit",
                f"The input “{spec.name}” has shape {list(spec.shape)}; a table's input has rows "
                "first and a fixed number of columns second.",
                "Describe it as [batch, 1] for one column, or [batch, n] for n of them.",
                f"/inputs/{index}/shape",
            )
    given = sum(_width(spec) for spec in inputs)
    if given != wanted:
        raise Refused(
            "inputs_do_not_fit",
            f"The inputs have {given} columns together where the model takes {wanted}: {names}.",
            "Describe these columns in this order, or leave the inputs out to take them from the "
            "file.",
            "/inputs",
        )
    places = [(i, spec) for i, spec in enumerate(inputs) for _ in range(_width(spec))]
    for place, column in zip(_order(inputs, table), table.columns, strict=True):
        index, spec = places[place]
        if (spec.dtype == "BYTES") != (column.dtype == "BYTES"):
            raise Refused(
                "dtype_does_not_fit",
                f"The column “{column.name}” is {'text' if column.dtype == 'BYTES' else 'a number'}"
                f" in the model; its input “{spec.name}” is described as {spec.dtype}.",
                f"Describe it as {column.dtype}.",
                f"/inputs/{index}/dtype",
            )


def _order(inputs: Sequence[TensorSpec], table: Table) -> list[int]:
    """For each column of the table the place among the described columns that it comes from.

    By name where the names are those of the columns, else in the order of description.
    """
    names = [column.name for column in table.columns]
    described = [spec.name for spec in inputs]
    if sorted(names) == sorted(described):
        return [described.index(name) for name in names]
    return list(range(len(names)))


def _ranges(inputs: Sequence[TensorSpec], table: Table) -> dict[str, Any]:
    """What the columns say of their values, by input (`sampling.Ranges`)."""
    order = _order(inputs, table)
    by_place: dict[int, Column] = dict(zip(order, table.columns, strict=True))
    found: dict[str, Any] = {}
    place = 0
    for spec in inputs:
        width = _width(spec)
        columns = [by_place[place + index] for index in range(width)]
        place += width
        values = [column.values for column in columns]
        if width == 1 and values[0] is not None:
            one = values[0]
            found[spec.name] = _rounded(one, spec) if isinstance(one, list) else one
        elif width > 1 and all(isinstance(one, list) for one in values):
            ends = [[one[0] for one in values], [one[1] for one in values]]
            found[spec.name] = _rounded(ends, spec)
        elif width > 1 and all(isinstance(one, dict) for one in values):
            together = [choice for one in values for choice in one["choices"]]
            found[spec.name] = {"choices": together}
        if any(column.missing for column in columns) and spec.dtype in tensors.FLOATS:
            known = found.get(spec.name)
            found[spec.name] = [
                *(known if isinstance(known, list) else [-3.0, 3.0]),
                _MISSING_SHARE,
            ]
    return found


def _rounded(ends: Any, spec: TensorSpec) -> Any:
    """Whole numbers for integer inputs; one pair where a list for each column cannot be drawn."""
    if spec.dtype not in tensors.INTEGERS:
        return ends
    flat_low, flat_high = np.min(ends[0]), np.max(ends[1])
    return [float(np.floor(flat_low)), float(np.ceil(flat_high))]
