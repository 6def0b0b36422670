"""A sample that a person gave: one real set of inputs, as numpy archive or as JSON."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from models_registry.exporting import archives
from models_registry.exporting.protocol import Json, Refused, TensorSpec
from models_registry.exporting.sampling import Array, Feeds
from models_registry.rules import tensors

MAX_BYTES: Final = 64 * archives.MIB
_HINT: Final = (
    'Give an .npz with one array for each input, or JSON: {"inputs": [{name, shape, data}]} '
    "or {input's name: nested lists}."
)


def read(path: Path, specs: Sequence[TensorSpec]) -> Feeds:
    """The sample's arrays in the inputs' data types; `Refused` when they do not fit."""
    if path.stat().st_size > MAX_BYTES:
        raise Refused("sample_too_large", "The sample is larger than 64 MiB.", _HINT, "/sample")
    try:
        given = _npz(path) if zipfile.is_zipfile(path) else _json(path)
    except (ValueError, KeyError, TypeError, OSError, RecursionError) as error:
        raise Refused(
            "sample_invalid", f"The sample cannot be read: {error}"[:300], _HINT, "/sample"
        ) from error
    return {spec.name: _fit(given, spec) for spec in specs}


def arrays(path: Path) -> dict[str, Array]:
    """All arrays of a sample whose inputs nobody has described yet, in the types that it shows.

    JSON has no types but those of a v2 request: whole numbers are INT64 then, others FP32.
    """
    if path.stat().st_size > MAX_BYTES:
        raise Refused("sample_too_large", "The sample is larger than 64 MiB.", _HINT, "/sample")
    try:
        if zipfile.is_zipfile(path):
            return {name: _shown(value) for name, value in _npz(path).items()}
        types = _v2_types(path)
        return {
            name: np.asarray(value).astype(types[name]) if name in types else _shown(value)
            for name, value in _json(path).items()
        }
    except (ValueError, KeyError, TypeError, OSError, RecursionError) as error:
        raise Refused(
            "sample_invalid", f"The sample cannot be read: {error}"[:300], _HINT, "/sample"
        ) from error


def _v2_types(path: Path) -> dict[str, Any]:
    document = json.loads(path.read_text(encoding="utf-8"))
    if isinstance(document, dict) and isinstance(document.get("request"), dict):
        document = document["request"]
    inputs = document.get("inputs") if isinstance(document, dict) else None
    if not isinstance(inputs, list):
        return {}
    return {
        str(item["name"]): object
        if item["datatype"] == "BYTES"
        else tensors.DTYPES[tensors.dtype(str(item["datatype"]))][0]
        for item in inputs
        if "datatype" in item
    }


def _shown(value: Any) -> Array:
    array = np.asarray(value)
    if array.dtype.kind in "USO":
        return array.astype(object)
    return array.astype(np.float32) if array.dtype == np.float64 and _plain(value) else array


def _plain(value: Any) -> bool:
    """Whether it came out of JSON, where every fraction is a double for want of another type."""
    return not isinstance(value, np.ndarray)


def _npz(path: Path) -> dict[str, Any]:
    with archives.open_zip(path) as archive:
        if archives.count_inflated(archive, limit=MAX_BYTES) > MAX_BYTES:
            raise ValueError("it unpacks to more than 64 MiB")
    with np.load(path, allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays.files}


def _json(path: Path) -> dict[str, Any]:
    document = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(document, dict):
        raise ValueError("it is not a JSON object")
    recorded = document.get("request")
    if isinstance(recorded, dict):  # a sample.json that validation left
        document = recorded
    inputs = document.get("inputs")
    if isinstance(inputs, list):
        return {str(item["name"]): np.array(item["data"]).reshape(item["shape"]) for item in inputs}
    return {
        str(name): value
        for name, value in (inputs if isinstance(inputs, dict) else document).items()
    }


def _fit(given: Mapping[str, Any], spec: TensorSpec) -> Array:
    if spec.name not in given:
        there = ", ".join(given) or "nothing"
        raise Refused(
            "sample_does_not_fit",
            f"The sample has no “{spec.name}”; it has: {there[:200]}.",
            _HINT,
            "/sample",
        )
    numpy_name = tensors.DTYPES[spec.dtype][0]
    try:
        array = np.asarray(given[spec.name]).astype(object if spec.dtype == "BYTES" else numpy_name)
    except (ValueError, TypeError) as error:
        raise Refused(
            "sample_does_not_fit",
            f"“{spec.name}” of the sample is not {spec.dtype}: {error}"[:300],
            _HINT,
            "/sample",
        ) from error
    if array.ndim != len(spec.shape) and array.size == max(array.shape, default=1):
        # A number for [1], or a column for a row: as Triton serves it and as the graph has it.
        array = array.reshape(-1) if len(spec.shape) == 1 else array
        array = array.reshape(()) if not spec.shape and array.size == 1 else array
    fits = len(array.shape) == len(spec.shape) and all(
        spec.dims[axis] or size == array.shape[axis] for axis, size in enumerate(spec.shape)
    )
    if not fits or array.size == 0:
        raise Refused(
            "sample_does_not_fit",
            f"“{spec.name}” of the sample has shape {list(array.shape)} where "
            f"{list(spec.shape)} is described.",
            _HINT,
            "/sample",
        )
    return array


def v2_tensor(spec_name: str, dtype: str, array: Array, *, batched: bool = False) -> Json:
    """One tensor of the KServe v2 JSON form as Triton serves it, data row by row."""
    if array.ndim == (1 if batched else 0):
        array = array.reshape(*array.shape, 1)  # see rules.tensors.as_served
    flat = array.reshape(-1)
    data: list[Any] = [str(item) for item in flat] if dtype == "BYTES" else flat.tolist()
    return {"name": spec_name, "datatype": dtype, "shape": list(array.shape), "data": data}
