"""What a new contract changes for those who rely on it, difference by difference.

`Change.effect` is seen from the caller's side; see `contract_changes.Change`.
"""

from __future__ import annotations

from collections.abc import Iterator

from console.rules.canonical import pointer_of
from models_registry.rules.contract_changes import (
    NOBODY,
    Change,
    Effect,
    NumberChange,
    change,
    number_change,
)
from models_registry.rules.contract_document import (
    AvailabilityObjective,
    ContractDocument,
    ErrorMeaning,
    LatencyObjective,
)
from models_registry.rules.contract_interface_diff import interface_changes
from models_registry.rules.contract_limits_diff import limit_changes
from models_registry.rules.contract_terms import (
    ROLE_WORDS,
    Value,
    Word,
    gettext_noop,
    number_text,
    window_text,
)

__all__ = ["Change", "diff"]

_MODEL = Word(gettext_noop("Model"))
_LATENCY = Word(gettext_noop("Latency promise"))
_AVAILABILITY = Word(gettext_noop("Availability promise"))
_WINDOW = Word(gettext_noop("measured over"))
_LATENCY_LIMIT = Word(gettext_noop("Latency limit"))
_LATENCY_TARGET = Word(gettext_noop("Share of requests within the latency limit"))
_AVAILABILITY_TARGET = Word(gettext_noop("Share of requests without a fault of ours"))
_LOAD = Word(gettext_noop("Requests per second up to which this holds"))
_ERROR = Word(gettext_noop("Error answer"))
_RETRY = Word(gettext_noop("trying again helps"))
_COUNTS = Word(gettext_noop("counted against"))
_FALLBACK_FIELD = Word(gettext_noop("Field of the fallback answer"))
_FALLBACK_VALUE = Word(gettext_noop("fallback value"))
_LOG_FIELD = Word(gettext_noop("Logged field"))
_RETENTION = Word(gettext_noop("Logs are kept"))
_EXPLANATION = Word(gettext_noop("Explanation of answers"))
_APPROVAL = Word(gettext_noop("approved by"))


def diff(before: ContractDocument, after: ContractDocument) -> tuple[Change, ...]:
    """Every difference that matters, in the document's order; empty when both mean the same."""
    return (
        *_model(before, after),
        *interface_changes(before, after),
        *_objectives(before, after),
        *_errors(before, after),
        *_fallback(before, after),
        *_logging(before, after),
        *limit_changes(before, after),
        *_explanation(before, after),
        *_approvals(before, after),
    )


def _model(before: ContractDocument, after: ContractDocument) -> Iterator[Change]:
    if before.model != after.model:
        yield change("/model", _MODEL, before.model, after.model, "breaking")


def _objectives(before: ContractDocument, after: ContractDocument) -> Iterator[Change]:
    yield from _objective(before, after, before.latency, after.latency, _LATENCY)
    yield from _objective(before, after, before.availability, after.availability, _AVAILABILITY)
    qps = NumberChange("/load/qps", _LOAD, before.load_qps, after.load_qps, "stronger")
    # No load named: the promise holds at any load, which is more than any number.
    if (qps.before is None) != (qps.after is None):
        effect: Effect = "weaker" if qps.before is None else "stronger"
        yield change(qps.pointer, qps.what, qps.before, qps.after, effect)
    else:
        yield from number_change(qps)


def _objective(
    before: ContractDocument,
    after: ContractDocument,
    old: LatencyObjective | AvailabilityObjective | None,
    new: LatencyObjective | AvailabilityObjective | None,
    what: Word,
) -> Iterator[Change]:
    if old is None and new is not None:
        at = pointer_of("objectives", after.objectives.index(new))
        yield change(at, what, None, _promise_text(new), "stronger", kind="added")
    elif old is not None and new is None:
        at = pointer_of("objectives", before.objectives.index(old))
        yield change(at, what, _promise_text(old), None, "weaker", kind="removed")
    elif old is not None and new is not None:
        at = pointer_of("objectives", after.objectives.index(new))
        if isinstance(old, LatencyObjective) and isinstance(new, LatencyObjective):
            limits = old.threshold_ms, new.threshold_ms
            yield from number_change(
                NumberChange(f"{at}/threshold_ms", _LATENCY_LIMIT, *limits, "weaker", "ms")
            )
        share = _LATENCY_TARGET if new.name == "latency" else _AVAILABILITY_TARGET
        targets = old.target, new.target
        yield from number_change(NumberChange(f"{at}/target", share, *targets, "stronger", "%"))
        if old.window != new.window:
            windows, texts = (
                (old.window, new.window),
                (window_text(old.window), window_text(new.window)),
            )
            at = f"{at}/window"
            yield change(at, _WINDOW, *windows, "neutral", name=new.name, shown=texts)


def _promise_text(objective: LatencyObjective | AvailabilityObjective) -> str:
    target = f"{number_text(objective.target)} %"
    if isinstance(objective, LatencyObjective):
        return f"{target} ≤ {number_text(objective.threshold_ms)} ms ({objective.window})"
    return f"{target} ({objective.window})"


def _errors(before: ContractDocument, after: ContractDocument) -> Iterator[Change]:
    old = {(error.status, error.code): error for error in before.errors}
    new = {(error.status, error.code): error for error in after.errors}
    for index, (pair, error) in enumerate(old.items()):
        if pair not in new:
            name, text = _error_name(error), error.counts_against
            at = pointer_of("errors", index)
            yield change(at, _ERROR, text, None, "stronger", kind="removed", name=name)
    for index, (pair, error) in enumerate(new.items()):
        at, name = pointer_of("errors", index), _error_name(error)
        earlier = old.get(pair)
        if earlier is None:
            text = error.counts_against
            yield change(at, _ERROR, None, text, "weaker", kind="added", name=name)
            continue
        if earlier.retry != error.retry:
            effect: Effect = "stronger" if error.retry else "weaker"
            yield change(f"{at}/retry", _RETRY, earlier.retry, error.retry, effect, name=name)
        if earlier.counts_against != error.counts_against:
            effect = _blame_effect(earlier.counts_against, error.counts_against)
            blame = earlier.counts_against, error.counts_against
            yield change(f"{at}/counts_against", _COUNTS, *blame, effect, name=name)


def _blame_effect(before: str, after: str) -> Effect:
    if "provider" not in (before, after):
        return "neutral"
    return "stronger" if after == "provider" else "weaker"


def _error_name(error: ErrorMeaning) -> str:
    return f"{error.status} {error.code}"


def _fallback(before: ContractDocument, after: ContractDocument) -> Iterator[Change]:
    old, new = before.fallback.response, after.fallback.response
    for name in sorted({*old, *new}):
        at = pointer_of("fallback", "response", name)
        if name not in new:
            yield change(
                at, _FALLBACK_FIELD, old[name], None, "breaking", kind="removed", name=name
            )
        elif name not in old:
            yield change(at, _FALLBACK_FIELD, None, new[name], "neutral", kind="added", name=name)
        elif old[name] != new[name] or isinstance(old[name], bool) != isinstance(new[name], bool):
            yield change(at, _FALLBACK_VALUE, old[name], new[name], "neutral", name=name)


def _logging(before: ContractDocument, after: ContractDocument) -> Iterator[Change]:
    old, new = before.logging, after.logging
    at = "/logging/required"
    for name in old.required:
        if name not in new.required:
            yield change(at, _LOG_FIELD, name, None, "weaker", kind="removed")
    for name in new.required:
        if name not in old.required:
            yield change(at, _LOG_FIELD, None, name, "stronger", kind="added")
    days = old.retention_days, new.retention_days
    yield from number_change(
        NumberChange("/logging/retention_days", _RETENTION, *days, "stronger", "d")
    )


def _explanation(before: ContractDocument, after: ContractDocument) -> Iterator[Change]:
    old, new = before.explanation_method, after.explanation_method
    if old != new:
        effect: Effect = "breaking" if new == "none" else "stronger"
        yield change("/explanation/method", _EXPLANATION, old, new, effect)


def _approvals(before: ContractDocument, after: ContractDocument) -> Iterator[Change]:
    for environment in sorted({*before.approvals, *after.approvals}):
        old = before.approvals.get(environment, ())
        new = after.approvals.get(environment, ())
        if set(old) == set(new):
            continue
        effect: Effect = "stronger" if set(old) <= set(new) else "weaker"
        at, words = pointer_of("approvals", environment), (_people(old), _people(new))
        roles = list(old), list(new)
        yield change(at, _APPROVAL, *roles, effect, name=environment, shown=words)


def _people(roles: tuple[str, ...]) -> Value:
    return tuple(ROLE_WORDS[role] for role in roles) or NOBODY
