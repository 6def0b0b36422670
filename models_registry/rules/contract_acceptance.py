"""Whether a sound document may become the model's next contract revision."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from console.errors import Conflict, FieldError, Invalid
from models_registry.rules.contract_changes import Change
from models_registry.rules.contract_clauses import Clause, clause_faults
from models_registry.rules.contract_types import ContractDocument


def check_model(document: ContractDocument, name: str) -> None:
    """Raise Invalid `other_model` when the document is about another model."""
    if document.model != name:
        raise Invalid(
            f"The document is about {document.model}, not about {name}.",
            code="other_model",
            hint=f"Set “model: {name}”.",
            errors=(FieldError("/model", f"is not {name}"),),
        )


def check_clauses(missing: tuple[Clause, ...], risk_class: str) -> None:
    """Raise Invalid `clauses_missing` with the place of each clause that is not there."""
    if missing:
        raise Invalid(
            f"The risk class {risk_class} of the model asks for "
            f"{'; '.join(clause.asks for clause in missing)}.",
            code="clauses_missing",
            hint="Add what is named: " + " ".join(clause.why for clause in missing),
            errors=clause_faults(missing, risk_class),
        )


def check_revision(document: ContractDocument, number: int, signed_before: Collection[int]) -> None:
    """The document's own `revision`, and that no signature over an earlier one fits it as well.

    `signed_before`: revisions whose bytes are the same and that somebody has signed. Raises Invalid
    `other_revision`, Conflict `contract_repeats`.
    """
    if document.revision not in (None, number):
        detail = f"is {document.revision}; the next revision of the model is {number}"
        raise Invalid(
            f"The document says that it is revision {document.revision}: the next one is {number}.",
            code="other_revision",
            hint=f"Set “revision: {number}”, or leave it out.",
            errors=(FieldError("/revision", detail),),
        )
    if signed_before:
        raise Conflict(
            f"This is, to the byte, revision {max(signed_before)}, and people have signed that: "
            "their signatures would fit this proposal without their doing.",
            code="contract_repeats",
            hint=f"Add “revision: {number}” to the document, so that it is signed anew.",
        )


def check_acknowledged(found: Sequence[Change], *, acknowledged: bool, against: int) -> None:
    """Raise Conflict `breaking_not_acknowledged`, with each place, unless it was acknowledged."""
    if not found or acknowledged:
        return
    more = f", and {len(found) - 1} more" if len(found) > 1 else ""
    raise Conflict(
        f"This breaks callers who rely on revision {against}: {found[0].sentence}{more}.",
        code="breaking_not_acknowledged",
        hint="Acknowledge it if it is meant (acknowledge_breaking), and tell the callers first.",
        errors=tuple(FieldError(change.pointer, change.sentence) for change in found),
    )
