"""A version's training sample: read from rows that people give, kept as columns in order of size.

Only what drift needs is kept: each feature by itself. A training set's rows are other people's
data, and no row can be put together again from columns that are sorted each for itself.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, NoReturn

import numpy as np

from console.errors import FieldError, Invalid, TooLarge
from models_registry.exporting.protocol import TensorSpec
from models_registry.rules import tensors
from models_registry.rules.feature_values import MOST_COLUMNS, Array, Column, columns_of

MOST_BYTES: Final = 16 * 1024**2
FEWEST_ROWS: Final = 100
MOST_ROWS: Final = 100_000
MOST_VALUES: Final = 5000
"""Values of a feature that are kept: evenly spaced ones of those in order, within 0.0001."""
MOST_WORDS: Final = 1000
FORMAT: Final = "covenant.reference-sample/1"
_MOST_FAULTS: Final = 10
_TITLE: Final = 80


@dataclass(frozen=True, slots=True)
class KeptFeature:
    """One feature of a training sample; `values` are in order of size, without the missing ones.

    `title` is what people call it; `missing` of the `rows` had no value.
    """

    name: str
    title: str
    kind: str
    rows: int
    missing: int
    values: tuple[float, ...]
    counts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Sample:
    """A training sample as it is kept."""

    rows: int
    features: tuple[KeptFeature, ...]


def read_rows(data: bytes, inputs: Sequence[TensorSpec], *, batched: bool) -> Sample:
    """A training sample from CSV with a line of names, or from the JSON of a v2 request.

    The columns of a CSV file are the version's features by their names, or just as many in their
    order (what the file calls them is then shown to people). Raises TooLarge (`sample_too_large`),
    Invalid (`bad_reference_sample`).
    """
    if len(data) > MOST_BYTES:
        raise TooLarge(
            f"The training sample has more than {MOST_BYTES // 1024**2} MiB.",
            code="sample_too_large",
            hint=f"Draw rows from it: {MOST_VALUES} are enough.",
        )
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        _refuse("It is no text in UTF-8.")
    if text.lstrip().startswith("{"):
        return _kept(columns_of(_of_json(text, inputs), batched=batched), {})
    return _of_csv(text, inputs, batched=batched)


def to_bytes(sample: Sample) -> bytes:
    """The document that is stored: the same sample gives the same bytes."""
    features = []
    for one in sample.features:
        document: dict[str, Any] = {"name": one.name, "title": one.title, "kind": one.kind}
        document |= {"rows": one.rows, "missing": one.missing}
        document |= (
            {"counts": dict(one.counts)} if one.kind == "text" else {"values": list(one.values)}
        )
        features.append(document)
    document = {"format": FORMAT, "rows": sample.rows, "features": features}
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


def from_bytes(data: bytes) -> Sample:
    """Inverse of `to_bytes`."""
    document = json.loads(data)
    return Sample(
        rows=int(document["rows"]),
        features=tuple(
            KeptFeature(
                name=one["name"],
                title=one["title"],
                kind=one["kind"],
                rows=int(one["rows"]),
                missing=int(one["missing"]),
                values=tuple(float(value) for value in one.get("values", ())),
                counts={word: int(count) for word, count in one.get("counts", {}).items()},
            )
            for one in document["features"]
        ),
    )


def of_request(
    request: Mapping[str, Any], inputs: Sequence[TensorSpec], *, batched: bool
) -> Sample:
    """The sample of a v2 request with many rows. Raises Invalid when there are too few."""
    return _kept(columns_of(_arrays(request, inputs), batched=batched), {})


def feature_names(inputs: Sequence[TensorSpec], *, batched: bool) -> list[str] | None:
    """The names of a version's features; None where its shapes leave open how many there are."""
    names: list[str] = []
    for spec in inputs:
        served = tensors.as_served(spec, batched=batched)
        sizes = served.shape[1:] if batched else served.shape
        if any(size < 1 for size in sizes):
            return None
        width = math.prod(sizes)
        if width == 1:
            names.append(spec.name)
        elif width <= MOST_COLUMNS:
            names += [f"{spec.name}[{place}]" for place in range(width)]
        else:
            return None
    return names


def _of_json(text: str, inputs: Sequence[TensorSpec]) -> dict[str, Array]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        _refuse(f"It is no JSON: {error}")
    return _arrays(document, inputs)


def _arrays(document: Mapping[str, Any], inputs: Sequence[TensorSpec]) -> dict[str, Array]:
    """The tensors of a v2 request by their names, in the order of the version's inputs."""
    given = document.get("inputs")
    if not isinstance(given, list):
        _refuse("It has no list “inputs”, as a v2 request has.")
    found: dict[str, Array] = {}
    for index, one in enumerate(given):
        try:
            dtype = object if one.get("datatype") == "BYTES" else np.float64
            values = np.asarray(_numbers(one["data"]), dtype=dtype)
            found[str(one["name"])] = values.reshape([int(size) for size in one["shape"]])
        except (
            KeyError,
            TypeError,
            ValueError,
            OverflowError,
            AttributeError,
            RecursionError,
        ) as error:
            _refuse(f"Input {index + 1} cannot be read: {error}", f"/inputs/{index}")
    missing = [spec.name for spec in inputs if spec.name not in found]
    if missing:
        _refuse(f"The input {missing[0]} is missing.", "/inputs")
    return {spec.name: found[spec.name] for spec in inputs}


def _numbers(data: Any) -> Any:
    """JSON has no NaN: a value that is missing is null."""
    if isinstance(data, list):
        return [_numbers(one) for one in data]
    return math.nan if data is None else data


def _of_csv(text: str, inputs: Sequence[TensorSpec], *, batched: bool) -> Sample:
    names = feature_names(inputs, batched=batched)
    if names is None:
        _refuse("The version's inputs have no fixed number of columns: send a v2 request instead.")
    try:
        reader = csv.reader(io.StringIO(text), strict=True)
        # No more than is looked at: sixteen million empty lines would take a gigabyte.
        lines = list(islice((line for line in reader if line), MOST_ROWS + 2))
    except csv.Error as error:
        _refuse(f"It is no CSV: {error}.")
    if not lines:
        _refuse("It is empty.")
    header, rows = [name.strip() for name in lines[0]], lines[1:]
    by_name = set(names) <= set(header)
    if not by_name and len(header) != len(names):
        shown = ", ".join(names[:12]) + (" …" if len(names) > 12 else "")
        _refuse(
            f"It has {len(header)} columns, and the version has {len(names)} features: {shown}."
        )
    if len(rows) > MOST_ROWS:
        _refuse(f"It has more than {MOST_ROWS} rows, the most that are read.")
    places = [header.index(name) for name in names] if by_name else list(range(len(names)))
    texts = {spec.name for spec in inputs if spec.dtype == "BYTES"}
    faults: list[FieldError] = []
    columns = {
        name: _csv_column(rows, place, name.split("[")[0] in texts, header[place], faults)
        for name, place in zip(names, places, strict=True)
    }
    if faults:
        raise _refusal("Some values cannot be read.", tuple(faults[:_MOST_FAULTS]))
    titles = {} if by_name else dict(zip(names, header, strict=True))
    return _kept(columns, titles)


def _csv_column(
    rows: Sequence[Sequence[str]], place: int, is_text: bool, title: str, faults: list[FieldError]
) -> Column:
    values: list[Any] = []
    for number, row in enumerate(rows, start=2):
        said = row[place].strip() if place < len(row) else ""
        if is_text:
            values.append(said)
            continue
        try:
            values.append(float(said) if said else math.nan)
        except ValueError:
            if len(faults) < _MOST_FAULTS:
                faults.append(FieldError(f"/{number}/{title}", f"“{said[:40]}” is no number."))
    if is_text:
        return Column("text", np.asarray(values, dtype=object))
    return Column("number", np.asarray(values, dtype=np.float64))


def _kept(columns: Mapping[str, Column], titles: Mapping[str, str]) -> Sample:
    rows = min((len(one.values) for one in columns.values()), default=0)
    if rows < FEWEST_ROWS:
        _refuse(f"It has {rows} rows; below {FEWEST_ROWS} a distribution is not known.")
    if rows > MOST_ROWS:
        _refuse(f"It has {rows} rows; {MOST_ROWS} are read at most.")
    features = []
    for name, column in columns.items():
        title = titles.get(name, name)[:_TITLE] or name
        if column.kind == "text":
            counts = Counter(str(value)[:120] for value in column.values)
            words = dict(sorted(counts.most_common(MOST_WORDS)))
            features.append(KeptFeature(name, title, "text", rows, 0, (), words))
            continue
        held = column.values[np.isfinite(column.values)]
        missing = len(column.values) - len(held)
        features.append(KeptFeature(name, title, "number", rows, missing, _thinned(held), {}))
    return Sample(rows, tuple(features))


def _thinned(values: Array) -> tuple[float, ...]:
    ordered = np.sort(values)
    if len(ordered) > MOST_VALUES:
        places = (np.arange(MOST_VALUES) + 0.5) * len(ordered) / MOST_VALUES
        ordered = ordered[places.astype(np.int64)]
    # Nine digits are all that an FP32 has.
    return tuple(float(f"{value:.9g}") for value in ordered)


def _refuse(what: str, pointer: str = "") -> NoReturn:
    raise _refusal(what, (FieldError(pointer, what),) if pointer else ())


def _refusal(what: str, faults: tuple[FieldError, ...]) -> Invalid:
    return Invalid(
        f"This is no training sample of the version. {what}",
        code="bad_reference_sample",
        hint=f"Give CSV with a line of names, or a v2 request as JSON; {FEWEST_ROWS} rows or more.",
        errors=faults,
    )
