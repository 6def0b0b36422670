"""The contract's terms in plain words, as templates with values so that a page can translate them.

A template is an English message with %(name)s places. Values that are themselves words are
`Word`s and are translated too; tuples are lists, joined by commas.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from models_registry.rules.contract_document import (
    AvailabilityObjective,
    ContractDocument,
    ErrorMeaning,
    LatencyObjective,
    Tensor,
    window_days,
)


def gettext_noop(message: str) -> str:
    """Marks `message` for the translators' catalogue (its name is what makemessages looks for)."""
    return message


@dataclass(frozen=True, slots=True)
class Word:
    """A value that is a word of the language."""

    text: str


Value: TypeAlias = "str | Word | tuple[str | Word, ...]"


@dataclass(frozen=True, slots=True)
class Term:
    """One promise: `key` is stable (for anchors and icons), `template` the message to translate."""

    key: str
    template: str
    values: Mapping[str, Value] = field(default_factory=dict)


ROLE_WORDS: Mapping[str, Word] = {
    "data_scientist": Word(gettext_noop("data scientist")),
    "sre": Word(gettext_noop("SRE")),
    "business_owner": Word(gettext_noop("business owner")),
    "platform_admin": Word(gettext_noop("platform admin")),
}
CALENDAR_MONTH_WORD = Word(gettext_noop("calendar month"))
_LATENCY_DAYS = gettext_noop(
    "%(target)s %% of requests are answered within %(threshold)s ms, measured over %(days)s days."
)
_LATENCY_MONTH = gettext_noop(
    "%(target)s %% of requests are answered within %(threshold)s ms, measured over each calendar "
    "month."
)
_AVAILABILITY_DAYS = gettext_noop(
    "%(target)s %% of requests end without a fault of ours (no 5xx, no time-out), measured over "
    "%(days)s days."
)
_AVAILABILITY_MONTH = gettext_noop(
    "%(target)s %% of requests end without a fault of ours (no 5xx, no time-out), measured over "
    "each calendar month."
)
_NO_LATENCY = gettext_noop("Nothing is promised about latency.")
_NO_AVAILABILITY = gettext_noop("Nothing is promised about availability.")
_LOAD = gettext_noop("This holds up to %(qps)s requests per second.")
_INPUT = gettext_noop("Callers send “%(name)s”: %(shape)s of %(dtype)s.")
_INPUT_RANGE = gettext_noop("Callers send “%(name)s”: %(shape)s of %(dtype)s, %(range)s.")
_INPUT_NAN = gettext_noop("NaN in “%(name)s” is let through.")
_OUTPUT = gettext_noop("They get “%(name)s”: %(shape)s of %(dtype)s.")
_OUTPUT_RANGE = gettext_noop("They get “%(name)s”: %(shape)s of %(dtype)s, %(range)s.")
_OUTPUT_SUM = gettext_noop("The values of “%(name)s” along its last axis add up to %(sum)s.")
_TIMEOUT = gettext_noop("Who gets no answer within %(time)s ms gets 504 instead.")
_IDEMPOTENT = gettext_noop("A request that failed may be run again: running it twice does no harm.")
_ERROR_RETRY = gettext_noop("%(status)s %(code)s: %(blame)s; trying again makes sense.")
_ERROR_FINAL = gettext_noop("%(status)s %(code)s: %(blame)s; trying again does not help.")
_BLAME: Mapping[str, Word] = {
    "caller": Word(gettext_noop("the caller's fault, not counted against us")),
    "provider": Word(gettext_noop("our fault, counted against us")),
    "none": Word(gettext_noop("nobody's fault, not counted")),
}
_FALLBACK = gettext_noop("While the model is down, callers get: %(response)s")
_FALLBACK_RULE = gettext_noop(
    "While the model is down, rule “%(name)s” answers requests with %(when)s: %(response)s"
)
_FALLBACK_ELSE = gettext_noop("While the model is down, callers else get: %(response)s")
_FALLBACK_PLAIN = gettext_noop(
    "That answer is plain JSON without the outputs: callers of the v2 protocol get no tensors."
)
_LOGGING = gettext_noop("Each request is logged with %(fields)s; logs are kept %(days)s days.")
_DRIFT = gettext_noop("An alert is raised when feature drift is above %(limit)s.")
_ENTROPY = gettext_noop(
    "An alert is raised when the entropy of the outputs is above %(limit)s for %(time)s."
)
_EXPLAINED = gettext_noop("Each answer can be explained (SHAP).")
_NOT_EXPLAINED = gettext_noop("Answers carry no explanation.")
_VALIDATION = gettext_noop(
    "A version is accepted when %(samples)s seeded inputs give the source's outputs within "
    "%(atol)s absolute and %(rtol)s relative, and 95 %% of inferences take at most %(p95)s ms."
)
_DERIVED = gettext_noop(
    "A version optimised as %(kind)s is accepted within %(atol)s absolute and %(rtol)s relative."
)
_DERIVED_INT8 = gettext_noop(
    "A version optimised as int8 is accepted within %(atol)s of the output's largest value and "
    "%(rtol)s relative."
)
_ROLLOUT = gettext_noop(
    "A new version starts with %(start)s %% of traffic and gets %(step)s %% more every %(time)s."
)
_ANALYSIS = gettext_noop(
    "It loses its traffic by itself when more than %(errors)s %% of requests fail or P99 is above "
    "%(p99)s ms, judged from %(requests)s requests on."
)
_APPROVAL = gettext_noop("A release to %(environment)s must be approved by: %(roles)s.")
_NO_APPROVAL = gettext_noop("A release to %(environment)s needs no approval.")
_VALID_UNTIL = gettext_noop("All of this holds until the end of %(day)s (UTC).")


def terms(document: ContractDocument) -> tuple[Term, ...]:
    """Every promise of the document, in the order in which a reader asks for them."""
    return (
        *_objective_terms(document),
        *(_tensor_term(t, "input", _INPUT, _INPUT_RANGE) for t in document.interface.inputs),
        *(_nan_term(t) for t in document.interface.inputs if t.nan == "allow"),
        *(_tensor_term(t, "output", _OUTPUT, _OUTPUT_RANGE) for t in document.interface.outputs),
        *(_sum_term(t) for t in document.interface.outputs if t.sums_to is not None),
        *_request_terms(document),
        *(_error_term(error) for error in document.errors),
        *_fallback_terms(document),
        *_operation_terms(document),
        *_gate_terms(document),
        *_end_terms(document),
    )


def render(term: Term, translate: Callable[[str], str] = lambda message: message) -> str:
    """The sentence, in English or by `translate` (Django's `gettext`)."""
    return translate(term.template) % {
        name: _say(value, translate) for name, value in term.values.items()
    }


def number_text(value: float) -> str:
    """A number without a needless fraction: 80, 99.9, 0.00001, 3.4e+38."""
    if value == 0:
        return "0"
    if 1e-9 <= abs(value) < 1e15:
        return f"{value:.12f}".rstrip("0").rstrip(".")
    return f"{value:g}"


def duration_text(seconds: int) -> str:
    """A time with unit symbols that both languages read: 15 min, 1 h, 30 s."""
    if seconds % 3600 == 0:
        return f"{seconds // 3600} h"
    return f"{seconds // 60} min" if seconds % 60 == 0 else f"{seconds} s"


def window_text(window: str) -> Value:
    """28 d, or the words for the calendar month."""
    days = window_days(window)
    return CALENDAR_MONTH_WORD if days is None else f"{days} d"


def shape_text(tensor: Tensor) -> str:
    return "[" + ", ".join(str(size) for size in tensor.dims) + "]"


def range_text(tensor: Tensor) -> str:
    """The values a tensor may have: 0 … 1, ≥ 0, ≤ 10, or nothing where they are not limited."""
    low, high = tensor.minimum, tensor.maximum
    if low is not None and high is not None:
        return f"{number_text(low)} … {number_text(high)}"
    if low is not None:
        return f"≥ {number_text(low)}"
    return f"≤ {number_text(high)}" if high is not None else ""


def plain_text(value: object) -> str:
    """A fallback's answer as people read it: names and values, without quotes around words."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name} = {plain_text(item)}" for name, item in value.items())
    if isinstance(value, list):
        return "[" + ", ".join(plain_text(item) for item in value) + "]"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return number_text(value) if isinstance(value, int | float) else str(value)


def _say(value: Value, translate: Callable[[str], str]) -> str:
    if isinstance(value, Word):
        return translate(value.text)
    if isinstance(value, tuple):
        return ", ".join(_say(item, translate) for item in value)
    return value


def _objective_terms(document: ContractDocument) -> Iterator[Term]:
    latency, availability = document.latency, document.availability
    if latency is None:
        yield Term("latency", _NO_LATENCY)
    else:
        template = _LATENCY_DAYS if window_days(latency.window) else _LATENCY_MONTH
        yield Term("latency", template, _objective_values(latency))
    if availability is None:
        yield Term("availability", _NO_AVAILABILITY)
    else:
        template = _AVAILABILITY_DAYS if window_days(availability.window) else _AVAILABILITY_MONTH
        yield Term("availability", template, _objective_values(availability))
    if document.load_qps is not None:
        yield Term("load", _LOAD, {"qps": number_text(document.load_qps)})


def _objective_values(objective: LatencyObjective | AvailabilityObjective) -> dict[str, Value]:
    values: dict[str, Value] = {
        "target": number_text(objective.target),
        "days": str(window_days(objective.window) or ""),
    }
    if isinstance(objective, LatencyObjective):
        values["threshold"] = number_text(objective.threshold_ms)
    return values


def _tensor_term(tensor: Tensor, key: str, open_ended: str, with_range: str) -> Term:
    values: dict[str, Value] = {
        "name": tensor.name,
        "shape": shape_text(tensor),
        "dtype": tensor.dtype,
    }
    reach = range_text(tensor)
    if not reach:
        return Term(key, open_ended, values)
    return Term(key, with_range, {**values, "range": reach})


def _nan_term(tensor: Tensor) -> Term:
    return Term("input", _INPUT_NAN, {"name": tensor.name})


def _sum_term(tensor: Tensor) -> Term:
    values: dict[str, Value] = {"name": tensor.name, "sum": number_text(tensor.sums_to or 0)}
    return Term("output", _OUTPUT_SUM, values)


def _error_term(error: ErrorMeaning) -> Term:
    values: dict[str, Value] = {
        "status": str(error.status),
        "code": error.code,
        "blame": _BLAME[error.counts_against],
    }
    return Term("error", _ERROR_RETRY if error.retry else _ERROR_FINAL, values)


def _fallback_terms(document: ContractDocument) -> Iterator[Term]:
    for rule in document.fallback.rules:
        values: dict[str, Value] = {"name": rule.name, "when": rule.when}
        values["response"] = plain_text(rule.response)
        yield Term("fallback", _FALLBACK_RULE, values)
    template = _FALLBACK_ELSE if document.fallback.rules else _FALLBACK
    yield Term("fallback", template, {"response": plain_text(document.fallback.response)})
    if not document.fallback_outputs:
        yield Term("fallback", _FALLBACK_PLAIN)


def _request_terms(document: ContractDocument) -> Iterator[Term]:
    yield Term("request", _TIMEOUT, {"time": str(document.timeout_ms)})
    if document.request.idempotent:
        yield Term("request", _IDEMPOTENT)


def _operation_terms(document: ContractDocument) -> Iterator[Term]:
    logging, drift = document.logging, document.drift
    yield Term(
        "logging", _LOGGING, {"fields": logging.required, "days": str(logging.retention_days)}
    )
    if drift and drift.feature_drift_score is not None:
        yield Term("drift", _DRIFT, {"limit": number_text(drift.feature_drift_score)})
    if drift and drift.entropy_above is not None:
        time = duration_text(drift.entropy_for_seconds or 0)
        yield Term("drift", _ENTROPY, {"limit": number_text(drift.entropy_above), "time": time})
    explained = document.explanation_method != "none"
    yield Term("explanation", _EXPLAINED if explained else _NOT_EXPLAINED)


def _gate_terms(document: ContractDocument) -> Iterator[Term]:
    gate, rollout = document.validation, document.rollout
    yield Term(
        "validation",
        _VALIDATION,
        {
            "samples": str(gate.samples),
            "atol": number_text(gate.atol),
            "rtol": number_text(gate.rtol),
            "p95": number_text(gate.p95_ms),
        },
    )
    for kind, limits in sorted(gate.derived.items()):
        template = _DERIVED_INT8 if kind == "int8" else _DERIVED
        reach = {"atol": number_text(limits.atol), "rtol": number_text(limits.rtol)}
        yield Term("validation", template, {"kind": kind, **reach})
    shares = {"start": number_text(rollout.start), "step": number_text(rollout.step)}
    yield Term("rollout", _ROLLOUT, {**shares, "time": duration_text(rollout.every_seconds)})
    yield Term(
        "rollout",
        _ANALYSIS,
        {
            "errors": number_text(rollout.analysis.max_error_rate),
            "p99": number_text(rollout.analysis.max_p99_ms),
            "requests": str(rollout.analysis.min_requests),
        },
    )
    for environment, roles in sorted(document.approvals.items()):
        values: dict[str, Value] = {"environment": environment}
        if roles:
            values["roles"] = tuple(ROLE_WORDS[role] for role in roles)
        yield Term("approvals", _APPROVAL if roles else _NO_APPROVAL, values)


def _end_terms(document: ContractDocument) -> Iterator[Term]:
    if document.valid_until is not None:
        yield Term("valid_until", _VALID_UNTIL, {"day": document.valid_until.isoformat()})
