"""Checkpoints: signed statements of how the chain stood, which bind whoever holds the database."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from console.errors import Invalid
from console.rules import dsse
from console.rules.audit_chain import GENESIS
from console.rules.canonical import canonical_bytes, loads_strict
from console.rules.signing_keys import PublicKey

PAYLOAD_TYPE = "application/vnd.covenant.audit-checkpoint+json"
ACTION = "audit.checkpoint"
EVERY_ENTRIES = 1_000
EVERY = timedelta(minutes=15)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The chain had this digest at this entry; its kept part begins behind `kept_after`."""

    sequence: int
    digest: str
    at: str
    kept_after: int = 0
    kept_after_digest: str = GENESIS

    def payload(self) -> bytes:
        """Canonical JSON (RFC 8785) of the statement: the bytes that are signed."""
        return canonical_bytes(
            {
                "sequence": self.sequence,
                "digest": self.digest,
                "at": self.at,
                "keptAfter": self.kept_after,
                "keptAfterDigest": self.kept_after_digest,
            }
        )


def is_due(
    *, head: int, head_action: str, last: int, last_at: datetime | None, now: datetime
) -> bool:
    """Whether to sign again: after EVERY_ENTRIES entries, or EVERY once there is anything new.

    The entry that tells of the last checkpoint is not news.
    """
    fresh = head - last
    if fresh <= 0 or (fresh == 1 and head_action == ACTION):
        return False
    return last_at is None or fresh >= EVERY_ENTRIES or now - last_at >= EVERY


def read(envelope: Mapping[str, Any], keys: Mapping[str, PublicKey]) -> Checkpoint:
    """The statement in a DSSE envelope, once one of `keys` (by key id) is sure to have signed it.

    Raises Invalid: `invalid_envelope`, `payload_type_mismatch`, `checkpoint_key_unknown`,
    `signature_invalid`, `invalid_checkpoint`.
    """
    parsed = dsse.Envelope.parse(envelope)
    if parsed.payload_type != PAYLOAD_TYPE:
        raise Invalid(
            f"The envelope signs a {parsed.payload_type}, not a checkpoint.",
            code="payload_type_mismatch",
        )
    key = next((keys[s.keyid] for s in parsed.signatures if s.keyid in keys), None)
    if key is None:
        named = ", ".join(f"{s.keyid[:16]}…" for s in parsed.signatures)
        raise Invalid(
            f"The checkpoint is signed by a key that is not trusted here ({named}).",
            code="checkpoint_key_unknown",
            hint="Give the installation's public key; see docs/audit.md.",
        )
    dsse.verify(parsed, key)
    body: Any = loads_strict(parsed.payload)
    try:
        return Checkpoint(
            sequence=int(body["sequence"]),
            digest=str(body["digest"]),
            at=str(body["at"]),
            kept_after=int(body["keptAfter"]),
            kept_after_digest=str(body["keptAfterDigest"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise Invalid(
            "The checkpoint lacks a field or holds one of another kind.", code="invalid_checkpoint"
        ) from error
