"""A contract as a form: which fields there are, what they hold, and what a changed field means.

Pure and tolerant: whatever the YAML holds is shown as text, and whatever is typed is put into the
YAML as it was meant, so that one set of rules (the schema's and `contract_checks`') judges both.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from console.errors import Invalid
from console.rules.canonical import JsonValue, loads_strict, pointer_of
from models_registry.rules.contract_edits import Edit, Path
from models_registry.rules.contract_yaml import plain_value

Kind = Literal["value", "text", "date", "choice", "flag", "words", "json", "roles"]

DTYPES = (
    "BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64",
    "FP16", "BF16", "FP32", "FP64", "BYTES",
)  # fmt: skip
ROLES = ("data_scientist", "sre", "business_owner", "platform_admin")
DERIVED = ("simplify", "graph", "fp16", "int8")
PREFIX = "field:"
_MISSING = object()
_NEW_ROWS: Mapping[str, dict[str, Any]] = {
    "/interface/inputs": {"name": "", "dtype": "FP32", "dims": ["batch", 1]},
    "/interface/outputs": {"name": "", "dtype": "FP32", "dims": ["batch", 1]},
    "/errors": {"status": 503, "code": "", "retry": True, "counts_against": "provider"},
    "/fallback/rules": {"name": "", "when": "", "response": {}},
    "/fallback/examples": {"inputs": {}, "response": {}},
}
_MAX_SHOWN = 4_000
MAX_ROWS, MAX_ANSWERS, MAX_RULES = 40, 64, 12
"""Rows of a list that the form shows; all controls together stay below a thousand, which is what
the web takes of one form. The rest of a longer list is edited in the YAML."""


@dataclass(frozen=True, slots=True)
class Field:
    """One control. `label` is a key for the words; `name` what the control is sent as."""

    path: Path
    label: str
    kind: Kind
    value: str
    choices: tuple[str, ...] = ()
    required: bool = False

    @property
    def pointer(self) -> str:
        """Where faults of its value are reported."""
        return pointer_of(*self.path)

    @property
    def name(self) -> str:
        return PREFIX + self.pointer

    @property
    def chosen(self) -> frozenset[str]:
        """What is ticked, of `roles`."""
        return frozenset(self.value.split(",")) if self.value else frozenset()


@dataclass(frozen=True, slots=True)
class Row:
    """One of several alike: a tensor, an error, a value of the fallback."""

    pointer: str
    title: str
    fields: tuple[Field, ...]


@dataclass(frozen=True, slots=True)
class Rows:
    """`named`: a new row needs a name (it is a mapping's member, not a list's).

    `is_cut`: there are more than are shown.
    """

    pointer: str
    label: str
    rows: tuple[Row, ...]
    named: bool = False
    is_cut: bool = False


@dataclass(frozen=True, slots=True)
class Section:
    """`pointers` are the parts of the document that it shows."""

    key: str
    pointers: tuple[str, ...]
    fields: tuple[Field, ...] = ()
    rows: tuple[Rows, ...] = ()

    @property
    def all_fields(self) -> tuple[Field, ...]:
        return (*self.fields, *(f for rows in self.rows for row in rows.rows for f in row.fields))


def sections(body: JsonValue) -> tuple[Section, ...]:
    """The form of a document, whatever state it is in."""
    return (
        _objectives(body),
        _interface(body),
        _section(
            body,
            "request",
            ("timeout_ms", "value", ()),
            ("idempotent", "flag", ("true", "false")),
        ),
        Section("errors", ("/errors",), rows=(_errors(body),)),
        Section("fallback", ("/fallback",), rows=(_fallback(body), *_fallback_rules(body))),
        _section(body, "logging", ("required", "words", ()), ("retention_days", "value", ())),
        Section(
            "drift",
            ("/drift",),
            (
                _field(body, ("drift", "feature_drift_score"), "drift_score", "value"),
                _field(body, ("drift", "model_output_entropy", "above"), "entropy_above", "value"),
                _field(body, ("drift", "model_output_entropy", "for"), "entropy_for", "text"),
            ),
        ),
        _section(body, "explanation", ("method", "choice", ("none", "shap"))),
        _validation(body),
        _rollout(body),
        Section("approvals", ("/approvals",), rows=(_approvals(body),)),
        Section(
            "validity", ("/valid_until",), (_field(body, ("valid_until",), "valid_until", "date"),)
        ),
    )


def shape_of(found: tuple[Section, ...]) -> str:
    """The same for forms with the same controls, whatever these hold."""
    names = "\n".join(
        part
        for section in found
        for part in (*(f.pointer for f in section.all_fields), *(r.pointer for r in section.rows))
    )
    return hashlib.sha256(names.encode()).hexdigest()[:16]


def edits_of(found: tuple[Section, ...], sent: Mapping[str, list[str]]) -> list[Edit]:
    """What the sent controls change. Controls that were not sent change nothing, but for ticks:
    of `roles`, none sent means none ticked, where the control's own mark was sent.
    """
    edits: list[Edit] = []
    for section in found:
        for field in section.all_fields:
            if field.name not in sent:
                continue
            values = [one for one in sent[field.name] if one] or [""]
            text = ",".join(values) if field.kind == "roles" else values[-1]
            if _same(field, text):
                continue
            edits.extend(_edits(field, text.strip()))
    return edits


def act_of(body: JsonValue, act: str, name: str = "") -> list[Edit]:
    """The edits of a button: `add:POINTER` (with a name where rows are named), `remove:POINTER`.

    Empty for a place that the form does not have.
    """
    verb, _, pointer = act.partition(":")
    for section in sections(body):
        for rows in section.rows:
            if verb == "add" and rows.pointer == pointer:
                return [_new_row(body, rows, name.strip()[:64])]
            for row in rows.rows:
                if verb == "remove" and row.pointer == pointer:
                    return [Edit(_path_of(row.pointer, rows), remove=True)]
    return []


def shown(value: object) -> str:
    """A value as its control holds it."""
    if value is _MISSING or value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(one, str | int) for one in value):
        return ", ".join(str(one) for one in value)
    return json.dumps(value, ensure_ascii=False)[:_MAX_SHOWN]


def _same(field: Field, text: str) -> bool:
    # A browser sends line breaks in its own way, and strips what cannot stand in its control.
    return text.split() == field.value.split() or (
        field.kind == "roles" and set(text.split(",")) == set(field.value.split(","))
    )


def _edits(field: Field, text: str) -> Iterator[Edit]:
    if field.path[0] == "objectives" and text:
        # An objective is known by its name, which no control shows.
        name = field.label.partition("_")[0]
        yield Edit((*field.path[:2], "name"), name)
    if text == "" and field.kind not in ("words", "roles", "json"):
        yield Edit(field.path, remove=True)
    else:
        yield Edit(field.path, _meant(field, text))


def _meant(field: Field, text: str) -> JsonValue:
    """What was typed as a value; what cannot be one stays a text, and the schema says so."""
    if field.kind == "roles":
        return [role for role in text.split(",") if role]
    if field.kind == "words":
        parts = [part.strip() for part in text.replace("[", "").replace("]", "").split(",")]
        return [_plain(part) if field.label == "dims" else part for part in parts if part]
    if field.kind in ("value", "flag"):
        return _plain(text)
    if field.kind == "json":
        return _json(text)
    return text


def _plain(text: str) -> JsonValue:
    try:
        return plain_value(text)
    except ValueError:
        return text


def _json(text: str) -> JsonValue:
    if text[:1] in ("[", "{", '"'):
        try:
            return loads_strict(text)
        except Invalid:
            return text
    return _plain(text) if text else ""


def _get(body: object, path: Path) -> Any:
    for part in path:
        if isinstance(part, int):
            if not isinstance(body, list) or part >= len(body):
                return _MISSING
            body = body[part]
        elif isinstance(body, dict) and part in body:
            body = body[part]
        else:
            return _MISSING
    return body


def _field(
    body: JsonValue,
    path: Path,
    label: str,
    kind: Kind,
    choices: tuple[str, ...] = (),
    *,
    required: bool = False,
) -> Field:
    value = _get(body, path)
    if kind == "roles":
        ticked = [one for one in value if isinstance(one, str)] if isinstance(value, list) else []
        return Field(path, label, kind, ",".join(ticked), choices)
    if kind == "json" and value is not _MISSING:
        is_text = isinstance(value, str) and _json(value) == value
        text = str(value) if is_text else json.dumps(value, ensure_ascii=False)
        return Field(path, label, kind, text[:_MAX_SHOWN], choices)
    return Field(path, label, kind, shown(value), choices, required)


def _section(body: JsonValue, key: str, *specs: tuple[str, Kind, tuple[str, ...]]) -> Section:
    fields = tuple(_field(body, (key, name), name, kind, choices) for name, kind, choices in specs)
    return Section(key, (f"/{key}",), fields)


def _objectives(body: JsonValue) -> Section:
    found = _get(body, ("objectives",))
    listed = found if isinstance(found, list) else []
    named = {
        item["name"]: index
        for index, item in reversed(list(enumerate(listed)))
        if isinstance(item, dict) and isinstance(item.get("name"), str)
    }
    latency = named.get("latency", len(listed))
    after = len(listed) + (0 if "latency" in named else 1)
    availability = named.get("availability", after)
    return Section(
        "objectives",
        ("/objectives", "/load"),
        (
            _field(body, ("objectives", latency, "threshold_ms"), "latency_threshold", "value"),
            _field(body, ("objectives", latency, "target"), "latency_target", "value"),
            _field(body, ("objectives", latency, "window"), "latency_window", "text"),
            _field(body, ("objectives", availability, "target"), "availability_target", "value"),
            _field(body, ("objectives", availability, "window"), "availability_window", "text"),
            _field(body, ("load", "qps"), "qps", "value"),
        ),
    )


def _interface(body: JsonValue) -> Section:
    return Section(
        "interface",
        ("/interface",),
        rows=tuple(
            Rows(
                f"/interface/{side}",
                side,
                tuple(_tensor(body, side, index) for index in _indexes(body, ("interface", side))),
                is_cut=_count(body, ("interface", side)) > MAX_ROWS,
            )
            for side in ("inputs", "outputs")
        ),
    )


def _tensor(body: JsonValue, side: str, index: int) -> Row:
    at: Path = ("interface", side, index)
    last = (
        _field(body, (*at, "nan"), "nan", "choice", ("", "refuse", "allow"))
        if side == "inputs"
        else _field(body, (*at, "sums_to"), "sums_to", "value")
    )
    fields = (
        _field(body, (*at, "name"), "name", "text"),
        _field(body, (*at, "dtype"), "dtype", "choice", DTYPES),
        _field(body, (*at, "dims"), "dims", "words"),
        _field(body, (*at, "min"), "min", "value"),
        _field(body, (*at, "max"), "max", "value"),
        last,
    )
    return Row(pointer_of(*at), fields[0].value or str(index + 1), fields)


def _errors(body: JsonValue) -> Rows:
    rows = []
    for index in _indexes(body, ("errors",)):
        at: Path = ("errors", index)
        fields = (
            _field(body, (*at, "status"), "status", "value"),
            _field(body, (*at, "code"), "code", "text"),
            _field(body, (*at, "retry"), "retry", "flag", ("true", "false")),
            _field(
                body,
                (*at, "counts_against"),
                "counts_against",
                "choice",
                ("caller", "provider", "none"),
            ),
        )
        rows.append(Row(pointer_of(*at), f"{fields[0].value} {fields[1].value}".strip(), fields))
    return Rows("/errors", "errors", tuple(rows), is_cut=_count(body, ("errors",)) > MAX_ROWS)


def _fallback(body: JsonValue) -> Rows:
    response = _get(body, ("fallback", "response"))
    names = list(response)[:MAX_ANSWERS] if isinstance(response, dict) else []
    rows = tuple(
        Row(
            pointer_of("fallback", "response", name),
            name,
            (_field(body, ("fallback", "response", name), "answer", "json"),),
        )
        for name in names
    )
    is_cut = _count(body, ("fallback", "response")) > MAX_ANSWERS
    return Rows("/fallback/response", "fallback", rows, named=True, is_cut=is_cut)


def _fallback_rules(body: JsonValue) -> tuple[Rows, ...]:
    """The rules in the order in which they are tried, and the examples that test them."""
    specs: Mapping[str, tuple[tuple[str, str, Kind], ...]] = {
        "rules": (
            ("name", "name", "text"),
            ("when", "when", "text"),
            ("response", "gives", "json"),
        ),
        "examples": (("inputs", "row", "json"), ("response", "gives", "json")),
    }
    found = []
    for key, fields in specs.items():
        at: Path = ("fallback", key)
        rows = []
        for index in _indexes(body, at)[:MAX_RULES]:
            controls = tuple(
                _field(body, (*at, index, name), label, kind) for name, label, kind in fields
            )
            title = controls[0].value if key == "rules" else ""
            rows.append(Row(pointer_of(*at, index), title or str(index + 1), controls))
        is_cut = _count(body, at) > MAX_RULES
        found.append(Rows(pointer_of(*at), key, tuple(rows), is_cut=is_cut))
    return tuple(found)


def _validation(body: JsonValue) -> Section:
    plain = tuple(
        _field(body, ("validation", name), name, "value")
        for name in ("samples", "seed", "atol", "rtol", "p95_ms")
    )
    derived = tuple(
        _field(body, ("validation", "derived", kind, limit), f"{kind}_{limit}", "value")
        for kind in DERIVED
        for limit in ("atol", "rtol")
    )
    return Section("validation", ("/validation",), (*plain, *derived))


def _rollout(body: JsonValue) -> Section:
    return Section(
        "rollout",
        ("/rollout",),
        (
            _field(body, ("rollout", "start"), "start", "value"),
            _field(body, ("rollout", "step"), "step", "value"),
            _field(body, ("rollout", "every"), "every", "text"),
            *(
                _field(body, ("rollout", "analysis", name), name, "value")
                for name in ("max_error_rate", "max_p99_ms", "min_requests")
            ),
        ),
    )


def _approvals(body: JsonValue) -> Rows:
    found = _get(body, ("approvals",))
    rows = tuple(
        Row(
            pointer_of("approvals", name),
            name,
            (_field(body, ("approvals", name), "roles", "roles", ROLES),),
        )
        for name in (list(found)[:32] if isinstance(found, dict) else ())
    )
    return Rows("/approvals", "approvals", rows, named=True)


def _indexes(body: JsonValue, path: Path) -> range:
    return range(min(_count(body, path), MAX_ROWS)) if _is_list(body, path) else range(0)


def _is_list(body: JsonValue, path: Path) -> bool:
    return isinstance(_get(body, path), list)


def _count(body: JsonValue, path: Path) -> int:
    found = _get(body, path)
    return len(found) if isinstance(found, list | dict) else 0


def _new_row(body: JsonValue, rows: Rows, name: str) -> Edit:
    path: Path = tuple(rows.pointer.strip("/").split("/"))
    if not rows.named:
        held = _get(body, path)
        end = len(held) if isinstance(held, list) else 0
        row = dict(_NEW_ROWS[rows.pointer])
        fixed = _get(body, ("fallback", "response"))
        if "response" in row and isinstance(fixed, dict):
            row["response"] = fixed
        return Edit((*path, end), row)
    taken = {row.title for row in rows.rows}
    usual = "environment" if rows.label == "approvals" else "field"
    free = (f"{usual}_{n}" for n in range(1, len(taken) + 2))
    chosen = name if name and name not in taken else next(one for one in free if one not in taken)
    return Edit((*path, chosen), [] if rows.label == "approvals" else "")


def _path_of(pointer: str, rows: Rows) -> Path:
    base: Path = tuple(rows.pointer.strip("/").split("/"))
    last = pointer[len(rows.pointer) + 1 :].replace("~1", "/").replace("~0", "~")
    return (*base, last if rows.named else int(last))
