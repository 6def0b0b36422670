"""Reading OpenSLO v1 as objectives of a contract; what a contract cannot promise is refused.

What the documents say of where numbers come from is not taken over: Covenant counts by itself.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from console.errors import FieldError, Invalid
from console.rules.canonical import pointer_of
from deployments.rules.objectives.openslo import MODEL, THRESHOLD, VERSION
from models_registry.rules.contract_yaml import load_yaml

MOST_BYTES: Final = 256 * 1024
MOST_DOCUMENTS: Final = 100
_BREAK: Final = re.compile(r"^---(?:[ \t].*)?$", re.MULTILINE)
_DURATION: Final = re.compile(r"([1-9][0-9]{0,4})([mhdwMQY])")
_BOUND: Final = re.compile(r'\ble\s*=\s*"([0-9.eE+-]+)"')
_HOURS: Final = {"h": 1, "d": 24, "w": 168}


@dataclass(frozen=True, slots=True)
class ReadObjectives:
    """Objectives in the form of the contract's document; `left_out` names what was not read."""

    objectives: list[dict[str, Any]]
    left_out: list[str]


class _Fault(Exception):
    """What one document says that a contract cannot promise."""


def read(text: str, *, model: str, service: str = "") -> ReadObjectives:
    """The objectives of one model in OpenSLO documents, YAML or JSON.

    Documents annotated with a model are taken for that one alone; of others those of `service`,
    which must be named when there are several. Raises Invalid with a fault for each wrong place.
    """
    found, left_out = _slos(text)
    chosen = _chosen(found, model, service)
    left_out += [_name(one) for _, one in found if all(one is not taken for _, taken in chosen)]
    indicators = {_name(one): one for _, one in _documents(text) if one.get("kind") == "SLI"}
    faults: list[FieldError] = []
    read_ones: dict[str, dict[str, Any]] = {}
    for index, document in chosen:
        try:
            objective = _objective(document, indicators)
        except _Fault as fault:
            faults.append(FieldError(pointer_of(index, "spec"), f"{_name(document)}: {fault}"))
            continue
        known = read_ones.setdefault(objective["name"], objective)
        if known != objective:
            detail = f"{_name(document)}: another {objective['name']} is promised already"
            faults.append(FieldError(pointer_of(index, "spec"), detail))
    if faults:
        raise _invalid("These objectives cannot be promised in a contract.", faults)
    order = ("latency", "availability")
    return ReadObjectives([read_ones[name] for name in order if name in read_ones], left_out)


def _slos(text: str) -> tuple[list[tuple[int, dict[str, Any]]], list[str]]:
    found, others = [], []
    for index, document in _documents(text):
        if document.get("apiVersion") != VERSION:
            detail = f"is {document.get('apiVersion')!r}; {VERSION} can be read"
            raise _invalid("This is no OpenSLO v1.", [FieldError(pointer_of(index), detail)])
        if document.get("kind") == "SLO":
            found.append((index, document))
        elif document.get("kind") not in ("Service", "SLI", "DataSource"):
            others.append(f"{document.get('kind')} {_name(document)}")
    if not found:
        raise _invalid("There is no SLO in it.", [FieldError("", "has no document of kind SLO")])
    return found, others


def _documents(text: str) -> list[tuple[int, dict[str, Any]]]:
    if len(text.encode()) > MOST_BYTES:
        raise _invalid("It is too large.", [FieldError("", f"At most {MOST_BYTES} bytes.")])
    parts = [part for part in _BREAK.split(text) if part.strip()]
    if len(parts) > MOST_DOCUMENTS:
        raise _invalid("It has too many documents.", [FieldError("", f"At most {MOST_DOCUMENTS}.")])
    found: list[Any] = []
    for part in parts:
        value = load_yaml(part)
        found += value if isinstance(value, list) else [value]
    for index, value in enumerate(found):
        if not isinstance(value, dict):
            raise _invalid("This is no OpenSLO.", [FieldError(pointer_of(index), "no mapping")])
    return list(enumerate(found))


def _chosen(
    found: list[tuple[int, dict[str, Any]]], model: str, service: str
) -> list[tuple[int, dict[str, Any]]]:
    marked = [one for one in found if _annotations(one[1]).get(MODEL)]
    mine = [one for one in marked if _annotations(one[1])[MODEL] == model]
    if service:
        mine = [one for one in found if _spec(one[1]).get("service") == service]
    elif not mine:
        mine = [one for one in found if one not in marked]
        services = sorted({str(_spec(one).get("service")) for _, one in mine})
        if len(services) > 1:
            raise _invalid(
                "The objectives are of several services.",
                [FieldError("/service", f"Name one of {', '.join(services[:10])}.")],
            )
    if not mine:
        named = f"the service {service}" if service else model
        raise _invalid(f"Nothing in it is of {named}.", [FieldError("/service", "not found")])
    return mine


def _objective(
    document: dict[str, Any], indicators: Mapping[str, dict[str, Any]]
) -> dict[str, Any]:
    spec = _spec(document)
    method = spec.get("budgetingMethod", "Occurrences")
    if method != "Occurrences":
        raise _Fault(f"budgets by {method}; a contract promises a share of requests (Occurrences)")
    listed = spec.get("objectives")
    if not isinstance(listed, list) or len(listed) != 1 or not isinstance(listed[0], dict):
        raise _Fault("has to have one objective")
    objective: dict[str, Any] = listed[0]
    limit = _threshold_ms(document, objective, indicators)
    named = {"name": "availability"} if limit is None else {"name": "latency"}
    more = {} if limit is None else {"threshold_ms": limit}
    return {**named, **more, "target": _target(objective), "window": _window(spec)}


def _target(objective: Mapping[str, Any]) -> float:
    share, percent = objective.get("target"), objective.get("targetPercent")
    value = share if percent is None else percent
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _Fault("has no target")
    number = Decimal(str(value)) * (100 if percent is None else 1)
    if not 50 <= number < 100:
        raise _Fault(f"has the target {number.normalize():f} %; 50 up to, not with, 100")
    return float(number)


def _window(spec: Mapping[str, Any]) -> str:
    windows = spec.get("timeWindow")
    if not isinstance(windows, list) or len(windows) != 1 or not isinstance(windows[0], dict):
        raise _Fault("has to have one time window")
    window = windows[0]
    match = _DURATION.fullmatch(str(window.get("duration", "")))
    if match is None:
        raise _Fault(f"has the time window {window.get('duration')!r}, which cannot be read")
    count, unit = int(match[1]), match[2]
    if not window.get("isRolling"):
        if (count, unit) == (1, "M"):
            return "calendar_month"
        raise _Fault(f"counts by the calendar in {match[0]}; only months (1M) can be promised so")
    hours = count * _HOURS.get(unit, 0)
    if not hours or hours % 24 or hours > 366 * 24:
        raise _Fault(f"rolls over {match[0]}; whole days or weeks up to 366d can be promised")
    return f"{hours // 24}d"


def _threshold_ms(
    document: dict[str, Any],
    objective: Mapping[str, Any],
    indicators: Mapping[str, dict[str, Any]],
) -> int | float | None:
    """Milliseconds of a latency objective; None for one of availability."""
    if (written := _annotations(document).get(THRESHOLD)) is not None:
        return _plain(_number(written))
    spec = _spec(document)
    indicator = spec.get("indicator") or indicators.get(str(spec.get("indicatorRef")), {})
    metric = _spec(indicator) if isinstance(indicator, dict) else {}
    threshold = metric.get("thresholdMetric")
    if threshold is not None:
        if objective.get("op") not in ("lte", "lt") or "value" not in objective:
            raise _Fault("compares a metric with a value otherwise than by lte or lt")
        return _plain(_number(objective["value"]) * _unit(str(threshold)))
    good = str((metric.get("ratioMetric") or {}).get("good", ""))
    if (bound := _BOUND.search(good.replace('\\"', '"'))) is not None:
        return _plain(_number(bound[1]) * _unit(good))
    return None


def _unit(query: str) -> int:
    """Milliseconds in the unit of a metric, by its name."""
    if "seconds" in query and "milliseconds" not in query:
        return 1000
    if "milliseconds" in query or "_ms" in query:
        return 1
    raise _Fault(f"names no unit of its threshold; annotate it as {THRESHOLD}")


def _number(value: object) -> Decimal:
    try:
        number = Decimal(str(value))
    except InvalidOperation as error:
        raise _Fault(f"has the threshold {value!r}, which is no number") from error
    if not number.is_finite() or not 0 < number <= 600_000:
        raise _Fault(f"has the threshold {value}; above 0 up to 600000 ms")
    return number


def _plain(number: Decimal) -> int | float:
    return int(number) if number == number.to_integral_value() else float(number)


def _spec(document: Mapping[str, Any]) -> dict[str, Any]:
    spec = document.get("spec")
    return spec if isinstance(spec, dict) else {}


def _annotations(document: Mapping[str, Any]) -> dict[str, Any]:
    metadata = document.get("metadata")
    found = metadata.get("annotations") if isinstance(metadata, dict) else None
    return found if isinstance(found, dict) else {}


def _name(document: Mapping[str, Any]) -> str:
    metadata = document.get("metadata")
    return str(metadata.get("name", "")) if isinstance(metadata, dict) else ""


def _invalid(message: str, faults: list[FieldError]) -> Invalid:
    return Invalid(
        message,
        code="invalid_openslo",
        hint="docs/objectives.md says what is read of OpenSLO.",
        errors=tuple(faults),
    )
