"""How audit entries are chained: each digest covers its entry and the digest before it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from typing import Any

import rfc8785

GENESIS = "0" * 64


@dataclass(frozen=True, slots=True)
class EntryContent:
    """What an entry says; times as RFC 3339 text in UTC with microseconds."""

    sequence: int
    at: str
    actor_username: str
    actor_id_text: str
    action: str
    subject: str
    subject_url: str
    before: Any
    after: Any
    reason: str
    source: str
    request_id: str


_FIELDS = tuple(field.name for field in fields(EntryContent))


@dataclass(frozen=True, slots=True)
class Link:
    content: EntryContent
    previous_digest: str
    digest: str


@dataclass(frozen=True, slots=True)
class ChainFault:
    """Where the chain breaks: the sequence number and what is wrong there."""

    sequence: int
    detail: str


def entry_digest(previous_digest: str, content: EntryContent) -> str:
    """SHA-256, in hex, over the previous digest and the canonical JSON (RFC 8785) of the entry."""
    # Not asdict(), which copies every value deeply: a chain has millions of entries.
    body = rfc8785.dumps({name: getattr(content, name) for name in _FIELDS})
    return hashlib.sha256(previous_digest.encode() + b"\n" + body).hexdigest()


def find_faults(
    links: Iterable[Link], *, head_sequence: int, head_digest: str, limit: int = 20
) -> Iterator[ChainFault]:
    """Walk the chain from its start and say where it was edited, cut, extended or reordered.

    `head_*` is what the chain should end with; at most `limit` faults are given.
    """
    expected, previous, found = 1, GENESIS, 0
    for link in links:
        fault = ""
        if link.content.sequence != expected:
            fault = f"entry #{expected} is missing"
        elif link.previous_digest != previous:
            fault = "it does not follow from the entry before it"
        elif entry_digest(link.previous_digest, link.content) != link.digest:
            fault = "its content was changed after it was written"
        if fault:
            yield ChainFault(link.content.sequence, fault)
            found += 1
            if found >= limit:
                return
        expected, previous = link.content.sequence + 1, link.digest
    if expected - 1 != head_sequence:
        yield ChainFault(head_sequence, f"the chain ends at #{expected - 1}, not at its head")
    elif previous != head_digest:
        yield ChainFault(head_sequence, "the last entry is not the one that was written last")
