"""What can be said of a contract's text while it is written: its faults with lines, its meaning."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from console.errors import CovenantError, Invalid
from console.rules.canonical import JsonValue
from models_registry.rules import (
    contract_acceptance,
    contract_document,
    contract_validity,
    fallback_rules,
)
from models_registry.rules.contract_clauses import missing_clauses
from models_registry.rules.contract_places import line_numbers, line_of
from models_registry.rules.contract_types import ContractDocument
from models_registry.rules.contract_yaml import load_yaml

_LINE = re.compile(r"line (\d{1,9})(?:, |: )")


@dataclass(frozen=True, slots=True)
class PlacedFault:
    """A fault, its place as JSON pointer and as line of the text (from 1)."""

    pointer: str
    line: int
    detail: str


@dataclass(frozen=True, slots=True)
class Reading:
    """`is_readable`: the text is YAML as it is taken here, and `body` its value.

    `document` is there when the document itself is sound; `errors` then still hold what keeps it
    from being proposed for this model (another model's name, a clause of its risk class).
    """

    is_readable: bool
    body: JsonValue
    document: ContractDocument | None
    errors: tuple[CovenantError, ...]
    faults: tuple[PlacedFault, ...]

    @property
    def is_sound(self) -> bool:
        return not self.errors


def read(text: str, *, model: str, risk_class: str, now: datetime) -> Reading:
    """The text as a contract of the model; never raises for what is written in it."""
    try:
        body = load_yaml(text)
    except Invalid as error:
        return Reading(False, None, None, (error,), _placed(text, (error,)))
    try:
        document = contract_document.from_json(body)
    except Invalid as error:
        return Reading(True, body, None, (error,), _placed(text, (error,)))
    found = tuple(_refusals(document, model=model, risk_class=risk_class, now=now))
    return Reading(True, body, document, found, _placed(text, found))


def _refusals(
    document: ContractDocument, *, model: str, risk_class: str, now: datetime
) -> list[CovenantError]:
    today = contract_validity.day_of(now)
    checks: tuple[Callable[[], None], ...] = (
        lambda: contract_acceptance.check_model(document, model),
        lambda: contract_validity.check_proposed(document.valid_until, now),
        lambda: contract_acceptance.check_clauses(
            missing_clauses(document, risk_class, proposed_on=today), risk_class
        ),
        lambda: fallback_rules.check_rules(document),
    )
    found: list[CovenantError] = []
    for check in checks:
        try:
            check()
        except Invalid as error:
            found.append(error)
    return found


def _placed(text: str, errors: tuple[CovenantError, ...]) -> tuple[PlacedFault, ...]:
    lines = line_numbers(text)
    found = []
    for error in errors:
        for fault in error.errors:
            line, detail = _line_in(fault.detail)
            found.append(PlacedFault(fault.pointer, line or line_of(fault.pointer, lines), detail))
    return tuple(found)


def _line_in(detail: str) -> tuple[int, str]:
    """The reader of YAML says the line itself, `line 12, column 3: …`: taken out of the words."""
    match = _LINE.match(detail)
    return (int(match[1]), detail[match.end() :]) if match else (0, detail)
