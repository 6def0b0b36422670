"""Signed checkpoints of the audit trail: made, kept twice, and read back with suspicion."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import transaction

from console.actors import Actor
from console.errors import Invalid, Unavailable
from console.models import AuditCheckpoint, AuditEntry, AuditHead
from console.rules import audit_checkpoints
from console.rules.audit_chain import GENESIS, ChainFault, FaultKind
from console.rules.audit_checkpoints import Checkpoint
from console.rules.signing_keys import PublicKey, parse_public_key
from console.services import audit, installation_key

FILE = "checkpoints.jsonl"
_TAIL_BYTES = 8 * 1024


@dataclass(frozen=True, slots=True)
class KnownCheckpoints:
    """Checkpoints whose signatures hold, by number, and what is wrong with others."""

    valid: Mapping[int, Checkpoint]
    faults: list[ChainFault] = field(default_factory=list)

    @property
    def newest(self) -> Checkpoint | None:
        return self.valid[max(self.valid)] if self.valid else None

    def marks(self) -> dict[int, str]:
        """Digests by number, as ChainWalk takes them."""
        return {number: signed.digest for number, signed in self.valid.items()}


def due(now: datetime) -> bool:
    """Whether enough was written, or enough time has passed, since the last checkpoint."""
    last = AuditCheckpoint.objects.order_by("-sequence").first()
    newest = AuditEntry.objects.order_by("-sequence").values_list("sequence", "action").first()
    return newest is not None and audit_checkpoints.is_due(
        head=newest[0],
        head_action=newest[1],
        last=last.sequence if last else 0,
        last_at=last.at if last else None,
        now=now,
    )


def make_checkpoint(
    *, actor: Actor, now: datetime, kept_after: tuple[int, str] | None = None
) -> AuditCheckpoint | None:
    """Sign how the chain stands; None when there is nothing to sign.

    An entry tells of it, with the envelope, so that it goes wherever entries go; once all is
    committed the envelope is written to the installation's own file as well. `kept_after` is
    given by retention alone: anybody else repeats what the last valid checkpoint said, so that
    entries which somebody deleted are never signed away. Raises Unavailable without a key.
    """
    key = installation_key.public_key()
    # Read before the lock, which keeps every writer waiting.
    last = newest_checkpoint()
    if kept_after is None and last is not None:
        kept_after = (last.kept_after, last.kept_after_digest)
    with transaction.atomic():
        head = audit.lock_head()
        newer = AuditCheckpoint.objects.filter(sequence__gt=last.sequence if last else 0)
        if not head.sequence or (last and head.sequence <= last.sequence) or newer.exists():
            return None
        signed = Checkpoint(
            head.sequence,
            head.digest,
            now.isoformat(),
            *(kept_after or (0, GENESIS)),
        )
        row = sign(signed, now)
        audit.record(
            actor=actor,
            action=audit_checkpoints.ACTION,
            subject=f"audit #{row.sequence}",
            after={"sequence": row.sequence, "keyid": key.key_id, "envelope": row.envelope},
        )
    return row


def sign(signed: Checkpoint, now: datetime) -> AuditCheckpoint:
    """A signed checkpoint as a row, and in the file once the transaction has ended well."""
    key = installation_key.public_key()
    envelope = installation_key.sign(audit_checkpoints.PAYLOAD_TYPE, signed.payload()).to_dict()
    row = AuditCheckpoint.objects.create(
        sequence=signed.sequence,
        digest=signed.digest,
        at=now,
        keyid=key.key_id,
        envelope=envelope,
    )
    transaction.on_commit(lambda: _write(signed.sequence, envelope, key))
    return row


def trusted_keys() -> dict[str, PublicKey]:
    """Keys that may sign checkpoints: the installation's own and those that were it before.

    From files alone: who holds the database could add a key of their own to its tables.
    """
    keys: dict[str, PublicKey] = {}
    with suppress(Unavailable):
        own = installation_key.public_key()
        keys[own.key_id] = own
    for path in sorted((folder() / "keys").glob("*.pem")):
        key = parse_public_key(path.read_bytes())
        keys[key.key_id] = key
    return keys


def newest_checkpoint() -> Checkpoint | None:
    """The newest of those whose signatures hold, without a look at all the others."""
    keys = trusted_keys()
    rows = AuditCheckpoint.objects.order_by("-sequence").values_list("envelope", flat=True)[:5]
    found: list[Checkpoint] = []
    for envelope in (*rows, *list(_written(last_only=True).values())):
        with suppress(Invalid):
            found.append(audit_checkpoints.read(envelope, keys))
    return max(found, key=lambda signed: signed.sequence, default=None)


def known_checkpoints() -> KnownCheckpoints:
    """What was ever signed, from the database and from the file beside it.

    A checkpoint of the database whose signature does not hold, and one of the file that the
    database lost or changed, are faults.
    """
    keys = trusted_keys()
    valid: dict[int, Checkpoint] = {}
    faults: list[ChainFault] = []
    # First the file, which gets a checkpoint after the database: what is signed meanwhile is not
    # taken for one that the database lost.
    written = _written()
    stored: dict[int, Any] = dict(AuditCheckpoint.objects.values_list("sequence", "envelope"))
    for number, envelope in stored.items():
        try:
            signed = audit_checkpoints.read(envelope, keys)
        except Invalid as error:
            faults.append(ChainFault(number, FaultKind.CHECKPOINT, error.message, number))
            continue
        if signed.sequence != number:
            told = f"the checkpoint of this number was signed for #{signed.sequence}"
            faults.append(ChainFault(number, FaultKind.CHECKPOINT, told, number))
        valid[signed.sequence] = signed
    for number, envelope in written.items():
        try:
            signed = audit_checkpoints.read(envelope, keys)
        except Invalid as error:
            told = f"in the file {FILE}: {error.message}"
            faults.append(ChainFault(number, FaultKind.CHECKPOINT, told, number))
            continue
        if signed.sequence not in stored:
            told = "its checkpoint was taken out of the database"
            faults.append(ChainFault(number, FaultKind.CHECKPOINT, told, number))
        # What was signed and kept outside counts for more than what the database says now.
        valid[signed.sequence] = signed
    return KnownCheckpoints(valid, faults)


def kept_part(known: KnownCheckpoints, head: AuditHead) -> tuple[int, str, list[ChainFault]]:
    """Behind which entry the chain begins (number, digest), as signed; and what speaks against it.

    Older entries may be gone by retention alone, which signs that they are.
    """
    newest = known.newest
    after, digest = (newest.kept_after, newest.kept_after_digest) if newest else (0, GENESIS)
    if head.kept_after == after and head.kept_after_digest == digest:
        return after, digest, []
    told = (
        f"the database says that the chain begins behind #{head.kept_after}, and it was signed "
        f"that it begins behind #{after}"
    )
    return after, digest, [ChainFault(after + 1, FaultKind.CHECKPOINT, told, head.kept_after)]


def folder() -> Path:
    """Where the trail keeps what the database must not be able to change."""
    path: Path = settings.AUDIT_FOLDER
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    return path


def _write(number: int, envelope: Mapping[str, Any], key: PublicKey) -> None:
    """Append the checkpoint to the file, and make sure that it is on the disk."""
    keys = folder() / "keys"
    keys.mkdir(exist_ok=True, mode=0o700)
    pem = keys / f"{key.key_id}.pem"
    if not pem.exists():
        pem.write_text(key.pem)
    line = json.dumps({"sequence": number, "envelope": envelope}) + "\n"
    descriptor = os.open(folder() / FILE, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    with os.fdopen(descriptor, "a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(line)
        file.flush()
        os.fsync(file.fileno())


def _written(*, last_only: bool = False) -> dict[int, Any]:
    """Envelopes of the file by number; a line that was cut off by a crash is passed over."""
    path = folder() / FILE
    found: dict[int, Any] = {}
    if not path.exists():
        return found
    with path.open("rb") as file:
        if last_only:
            file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
        lines = file.read().splitlines()
    for line in lines:
        try:
            body = json.loads(line)
            found[int(body["sequence"])] = body["envelope"]
        except (ValueError, KeyError, TypeError):
            continue
    return found
