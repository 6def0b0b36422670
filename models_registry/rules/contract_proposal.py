"""A first contract for a model, from what is known of a version and what validation measured.

Rule for time (measured in milliseconds on the validation machine, which is rarely the serving
one): the budget `validation.p95_ms` is three times the measured P95, the latency promise 1.6 times
that budget (the ratio of the house's defaults, 80 to 50), both rounded up to two digits and never
tighter than the defaults. People tighten a promise knowingly; a proposal never does.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

import yaml

from models_registry.exporting.protocol import TensorSpec
from models_registry.rules.contract_document import ContractDocument, to_json
from models_registry.rules.contract_yaml import plain_value

DEFAULT_P95_MS = 50.0
DEFAULT_THRESHOLD_MS = 80.0
_SLACK = 3.0
_PROMISE_RATIO = DEFAULT_THRESHOLD_MS / DEFAULT_P95_MS
_SHARE_SLACK = 1e-3
_FLOATS = frozenset({"FP16", "BF16", "FP32", "FP64"})
_NUMBERS = _FLOATS | {f"{sign}INT{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64)}
REASON = "model_down"


@dataclass(frozen=True, slots=True)
class MeasuredLatency:
    """What validation measured for one inference, in milliseconds."""

    mean_ms: float
    p95_ms: float
    p99_ms: float


def propose(
    *,
    model: str,
    inputs: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
    measured: MeasuredLatency | None = None,
    previous: ContractDocument | None = None,
    valid_until: date | None = None,
) -> dict[str, Any]:
    """The document to start from; it passes every check of `contract_document.load`.

    With `previous` (the contract that holds) everything stays as promised but the interface, the
    fallback where the outputs are no longer the same, and the last day, which is `valid_until`.
    """
    interface = {
        "inputs": [_tensor(spec, is_input=True) for spec in inputs],
        "outputs": [_tensor(spec, is_input=False) for spec in outputs],
    }
    if not any("batch" in tensor["dims"] for tensor in interface["inputs"]):
        for tensor in interface["outputs"]:
            tensor["dims"] = ["size_0" if size == "batch" else size for size in tensor["dims"]]
    body = to_json(previous) if previous else _fresh(model, measured)
    body["model"] = model
    # Each said something about one revision, not about what is promised next.
    for name in ("revision", "valid_until"):
        body.pop(name, None)
    if valid_until is not None:
        body["valid_until"] = valid_until.isoformat()
    unchanged = previous is not None and body["interface"]["outputs"] == interface["outputs"]
    body["interface"] = interface
    if not unchanged:
        body["fallback"] = {"response": _fallback(interface["outputs"]), "rules": []}
    return {name: body[name] for name in _ORDER if name in body}


def with_shares(spec: TensorSpec, answers: Mapping[str, Any]) -> TensorSpec:
    """The output with `sums_to` 1 and a range of 0 to 1 where validation only saw such shares.

    `answers` is what the report says of them: min, max, and the smallest and largest sum of a row.
    What is promised already stays.
    """
    if spec.sums_to is not None or spec.dtype not in _FLOATS or len(spec.shape) < 2:
        return spec
    seen = [answers.get("min"), answers.get("max"), *(answers.get("sums") or (None,))]
    numbers = [one for one in seen if isinstance(one, int | float)]
    if len(numbers) < len(seen):
        return spec
    low, high, *sums = numbers
    if low < 0 or high > 1 + _SHARE_SLACK or any(abs(one - 1) > _SHARE_SLACK for one in sums):
        return spec
    return replace(
        spec,
        minimum=0.0 if spec.minimum is None else spec.minimum,
        maximum=1.0 if spec.maximum is None and high <= 1 else spec.maximum,
        sums_to=1.0,
    )


def latency_promise(measured: MeasuredLatency | None) -> tuple[float, float]:
    """(validation budget p95_ms, latency threshold_ms) by the rule at the top of this module."""
    if measured is None:
        return DEFAULT_P95_MS, DEFAULT_THRESHOLD_MS
    budget = max(DEFAULT_P95_MS, _round_up(_SLACK * measured.p95_ms))
    return budget, max(DEFAULT_THRESHOLD_MS, _round_up(_PROMISE_RATIO * budget))


def to_yaml(body: dict[str, Any]) -> str:
    """The document as YAML for people: in the order of `body`, what holds only values on a line."""
    return yaml.dump(
        body,
        Dumper=_Dumper,
        sort_keys=False,
        allow_unicode=True,
        width=44,
        indent=2,
        default_flow_style=None,
    )


class _Dumper(yaml.SafeDumper):
    """Writes numbers and texts so that YAML 1.1 and 1.2 readers agree."""


def _write_float(dumper: yaml.SafeDumper, value: float) -> yaml.ScalarNode:
    text = repr(value)
    if "e" in text and "." not in text:
        text = text.replace("e", ".0e")  # YAML 1.1 takes 1e-05 for a text
    return dumper.represent_scalar("tag:yaml.org,2002:float", text)


def _write_text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    try:
        reads_as_text = value.isprintable() and plain_value(value) == value
    except ValueError:
        reads_as_text = False
    # PyYAML writes by YAML 1.1, where 1e5 needs no quotes and U+0085 may be a line break.
    style = None if reads_as_text else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(float, _write_float)
_Dumper.add_representer(str, _write_text)

_ORDER = (
    "apiVersion",
    "kind",
    "model",
    "valid_until",
    "interface",
    "objectives",
    "load",
    "request",
    "errors",
    "fallback",
    "logging",
    "drift",
    "explanation",
    "validation",
    "rollout",
    "approvals",
)


def _fresh(model: str, measured: MeasuredLatency | None) -> dict[str, Any]:
    budget, threshold = latency_promise(measured)
    return {
        "apiVersion": "covenant/v1",
        "kind": "ServiceContract",
        "model": model,
        "interface": {"inputs": [], "outputs": []},
        "objectives": [
            {"name": "latency", "threshold_ms": threshold, "target": 99.0, "window": "28d"},
            {"name": "availability", "target": 99.9, "window": "28d"},
        ],
        "errors": [
            {
                "status": 422,
                "code": "invalid_input",
                "retry": False,
                "counts_against": "caller",
            },
            {
                "status": 503,
                "code": "model_unavailable",
                "retry": True,
                "counts_against": "provider",
            },
        ],
        "logging": {
            "required": ["x_request_id", "model_version", "status", "duration_ms"],
            "retention_days": 30,
        },
        "drift": {
            "feature_drift_score": 0.3,
            "model_output_entropy": {"above": 0.5, "for": "5m"},
        },
        "explanation": {"method": "none"},
        "validation": {
            "samples": 100,
            "seed": 0,
            "atol": 1e-5,
            "rtol": 1e-4,
            "p95_ms": budget,
        },
        "rollout": {
            "start": 5,
            "step": 5,
            "every": "15m",
            "analysis": {"max_error_rate": 1.0, "max_p99_ms": threshold, "min_requests": 100},
        },
        "approvals": {"staging": [], "production": ["sre"]},
    }


def _tensor(spec: TensorSpec, *, is_input: bool) -> dict[str, Any]:
    tensor: dict[str, Any] = {"name": spec.name, "dtype": spec.dtype, "dims": _dims(spec)}
    tensor |= _range(spec)
    if not is_input and spec.sums_to is not None:
        tensor["sums_to"] = spec.sums_to
    if is_input and spec.dtype in _FLOATS:
        tensor["nan"] = "refuse"
    return tensor


def _range(spec: TensorSpec) -> dict[str, float]:
    """min and max where they are a range that the data type can have."""
    limits = {"min": spec.minimum, "max": spec.maximum}
    given = {name: value for name, value in limits.items() if value is not None}
    is_range = len(given) < 2 or given["min"] < given["max"]
    fits = spec.dtype in _FLOATS or all(value == int(value) for value in given.values())
    return given if spec.dtype in _NUMBERS and is_range and fits else {}


def _dims(spec: TensorSpec) -> list[str | int]:
    """Names where the size varies. A name beside a positive size is a good size to try: varies."""
    dims: list[str | int] = []
    for axis, size in enumerate(spec.shape):
        name = spec.dims[axis] if axis < len(spec.dims) else ""
        if name or size < 1:
            plain = re.sub(r"[^a-z0-9_]", "_", name.lower()).strip("_")[:64]
            usable = plain and plain[0].isalpha() and plain not in dims
            dims.append(plain if usable else ("batch" if axis == 0 else f"size_{axis}"))
        else:
            dims.append(size)
    return dims


def _fallback(outputs: list[dict[str, Any]]) -> dict[str, Any]:
    """A neutral value for each output (0 brought into its range, false, empty text).

    Shares that have to add up are equal where their number is known.
    """
    response: dict[str, Any] = {output["name"]: _neutral(output) for output in outputs}
    response.setdefault("reason", REASON)
    return response


def _neutral(output: dict[str, Any]) -> Any:
    if output["dtype"] == "BYTES":
        return ""
    if output["dtype"] == "BOOL":
        return False
    last = output["dims"][-1] if output["dims"] else 0
    if "sums_to" in output and isinstance(last, int):
        return round(output["sums_to"] / last, 6)
    return min(max(0, output.get("min", 0)), output.get("max", math.inf))


def _round_up(milliseconds: float) -> float:
    """To two significant digits, upwards: 61.2 is 62, 184.3 is 190."""
    if milliseconds <= 0:
        return 0.0
    step = 10.0 ** (math.floor(math.log10(milliseconds)) - 1)
    return round(math.ceil(round(milliseconds / step, 6)) * step, 6)
