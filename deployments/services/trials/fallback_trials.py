"""Trying rows against the rules of a fallback that is in force: nothing is sent or kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from console.actors import Actor, require
from console.errors import Conflict, FieldError, Invalid
from deployments.selectors.fallback.pages import fallback_page
from models_registry.rules.fallback_rules import (
    FIXED,
    RuleSet,
    compile_rules,
    response_of,
    row_faults,
    row_of,
)

MOST_ROWS = 100


@dataclass(frozen=True, slots=True)
class TriedRow:
    """`rule` answers, or the fixed response where it is None; `unjudged` could not be judged."""

    rule: str | None
    unjudged: tuple[str, ...]
    response: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class FallbackTrial:
    """The answers, row by row, of the contract's `revision`."""

    revision: int
    rows: tuple[TriedRow, ...]


def try_fallback(
    *, environment: str, model: str, rows: Sequence[Mapping[str, Any]], actor: Actor
) -> FallbackTrial:
    """Which rule would answer each row: by input's name a value, or a list of the row's values.

    Raises NotFound, Conflict `no_fallback` without a contract, Invalid with the place of each
    value that fits no input.
    """
    page = fallback_page(environment, model, user=actor.user)
    require(actor, "read", page.endpoint.model.team_id)
    if page.document is None or page.revision is None:
        raise Conflict(
            f"{model} has no contract in force, so it has no fallback to try.",
            code="no_fallback",
            hint="Have a contract with a fallback signed.",
        )
    if not 0 < len(rows) <= MOST_ROWS:
        raise _invalid(
            [FieldError("/rows", f"has {len(rows)} rows; 1 to {MOST_ROWS} can be tried")]
        )
    document, rules = page.document, compile_rules(page.document)
    _check_rows(rows, rules)
    tried = []
    for row in rows:
        decision = rules.decide(row_of(row, rules.inputs))
        tried.append(
            TriedRow(
                None if decision.rule == FIXED else rules.names[decision.rule],
                tuple(rules.names[rule] for rule in decision.unjudged),
                response_of(document, decision.rule),
            )
        )
    return FallbackTrial(page.revision, tuple(tried))


def _check_rows(rows: Sequence[Mapping[str, Any]], rules: RuleSet) -> None:
    faults = [
        fault
        for index, row in enumerate(rows)
        for fault in row_faults(row, rules.inputs, ("rows", index))
    ]
    if faults:
        raise _invalid(faults)


def _invalid(faults: list[FieldError]) -> Invalid:
    return Invalid(
        f"These rows cannot be tried: {faults[0].pointer} {faults[0].detail}.",
        code="invalid_rows",
        hint='Give each input its value, as in {"rows": [{"amount": 12.5}]}.',
        errors=tuple(faults[:50]),
    )
