"""Inference requests, good and bad, and an independent judgement of them by Python's readers."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from deployments.rules.access.input_rules import InputRule, InputRules

RULES = InputRules(
    inputs=(
        InputRule("amounts", "FP32", ("batch", 3), -10.0, 10.5, refuse_nan=True),
        InputRule("counts", "INT64", ("batch", 2), None, None),
        InputRule("pixels", "UINT8", ("batch", "width"), None, 200.0),
        InputRule("flag", "BOOL", ("batch", 1)),
        InputRule("words", "BYTES", ("batch", 1)),
        InputRule("loose", "FP64", ("batch", 2), None, None, refuse_nan=False),
    ),
    outputs=tuple(
        f"{name}_out" for name in ("amounts", "counts", "pixels", "flag", "words", "loose")
    ),
    most_rows=16,
)
DTYPES = {"FP32": "<f4", "INT64": "<i8", "UINT8": "<u1", "BOOL": "?", "FP64": "<f8"}


@dataclass
class Sent:
    """A request as it goes over the wire; `header` is the length of its JSON, if it is said."""

    body: bytes
    header: str | None = None
    notes: list[str] = field(default_factory=list)


class Literal(float):
    """A number that is written in its own words."""

    text: str

    @classmethod
    def of(cls, text: str) -> Literal:
        made = cls(0)
        made.text = text
        return made


def dumps(value: Any, rng: random.Random) -> str:
    """JSON with white space here and there, and names sometimes written with escapes."""
    gap = rng.choice(["", "", " ", "\n\t "])
    if isinstance(value, Literal):
        return value.text
    if isinstance(value, dict):
        parts = [f"{_text(k, rng)}{gap}:{gap}{dumps(v, rng)}" for k, v in value.items()]
        return "{" + gap + f"{gap},{gap}".join(parts) + gap + "}"
    if isinstance(value, Pairs):
        parts = [f"{_text(k, rng)}:{dumps(v, rng)}" for k, v in value.pairs]
        return "{" + ",".join(parts) + "}"
    if isinstance(value, list):
        return "[" + gap + f"{gap},{gap}".join(dumps(v, rng) for v in value) + gap + "]"
    if isinstance(value, str):
        return _text(value, rng)
    return json.dumps(value)


class Pairs:
    """An object whose names may stand twice."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        self.pairs = pairs


def _text(value: str, rng: random.Random) -> str:
    if rng.random() < 0.03 and value.isascii() and value.isalnum():
        return '"' + "".join(f"\\u{ord(c):04x}" for c in value) + '"'
    return json.dumps(value, ensure_ascii=rng.random() < 0.5)


def number_words(value: float, rng: random.Random) -> Any:
    way = rng.randrange(5)
    if way == 0:
        return Literal.of(f"{value:.6f}")
    if way == 1:
        return Literal.of(f"{value:e}")
    if way == 2:
        return Literal.of(f"{value:.17g}")
    return value


def element(rule: InputRule, rng: random.Random) -> Any:
    if rule.datatype == "FP32":
        edge = rng.choice([-10.0, 10.5, 0.0, -0.0, 1e-30, 0.1])
        return number_words(rng.choice([edge, rng.uniform(-10, 10.5)]), rng)
    if rule.datatype == "FP64":
        special = [Literal.of("NaN"), Literal.of("Infinity"), Literal.of("-Infinity"), 1e308]
        return rng.choice([*special, number_words(rng.gauss(0, 1e6), rng), 7])
    if rule.datatype == "INT64":
        return rng.choice([0, -1, 2**63 - 1, -(2**63), rng.randrange(-(10**9), 10**9)])
    if rule.datatype == "UINT8":
        return rng.randrange(0, 201)
    if rule.datatype == "BOOL":
        return rng.random() < 0.5
    return rng.choice(["", "a", 'quote " and \\', "ä€😀", "[1,2", "\u0001", "x" * 300])


def nested(flat: list[Any], shape: list[int]) -> list[Any]:
    if len(shape) < 2:
        return flat
    step = len(flat) // shape[0] if shape[0] else 0
    return [nested(flat[i * step : (i + 1) * step], shape[1:]) for i in range(shape[0])]


def valid_request(rng: random.Random) -> tuple[dict[str, Any], bytes]:
    """A request that fits the rules, and the binary part that follows it."""
    rows = rng.choice([1, 1, 2, 3, 16])
    inputs, tail = [], b""
    for rule in rng.sample(RULES.inputs, len(RULES.inputs)):
        width = rng.randrange(1, 5)
        shape = [rows if d == "batch" else d if isinstance(d, int) else width for d in rule.dims]
        count = int(np.prod(shape))
        flat = [element(rule, rng) for _ in range(count)]
        one: dict[str, Any] = {"name": rule.name, "shape": shape, "datatype": rule.datatype}
        if rng.random() < 0.25:
            raw = _packed(rule, flat)
            one["parameters"] = {"binary_data_size": len(raw)}
            tail += raw
        else:
            one["data"] = nested(flat, shape) if rng.random() < 0.5 else flat
        if rng.random() < 0.5:
            one = dict(rng.sample(list(one.items()), len(one)))
        inputs.append(one)
    request: dict[str, Any] = {"inputs": inputs}
    if rng.random() < 0.4:
        names = rng.sample(RULES.outputs, rng.randrange(1, 4))
        request["outputs"] = [{"name": name} for name in names]
    if rng.random() < 0.3:
        request["id"] = "call-1"
    if rng.random() < 0.2:
        request["parameters"] = {"note": "x", "priority": 0, "binary_data_output": False}
    if rng.random() < 0.2:
        request["own"] = {"anything": [1, {"deep": None}, "x"]}
    return request, tail


def _packed(rule: InputRule, flat: list[Any]) -> bytes:
    if rule.datatype == "BYTES":
        texts = [text.encode() for text in flat]
        return b"".join(len(text).to_bytes(4, "little") + text for text in texts)
    words = {"NaN": np.nan, "Infinity": np.inf, "-Infinity": -np.inf}
    plain = [
        words.get(v.text) if isinstance(v, Literal) and v.text in words
        else float(v.text) if isinstance(v, Literal) else v
        for v in flat
    ]  # fmt: skip
    return np.array(plain, dtype=DTYPES[rule.datatype]).tobytes()


BAD_ELEMENTS: list[Any] = [
    *("1", None, True, False, {"a": 1}, 1.5, -1, 256, 1e40, 2**63, 2**64, -(2**63) - 1, 10.50001),
    *(Literal.of(text) for text in ("NaN", "Infinity", "1e400", "-1e400", "1.0", "1e2", "-0")),
    *(Literal.of(text) for text in ("10.5000001", "10.500000000000000000001", "01", "1.", "+1")),
]


def mutate(
    request: dict[str, Any], tail: bytes, rng: random.Random
) -> tuple[dict[str, Any], bytes]:
    """One change that often, and not always, makes a request bad."""
    one = rng.choice(request["inputs"]) if request["inputs"] else {"name": "x"}
    way = rng.randrange(4)
    if way == 0 and tail:
        tail = rng.choice([tail[:-1], tail + b"\0", b"", b"\xff" * len(tail)])
    elif way == 1:
        _change_request(request, one, rng)
    elif way == 2 and one.get("data"):
        _change_data(one, rng)
    elif one:
        _change_input(one, rng)
    return request, tail


def _change_data(one: dict[str, Any], rng: random.Random) -> None:
    if rng.random() < 0.3:
        one["data"] = rng.choice([one["data"][:-1], [*one["data"], 1], [], "x", None, 7])
        return
    place = one["data"]
    while isinstance(place, list) and place and isinstance(place[0], list):
        place = rng.choice(place)
    if isinstance(place, list) and place:
        place[rng.randrange(len(place))] = rng.choice(BAD_ELEMENTS)


def _change_input(one: dict[str, Any], rng: random.Random) -> None:
    changes: dict[str, list[Any]] = {
        "name": ["nobody", "", 5, None, "amounts"],
        "datatype": ["FP32", "INT32", "FP16", "no", 3, "BOOL"],
        "shape": [[], [1], [1, 1, 1], "x", None, [[1]], {}],
        "parameters": [{"binary_data_size": size} for size in (0, 4, -1, "x", 10**9)],
        "own": [1, None, "x"],
    }
    name = rng.choice([*changes, "", "size"])
    if name == "":
        one.pop(rng.choice(list(one)))
    elif name != "size":
        one[name] = rng.choice(changes[name])
    elif isinstance(one.get("shape"), list) and one["shape"]:
        size = rng.choice([0, -1, 17, 2, 1.5, "2", 10**12])
        one["shape"][rng.randrange(len(one["shape"]))] = size


def _change_request(request: dict[str, Any], one: dict[str, Any], rng: random.Random) -> None:
    changes: dict[str, list[Any]] = {
        "outputs": [
            [{"name": "no"}], [{}], {}, [3], [{"name": "flag_out", "parameters": 3}], []
        ],
        "id": [5, None, "fine", {}],
        "parameters": [{"priority": "x"}, [], {"a": [1]}, {"sequence_id": -1}],
        "inputs": [
            [*request["inputs"], dict(one)],
            [other for other in request["inputs"] if other is not one],
            *([], {}, None, [{}], "x"),
        ],
    }  # fmt: skip
    name = rng.choice(list(changes))
    request[name] = rng.choice(changes[name])


def encoded(request: dict[str, Any], tail: bytes, rng: random.Random) -> Sent:
    text = dumps(request, rng).encode()
    if rng.random() < 0.08:
        at = rng.randrange(len(text))
        change: Callable[[], bytes] = rng.choice(
            [
                lambda: text[:at],
                lambda: text[:at] + text[at + 1 :],
                lambda: text[:at] + rng.choice([b"\0", b",", b'"', b"]", b"}", b"x"]) + text[at:],
                lambda: text + rng.choice([b" ", b"x", b"{}", b"\n"]),
            ]
        )
        text = change()
    header = str(len(text)) if tail or rng.random() < 0.1 else None
    if header and rng.random() < 0.05:
        header = rng.choice([str(len(text) + 1), "x", "-1", str(10**9), str(max(len(text) - 1, 1))])
    return Sent(text + tail, header)


def case(seed: int) -> Sent:
    """Request number `seed` of the campaign; a third of them has nothing wrong."""
    rng = random.Random(seed)
    request, tail = valid_request(rng)
    for _ in range(rng.choice([0, 1, 1, 2])):
        if isinstance(request["inputs"], list):
            request, tail = mutate(request, tail, rng)
    return encoded(request, tail, rng)


class Bad(Exception):
    """The request does not fit."""


def is_valid(sent: Sent) -> bool:
    """Whether a request fits `RULES`, by Python's JSON reader and numpy."""
    try:
        _judge(sent)
    except (Bad, ValueError, KeyError, TypeError, AttributeError, OverflowError):
        return False
    return True


def _need(fine: bool) -> None:
    if not fine:
        raise Bad


def _judge(sent: Sent) -> None:
    length = len(sent.body)
    if sent.header is not None:
        _need(sent.header.isdecimal() and 0 < int(sent.header) <= length)
        length = int(sent.header)
    text, tail = sent.body[:length].decode(), sent.body[length:]
    request = json.loads(text, object_pairs_hook=_once, parse_float=_Written, parse_int=_Written,
                         parse_constant=_Written)  # fmt: skip
    _need(isinstance(request, dict) and isinstance(request["inputs"], list))
    said = request.get("id", "")
    _need(isinstance(said, str) and not isinstance(said, _Written))
    _request_parameters(request.get("parameters", {}))
    for output in _list(request.get("outputs", [])):
        _need(output["name"] in RULES.outputs)
        _need(isinstance(output.get("parameters", {}), dict))
    seen, rows = set(), set()
    for one in request["inputs"]:
        rule = next(rule for rule in RULES.inputs if rule.name == one["name"]) \
            if one["name"] in {r.name for r in RULES.inputs} else None  # fmt: skip
        _need(rule is not None and rule.name not in seen)
        assert rule is not None
        seen.add(rule.name)
        _need(one["datatype"] == rule.datatype)
        shape = [_whole(size) for size in _list(one["shape"])]
        _need(len(shape) == len(rule.dims))
        for size, wanted in zip(shape, rule.dims, strict=True):
            _need(size == wanted if isinstance(wanted, int) else size > 0)
        rows.add(shape[0])
        _need(shape[0] <= (RULES.most_rows or 0))
        tail = _tensor(rule, one, int(np.prod(shape, dtype=object)), tail)
    _need(seen == {rule.name for rule in RULES.inputs} and len(rows) == 1 and not tail)


class _Written(str):
    """A number, or NaN and the like, as it was written."""

    __slots__ = ()


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    _need(len(found) == len(pairs))
    return found


def _list(value: Any) -> list[Any]:
    _need(isinstance(value, list))
    return list(value)


def _whole(value: Any) -> int:
    _need(isinstance(value, _Written) and value.lstrip("-").isdecimal())
    return int(value)


def _request_parameters(parameters: Any) -> None:
    _need(isinstance(parameters, dict))
    for name, value in parameters.items():
        _need(isinstance(value, str | bool))
        if name == "priority":
            _need(_whole(value) >= 0)
        if name == "sequence_id":
            _need(not isinstance(value, _Written) or _whole(value) >= 0)


def _tensor(rule: InputRule, one: dict[str, Any], count: int, tail: bytes) -> bytes:
    parameters = one.get("parameters", {})
    if "binary_data_size" not in parameters:
        flat = _flat(_list(one["data"]))
        _need(len(flat) == count)
        for value in flat:
            _element(rule, value)
        return tail
    _need("data" not in one)
    size = _whole(parameters["binary_data_size"])
    _need(0 <= size <= len(tail))
    raw = tail[:size]
    if rule.datatype == "BYTES":
        at = 0
        for _ in range(count):
            at += 4 + int.from_bytes(raw[at : at + 4], "little")
            _need(at <= size)
        _need(at == size)
    else:
        values = np.frombuffer(raw, DTYPES[rule.datatype])
        _need(len(values) == count)
        for value in values:
            _range(rule, value)
    return tail[size:]


def _flat(values: list[Any]) -> list[Any]:
    return [v for one in values for v in (_flat(one) if isinstance(one, list) else [one])]


def _element(rule: InputRule, value: Any) -> None:
    if rule.datatype == "BYTES":
        _need(isinstance(value, str) and not isinstance(value, _Written))
    elif rule.datatype == "BOOL":
        _need(isinstance(value, bool))
    else:
        _need(isinstance(value, _Written))
        if rule.datatype in ("INT64", "UINT8"):
            number = _whole(value)
            low, high = (0, 255) if rule.datatype == "UINT8" else (-(2**63), 2**63 - 1)
            _need(low <= number <= high)
            _range(rule, number)
            return
        words = {"-Infinity": -np.inf, "Infinity": np.inf, "NaN": np.nan}
        exact = words[value] if value in words else float(value)
        with np.errstate(over="ignore"):
            stored = np.dtype(DTYPES[rule.datatype]).type(exact)
        _need(value in words or bool(np.isfinite(stored)))
        _range(rule, stored)


def _range(rule: InputRule, value: Any) -> None:
    if rule.datatype in ("FP32", "FP64") and np.isnan(value):
        _need(not rule.refuse_nan)
        return
    kind = np.float32 if rule.datatype == "FP32" else np.float64
    _need(rule.minimum is None or value >= kind(rule.minimum))
    _need(rule.maximum is None or value <= kind(rule.maximum))
