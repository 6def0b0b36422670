"""How audit entries are chained: each digest covers its entry and the digest before it."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any

import rfc8785

GENESIS = "0" * 64
MOST_FAULTS = 20
# How far a moved entry is looked for; beyond that it counts as edited.
_NEARBY = 1000


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


_FIELDS = tuple(entry_field.name for entry_field in fields(EntryContent))
_IN_ORDER = tuple(sorted(_FIELDS))
_compact = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode
# Where Python's JSON and RFC 8785 may differ: numbers with a fraction or an exponent or too large,
# and the order of keys beyond the basic plane. Texts that look so only take the slower way.
_DELICATE = re.compile(r"\d[.eE]|\d{16}|NaN|Infinity|[^\u0000-\ud7ff\ue000-\uffff]")


@dataclass(frozen=True, slots=True)
class Link:
    content: EntryContent
    previous_digest: str
    digest: str


class FaultKind(StrEnum):
    """What was done to a chain that does not hold."""

    EDITED = "edited"
    DELETED = "deleted"
    INSERTED = "inserted"
    REORDERED = "reordered"
    CUT = "cut"
    EXTENDED = "extended"
    CHECKPOINT = "checkpoint"
    REWRITTEN = "rewritten"


@dataclass(frozen=True, slots=True)
class ChainFault:
    """Where the chain breaks: the entry's number (to `last`, where it is several), and how."""

    sequence: int
    kind: FaultKind
    detail: str
    last: int = 0


def entry_digest(previous_digest: str, content: EntryContent, *, sequence: int = 0) -> str:
    """SHA-256, in hex, over the previous digest and the canonical JSON (RFC 8785) of the entry.

    `sequence` replaces the entry's own number where one asks which number it was written with.
    """
    body = _canonical(content, sequence or content.sequence)
    return hashlib.sha256(previous_digest.encode() + b"\n" + body).hexdigest()


def _canonical(content: EntryContent, sequence: int) -> bytes:
    # A chain has millions of entries, so the C encoder writes all that it writes as RFC 8785 does.
    values = {name: getattr(content, name) for name in _IN_ORDER}
    values["sequence"] = sequence
    for value in (content.before, content.after):
        if value is not None and _DELICATE.search(_compact(value)):
            return rfc8785.dumps(values)
    return _compact(values).encode()


@dataclass(slots=True)
class ChainWalk:
    """A walk along the chain, link by link in the order of their numbers, that remembers faults.

    It starts behind the entry `after`, whose digest is `digest` (0 and GENESIS: at the very
    start). `marks` gives digests that signed checkpoints vouch for, by number. A fault does not
    stop the walk: it goes on from what is there, so that each one is found and located, until
    there are MOST_FAULTS.
    """

    after: int = 0
    digest: str = GENESIS
    marks: Mapping[int, str] = field(default_factory=dict)
    checked: int = 0
    faults: list[ChainFault] = field(default_factory=list)
    # Digests that the next link may follow: two where a number stands twice.
    _tails: set[str] = field(default_factory=set)
    _before_tails: set[str] = field(default_factory=set)
    # By how much the numbers now read differ from those that were written.
    _shift: int = 0
    _moved: tuple[int, int, bool] | None = None
    _last_mark: int = 0
    _rewritten: bool = False

    def __post_init__(self) -> None:
        self._tails = {self.digest}
        self._last_mark = self.after

    @property
    def is_full(self) -> bool:
        """Whether there are so many faults that looking for more tells nothing new."""
        return len(self.faults) >= MOST_FAULTS

    def walk(self, links: Iterable[Link]) -> None:
        """Check the links, which follow those given before."""
        for link in links:
            if self.is_full:
                return
            self._step(link)

    def finish(self, *, head_sequence: int, head_digest: str) -> None:
        """Compare the end that was reached with the head, and with what was signed beyond it."""
        self._settle_moved(None)
        beyond = max((number for number in self.marks if number > self.after), default=0)
        if self.after < head_sequence:
            self._add(
                self.after + 1,
                FaultKind.CUT,
                f"the chain ends at #{self.after}, and its head is #{head_sequence}",
                last=head_sequence,
            )
        elif beyond:
            self._add(
                self.after + 1,
                FaultKind.CUT,
                f"the chain ends at #{self.after}, and a checkpoint was signed at #{beyond}",
                last=beyond,
            )
        elif head_digest not in self._tails and not self._is_known_at(self.after):
            self._add(
                self.after,
                FaultKind.REWRITTEN,
                "the last entry is not the one that was written last",
            )

    def _step(self, link: Link) -> None:
        number = link.content.sequence
        self.checked += 1
        if number <= self.after:
            self._take_double(link, number)
            return
        if number > self.after + 1:
            self._settle_moved(None)
            self._add(
                self.after + 1,
                FaultKind.DELETED,
                "the entry is missing"
                if number == self.after + 2
                else f"the entries up to #{number - 1} are missing",
                last=number - 1,
            )
            # Whatever stood between is unknown: this link is taken by its own word.
            self._tails = {link.previous_digest}
        follows = link.previous_digest in self._tails
        own = number + self._shift
        intact = entry_digest(link.previous_digest, link.content, sequence=own) == link.digest
        if follows and intact and self._moved is None:
            pass
        else:
            self._diagnose(link, number, follows=follows, intact=intact)
        self._pass_mark(number, link.digest)
        self._before_tails, self._tails = self._tails, {link.digest}
        self.after, self.digest = number, link.digest

    def _diagnose(self, link: Link, number: int, *, follows: bool, intact: bool) -> None:
        written = number + self._shift if intact else _written_as(link, number + self._shift)
        offset = None if written is None else written - number - self._shift
        if self._moved is not None and self._settle_moved(offset):
            return
        if offset is None:
            self._add(number, FaultKind.EDITED, "its content was changed after it was written")
        elif offset:
            # Moved alone (reordered) or with all that follow it: the next link tells.
            self._moved = (number, offset, link.previous_digest in self._before_tails)
        elif not follows:
            self._not_following(number)

    def _not_following(self, number: int) -> None:
        if self._is_known_at(number - 1):
            return
        self._add(
            number - 1,
            FaultKind.EDITED,
            f"it was written anew with its digest: #{number} was written after another entry",
        )

    def _settle_moved(self, offset: int | None) -> bool:
        """Say what became of the link that stood at another number; True when this one is said.

        When the next link stands off by as much, all numbers were shifted: entries were taken out
        or put in before it. Otherwise the one link was moved by itself.
        """
        if self._moved is None:
            return False
        number, by, skips_one = self._moved
        self._moved = None
        # The last link of all has no next one: it tells by what it was written after.
        if offset == by or (offset is None and (by > 0 or skips_one)):
            if by > 0:
                self._add(
                    number,
                    FaultKind.DELETED,
                    f"{by} before it taken out and those after it renumbered",
                )
            else:
                self._replace_edited(number + by)
                self._add(
                    number + by,
                    FaultKind.INSERTED,
                    "it was put in, and those after it were renumbered",
                    last=number - 1,
                )
            self._shift += by
            return offset == by
        self._add(
            number, FaultKind.REORDERED, f"it was written as #{number + by + self._shift}, not here"
        )
        if offset:
            self._add(
                number + 1,
                FaultKind.REORDERED,
                f"it was written as #{number + 1 + offset + self._shift}, not here",
            )
            return True
        return False

    def _take_double(self, link: Link, number: int) -> None:
        self._add(number, FaultKind.INSERTED, "two entries bear this number: one was put in")
        if entry_digest(link.previous_digest, link.content) == link.digest:
            # Either may be the true one; the next link shows which it was written after.
            self._tails = self._tails | {link.digest}

    def _is_known_at(self, number: int) -> bool:
        """Whether a fault that was found explains what is odd at this entry."""
        return not number or any(f.sequence <= number <= f.last for f in self.faults)

    def _replace_edited(self, number: int) -> None:
        """An entry that was put in reads as edited at first."""
        self.faults = [
            fault
            for fault in self.faults
            if not (fault.sequence == number and fault.kind == FaultKind.EDITED)
        ]

    def _pass_mark(self, number: int, digest: str) -> None:
        signed = self.marks.get(number)
        if signed is None:
            return
        if signed == digest:
            self._last_mark = number
        elif not self._rewritten:
            self._rewritten = True
            self._add(
                self._last_mark + 1,
                FaultKind.REWRITTEN,
                f"the entries up to #{number} are not those whose checkpoint was signed there",
                last=number,
            )

    def _add(self, sequence: int, kind: FaultKind, detail: str, *, last: int = 0) -> None:
        if not self.is_full:
            self.faults.append(ChainFault(sequence, kind, detail, max(last, sequence)))


def _written_as(link: Link, near: int) -> int | None:
    """The number that the link was written with, looked for around `near`; None: with none."""
    for distance in range(1, _NEARBY + 1):
        for number in (near + distance, near - distance):
            if number > 0 and (
                entry_digest(link.previous_digest, link.content, sequence=number) == link.digest
            ):
                return number
    return None
