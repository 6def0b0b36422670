"""The answers of a contract's rules, in the words of callers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from deployments.rules.fallback.fallbacks import (
    AnswerTensor,
    Fallback,
    FallbackAnswer,
    fallback_answer,
)
from models_registry.rules.contract_types import ContractDocument
from models_registry.rules.fallback_rules import FIXED, RuleSet, compile_rules


@dataclass(frozen=True, slots=True)
class ServedRules:
    """A contract's rules with the answers of each, written out once."""

    model: str
    revision: int
    rules: RuleSet
    answers: tuple[FallbackAnswer, ...]
    """By rule; the last is the fixed response's."""

    def name(self, rule: int) -> str | None:
        """The rule's name; None for the fixed response."""
        return None if rule == FIXED else self.rules.names[rule]


def served_rules(document: ContractDocument, fixed: Fallback, revision: int) -> ServedRules:
    """`fixed` is the contract's fixed response. Raises Invalid for rules that cannot be used."""
    responses = [rule.response for rule in document.fallback.rules]
    answers = tuple(
        fallback_answer(Fallback(response, fixed.outputs, fixed.reason))
        for response in (*responses, fixed.response)
    )
    return ServedRules(document.model, revision, compile_rules(document), answers)


def v2_answer(served: ServedRules, decided: Sequence[int], id: str | None) -> bytes:
    """The answer to a request of the v2 protocol whose rows were decided so."""
    fixed = served.answers[FIXED]
    outputs = ",".join(
        _tensor(served, decided, index, tensor) for index, tensor in enumerate(fixed.tensors)
    )
    head = f'"id":{json.dumps(id)},' if id else ""
    names = json.dumps([served.name(rule) for rule in decided])
    return (
        f'{{{head}"model_name":{json.dumps(served.model)},"parameters":{{"fallback":true,'
        f'"reason":{json.dumps(fixed.reason)},"rules":{names}}},"outputs":[{outputs}]}}'
    ).encode()


def plain_answer(served: ServedRules, decided: Sequence[int]) -> bytes:
    """The response as the contract has it; several rows have a list of them, as `predictions`."""
    said = [served.answers[rule].plain for rule in decided]
    text = said[0] if len(said) == 1 else f'{{"predictions":[{",".join(said)}]}}'
    return text.encode()


def _tensor(served: ServedRules, decided: Sequence[int], index: int, fixed: AnswerTensor) -> str:
    if fixed.batched:
        shape = [len(decided), *fixed.row_shape]
        data = ",".join(served.answers[rule].tensors[index].row for rule in decided)
    else:
        shape = list(fixed.row_shape)
        first = decided[0] if decided else FIXED
        data = served.answers[first].tensors[index].row
    return (
        f'{{"name":{json.dumps(fixed.name)},"datatype":"{fixed.datatype}",'
        f'"shape":{json.dumps(shape)},"data":[{data}]}}'
    )
