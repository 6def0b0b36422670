"""What has to be read for a rule to be judged, so that rules that ask the same read it once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from deployments.rules.alerts.catalogue import Signal, Source, signal_of
from deployments.rules.alerts.documents import Condition, RuleDocument


@dataclass(frozen=True, slots=True)
class Question:
    """One signal over one window; what does not matter to its source is left at 0 or empty."""

    signal: Signal
    aggregate: str = ""
    window_s: int = 0
    each: str = ""
    min_requests: int = 0
    own_limit: bool = False


def question_of(rule: RuleDocument, condition: Condition) -> Question:
    """What a condition of a rule asks. Raises ValueError for a signal that there is none of."""
    signal = signal_of(condition.signal)
    if signal is None:
        raise ValueError(f"There is no signal {condition.signal}.")
    match signal.source:
        case Source.TRAFFIC:
            return Question(
                signal,
                window_s=rule.window_s,
                each=rule.each,
                min_requests=rule.min_requests,
            )
        case Source.SERIES:
            return Question(
                signal, condition.aggregate, rule.window_s, own_limit=condition.own_limit
            )
    return Question(signal)


def questions_of(rules: Iterable[RuleDocument]) -> set[Question]:
    """Everything that these rules ask, once."""
    return {question_of(rule, one) for rule in rules for one in rule.conditions}
