"""What a new contract changes for those who rely on it, difference by difference.

`Change.effect` is seen from the caller's side; see `contract_changes.Change`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from console.rules.canonical import pointer_of
from models_registry.rules.contract_changes import (
    Change,
    Effect,
    Kind,
    NumberChange,
    breaks_when_far,
    change,
    effect_of,
    number_change,
)
from models_registry.rules.contract_document import (
    AvailabilityObjective,
    ContractDocument,
    ErrorMeaning,
    LatencyObjective,
)
from models_registry.rules.contract_fallback_diff import fallback_changes
from models_registry.rules.contract_interface_diff import interface_changes
from models_registry.rules.contract_limits_diff import limit_changes, request_changes
from models_registry.rules.contract_terms import (
    ROLE_WORDS,
    Value,
    Word,
    gettext_noop,
    number_text,
    window_text,
)

__all__ = ["Change", "diff"]

Objective = LatencyObjective | AvailabilityObjective

_MODEL = Word(gettext_noop("Model"))
_LATENCY = Word(gettext_noop("Latency promise"))
_AVAILABILITY = Word(gettext_noop("Availability promise"))
_WINDOW = Word(gettext_noop("measured over"))
_LATENCY_LIMIT = Word(gettext_noop("Latency limit"))
_PERCENTILE_LIMIT = gettext_noop("P%(name)s limit: %(before)s → %(after)s")
_LATENCY_TARGET = Word(gettext_noop("Share of requests within the latency limit"))
_AVAILABILITY_TARGET = Word(gettext_noop("Share of requests without a fault of ours"))
_LOAD = Word(gettext_noop("Requests per second up to which this holds"))
_ERROR = Word(gettext_noop("Error answer"))
_CODE = Word(gettext_noop("code"))
_RETRY = Word(gettext_noop("trying again helps"))
_COUNTS = Word(gettext_noop("counted against"))
_LOG_FIELD = Word(gettext_noop("Logged field"))
_RETENTION = Word(gettext_noop("Logs are kept"))
_EXPLANATION = Word(gettext_noop("Explanation of answers"))
_APPROVAL = Word(gettext_noop("Approval of a release to"))
_LAST_DAY = Word(gettext_noop("Last day"))


def diff(before: ContractDocument, after: ContractDocument) -> tuple[Change, ...]:
    """Every difference that matters, in the document's order; empty when both mean the same."""
    return (
        *_model(before, after),
        *interface_changes(before, after),
        *_objectives(before, after),
        *request_changes(before, after),
        *_errors(before, after),
        *fallback_changes(before.fallback, after.fallback),
        *_logging(before, after),
        *limit_changes(before, after),
        *_explanation(before, after),
        *_approvals(before, after),
        *_last_day(before, after),
    )


def _model(before: ContractDocument, after: ContractDocument) -> Iterator[Change]:
    if before.model != after.model:
        yield change("/model", _MODEL, before.model, after.model, "breaking")


def _objectives(before: ContractDocument, after: ContractDocument) -> Iterator[Change]:
    yield from _objective(before, after, before.latency, after.latency, _LATENCY)
    yield from _objective(before, after, before.availability, after.availability, _AVAILABILITY)
    loads = before.load_qps, after.load_qps
    # No load named: the promise holds at any load, which is more than any number.
    if (before.load_qps is None) != (after.load_qps is None):
        effect: Effect = "weaker" if before.load_qps is None else "stronger"
        yield change("/load/qps", _LOAD, *loads, effect)
    else:
        yield from number_change(
            NumberChange("/load/qps", _LOAD, *loads, "stronger", callers_build_on_it=True)
        )


def _objective(
    before: ContractDocument,
    after: ContractDocument,
    old: Objective | None,
    new: Objective | None,
    what: Word,
) -> Iterator[Change]:
    if old is None and new is not None:
        at = pointer_of("objectives", after.objectives.index(new))
        yield change(at, what, None, _promise_text(new), "stronger", kind="added")
    elif old is not None and new is None:
        at = pointer_of("objectives", before.objectives.index(old))
        yield change(at, what, _promise_text(old), None, "breaking", kind="removed")
    elif old is not None and new is not None:
        at = pointer_of("objectives", after.objectives.index(new))
        if isinstance(old, LatencyObjective) and isinstance(new, LatencyObjective):
            yield from _threshold(at, old, new)
        yield from _target(at, old, new)
        if old.window != new.window:
            windows, texts = (
                (old.window, new.window),
                (window_text(old.window), window_text(new.window)),
            )
            at = f"{at}/window"
            yield change(at, _WINDOW, *windows, "neutral", name=new.name, shown=texts)


def _threshold(at: str, old: LatencyObjective, new: LatencyObjective) -> Iterator[Change]:
    limits = old.threshold_ms, new.threshold_ms
    if limits[0] == limits[1]:
        return
    effect = breaks_when_far(effect_of(*limits, higher_is="weaker"), *limits)
    at = f"{at}/threshold_ms"
    if old.target != new.target:
        yield change(at, _LATENCY_LIMIT, *limits, effect, unit="ms")
        return
    share = number_text(new.target)
    yield change(
        at, _LATENCY_LIMIT, *limits, effect, name=share, unit="ms", template=_PERCENTILE_LIMIT
    )


def _target(at: str, old: Objective, new: Objective) -> Iterator[Change]:
    """Callers live with what the target lets pass: 99.9 → 99.5 % is five times as much."""
    if old.target == new.target:
        return
    what = _LATENCY_TARGET if new.name == "latency" else _AVAILABILITY_TARGET
    effect = effect_of(old.target, new.target, higher_is="stronger")
    # Rounded, so that 100 - 99.9 is a tenth and twice of it is not more than twice.
    effect = breaks_when_far(effect, round(100 - old.target, 9), round(100 - new.target, 9))
    yield change(f"{at}/target", what, old.target, new.target, effect, unit="%")


def _promise_text(objective: LatencyObjective | AvailabilityObjective) -> str:
    target = f"{number_text(objective.target)} %"
    if isinstance(objective, LatencyObjective):
        return f"{target} ≤ {number_text(objective.threshold_ms)} ms ({objective.window})"
    return f"{target} ({objective.window})"


def _errors(before: ContractDocument, after: ContractDocument) -> Iterator[Change]:
    """Callers branch on status and code: none may go, and what one means may not change."""
    pairs, gone, came = _matched(before.errors, after.errors)
    for error in gone:
        name, text = _error_name(error), error.counts_against
        at = pointer_of("errors", before.errors.index(error))
        yield change(at, _ERROR, text, None, "breaking", kind="removed", name=name)
    for error in came:
        name, text = _error_name(error), error.counts_against
        at = pointer_of("errors", after.errors.index(error))
        yield change(at, _ERROR, None, text, "weaker", kind="added", name=name)
    for old, new in pairs:
        at, name = pointer_of("errors", after.errors.index(new)), _error_name(new)
        if old.code != new.code:
            code = f"{at}/code"
            yield change(code, _CODE, old.code, new.code, "breaking", name=str(new.status))
        if old.retry != new.retry:
            yield change(f"{at}/retry", _RETRY, old.retry, new.retry, "breaking", name=name)
        if old.counts_against != new.counts_against:
            blame = old.counts_against, new.counts_against
            yield change(f"{at}/counts_against", _COUNTS, *blame, "breaking", name=name)


def _matched(
    before: Sequence[ErrorMeaning], after: Sequence[ErrorMeaning]
) -> tuple[list[tuple[ErrorMeaning, ErrorMeaning]], list[ErrorMeaning], list[ErrorMeaning]]:
    """Errors of both by status and code, then what is left by status: (pairs, gone, new)."""
    old = {(error.status, error.code): error for error in before}
    new = {(error.status, error.code): error for error in after}
    pairs = [(old[key], new[key]) for key in sorted(old.keys() & new.keys())]
    gone = [old[key] for key in sorted(old.keys() - new.keys())]
    came = [new[key] for key in sorted(new.keys() - old.keys())]
    for error in tuple(gone):
        renamed = next((other for other in came if other.status == error.status), None)
        if renamed is not None:
            pairs.append((error, renamed))
            gone.remove(error)
            came.remove(renamed)
    return pairs, gone, came


def _error_name(error: ErrorMeaning) -> str:
    return f"{error.status} {error.code}"


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
        if dropped := sorted(set(old) - set(new)):
            yield _approval(environment, dropped, "removed", "weaker")
        if added := sorted(set(new) - set(old)):
            yield _approval(environment, added, "added", "stronger")


def _approval(environment: str, roles: list[str], kind: Kind, effect: Effect) -> Change:
    people: Value = tuple(ROLE_WORDS[role] for role in roles)
    at, is_new = pointer_of("approvals", environment), kind == "added"
    return change(
        at,
        _APPROVAL,
        None if is_new else roles,
        roles if is_new else None,
        effect,
        kind=kind,
        name=environment,
        shown=("", people) if is_new else (people, ""),
    )


def _last_day(before: ContractDocument, after: ContractDocument) -> Iterator[Change]:
    """An end where there was none, or an earlier one, is one that callers did not plan for."""
    old, new = before.valid_until, after.valid_until
    at, days = "/valid_until", (old and old.isoformat(), new and new.isoformat())
    if old == new:
        return
    if old is None:
        yield change(at, _LAST_DAY, *days, "breaking", kind="added")
    elif new is None:
        yield change(at, _LAST_DAY, *days, "stronger", kind="removed")
    else:
        yield change(at, _LAST_DAY, *days, "breaking" if new < old else "stronger")
