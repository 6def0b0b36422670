"""A contract in the reader's language: its terms, what it changes, and how its signatures stand."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from console.errors import Invalid
from console.rules.dsse import CONTRACT_PAYLOAD_TYPE
from models_registry.models import Seat
from models_registry.rules.contract_clauses import ChecklistRow
from models_registry.rules.contract_diff import Change
from models_registry.rules.contract_terms import Term, number_text, render
from models_registry.selectors.contracts import ContractPage, SeatSignatureRow
from models_registry.services.signatures import verify_stored

# Terms by what they speak of, in the order in which a reader asks for them.
TOPICS = (
    (_("What is promised"), ("latency", "availability", "load", "valid_until")),
    (_("What goes in and comes out"), ("input", "output")),
    (_("When something is wrong"), ("request", "error", "fallback")),
    (_("What is watched and kept"), ("logging", "drift", "explanation")),
    (_("How a version gets in"), ("validation", "rollout", "approvals")),
)


def terms_in_words(found: Iterable[Term]) -> list[dict[str, Any]]:
    """The terms as sentences, under their headings."""
    by_key: dict[str, list[str]] = {}
    for term in found:
        by_key.setdefault(term.key, []).append(render(term, gettext))
    topics = [
        {
            "title": title,
            "sentences": [sentence for key in keys for sentence in by_key.pop(key, ())],
        }
        for title, keys in TOPICS
    ]
    rest = [sentence for sentences in by_key.values() for sentence in sentences]
    if rest:
        topics.append({"title": _("Further"), "sentences": rest})
    return [topic for topic in topics if topic["sentences"]]


def changes_in_words(changes: Iterable[Change]) -> list[dict[str, Any]]:
    """Rows for components/diff.html."""
    return [
        {
            "kind": change.kind,
            "path": change.pointer,
            "sentence": render(change.term, gettext),
            "before": _short(change.before),
            "after": _short(change.after),
            "effect": change.effect,
        }
        for change in changes
    ]


def checklist_in_words(rows: Iterable[ChecklistRow]) -> list[dict[str, Any]]:
    """Rows of contracts/_checklist.html."""
    return [
        {
            "asks": gettext(row.clause.asks),
            "why": gettext(row.clause.why),
            "path": row.clause.pointer,
            "required": row.required,
            "met": row.met,
        }
        for row in rows
    ]


def seat_rows(page: ContractPage, user_id: int) -> list[dict[str, Any]]:
    """The three seats; each signature is verified now, with the bytes as they are stored."""
    return [_seat(page, row, user_id) for row in page.seats]


def _seat(page: ContractPage, row: SeatSignatureRow, user_id: int) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "label": Seat(row.seat).label,
        "holder": row.holder,
        "signature": row.signature,
        "state": "waiting" if row.holder else "vacant",
        "note": "",
        "mine": row.seat == page.can_sign_as
        and row.holder is not None
        and row.holder.pk == user_id,
    }
    if row.signature is None:
        return shown
    signature = row.signature
    try:
        shown["note"] = verify_stored(
            signature.envelope,
            key=signature.key,
            signer_id=signature.signer_id,
            signed_at=signature.signed_at,
            payload_type=CONTRACT_PAYLOAD_TYPE,
            payload=bytes(page.contract.payload),
        )
    except Invalid as error:
        return {**shown, "state": "invalid", "note": f"{error.message} {error.hint}".strip()}
    return {**shown, "state": "revoked" if shown["note"] else "signed"}


def _short(value: Any) -> str:
    if value is None:
        return "—"
    if isinstance(value, float):
        return number_text(value)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 120 else text[:119] + "…"
