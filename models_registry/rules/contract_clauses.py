"""Which clauses a contract must have, by the risk class of its model.

The table is the house's own. Its reasons follow the ideas of the EU AI Act (Regulation (EU)
2024/1689: articles 9, 13, 15, 72 and 86) and of the NIST AI Risk Management Framework 1.0 (GOVERN
1.5, MEASURE 2.4, 2.6 and 2.9, MANAGE 2.4): what can do more harm is watched, explained, looked at
again, and has a planned answer for the time when it fails.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, timedelta

from console.errors import FieldError
from models_registry.rules.contract_terms import gettext_noop
from models_registry.rules.contract_types import ContractDocument

REVIEW_DAYS = 366
"""A promise about a model of high risk is made anew at least once a year."""


@dataclass(frozen=True, slots=True)
class Clause:
    """`asks` says what the contract must have, `why` the reason; both are for translation."""

    key: str
    pointer: str
    asks: str
    why: str


@dataclass(frozen=True, slots=True)
class ChecklistRow:
    """A clause: whether the risk class asks for it, and whether the contract has it."""

    clause: Clause
    required: bool
    met: bool


FALLBACK = Clause(
    "fallback",
    "/fallback/response",
    gettext_noop("a fallback with a value for every output"),
    gettext_noop(
        "While the model is down its callers still have to decide: every one of them, whatever "
        "protocol they speak, gets an answer that was chosen beforehand."
    ),
)
DRIFT = Clause(
    "drift",
    "/drift",
    gettext_noop("a limit of drift that raises an alert"),
    gettext_noop("The world changes after validation; somebody has to be told when it has."),
)
EXPLANATION = Clause(
    "explanation",
    "/explanation/method",
    gettext_noop("an explanation of answers (a method other than none)"),
    gettext_noop("Whoever is affected by an answer can ask why it was given."),
)
VALID_UNTIL = Clause(
    "valid_until",
    "/valid_until",
    gettext_noop("a last day, at most a year ahead"),
    gettext_noop("What can do great harm is looked at again, at least once a year."),
)
CLAUSES = (FALLBACK, DRIFT, EXPLANATION, VALID_UNTIL)

MANDATORY: Mapping[str, frozenset[str]] = {
    "low": frozenset(),
    "medium": frozenset({"fallback", "drift"}),
    "high": frozenset({"fallback", "drift", "explanation", "valid_until"}),
}


def checklist(
    document: ContractDocument, risk_class: str, *, proposed_on: date
) -> tuple[ChecklistRow, ...]:
    """Every clause of the table; `proposed_on` is the day (UTC) from which a year is counted."""
    required = MANDATORY[risk_class]
    return tuple(
        ChecklistRow(clause, clause.key in required, _MET[clause.key](document, proposed_on))
        for clause in CLAUSES
    )


def missing_clauses(
    document: ContractDocument, risk_class: str, *, proposed_on: date
) -> tuple[Clause, ...]:
    """The clauses that the risk class asks for and the contract does not have."""
    rows = checklist(document, risk_class, proposed_on=proposed_on)
    return tuple(row.clause for row in rows if row.required and not row.met)


def clause_faults(missing: tuple[Clause, ...], risk_class: str) -> tuple[FieldError, ...]:
    """One fault with its place for each missing clause."""
    return tuple(
        FieldError(clause.pointer, f"{clause.asks} is asked for by the risk class {risk_class}")
        for clause in missing
    )


def _has_fallback(document: ContractDocument, _: date) -> bool:
    return bool(document.fallback_outputs)


def _has_drift(document: ContractDocument, _: date) -> bool:
    return document.drift is not None


def _has_explanation(document: ContractDocument, _: date) -> bool:
    return document.explanation_method != "none"


def _has_last_day(document: ContractDocument, proposed_on: date) -> bool:
    last = document.valid_until
    return last is not None and last <= proposed_on + timedelta(days=REVIEW_DAYS)


_MET: Mapping[str, Callable[[ContractDocument, date], bool]] = {
    "fallback": _has_fallback,
    "drift": _has_drift,
    "explanation": _has_explanation,
    "valid_until": _has_last_day,
}
