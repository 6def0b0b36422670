"""A message about alerts in one language, before it takes the shape of any channel."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

FIRING, REMINDER, ESCALATION = "firing", "reminder", "escalation"
RESOLVED, TEST = "resolved", "test"
LONGEST_TITLE = 140


@dataclass(frozen=True, slots=True)
class Letter:
    """What is said: `headline` in one line, `facts` as label and value, `others` one line each.

    `id` is the same when the same letter is sent again, `thread` that of all letters about one
    thing to one receiver. `link_words` is what leads to `url`. `data` is for programs.
    """

    id: str
    thread: str
    why: str
    severity: str
    headline: str
    text: str
    subject: str
    url: str
    link_words: str
    at: datetime
    facts: tuple[tuple[str, str], ...] = ()
    others: tuple[str, ...] = ()
    data: dict[str, Any] = field(default_factory=dict)

    @property
    def is_over(self) -> bool:
        """Whether it tells that all is well again."""
        return self.why == RESOLVED


def shortened(text: str, most: int) -> str:
    """The text, cut with an ellipsis where it is longer than `most` characters."""
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def plain(letter: Letter) -> str:
    """The letter as plain text, for mail."""
    parts = [letter.text] if letter.text else []
    if letter.facts:
        parts.append("\n".join(f"{label}: {value}" for label, value in letter.facts))
    if letter.others:
        parts.append("\n".join(f"- {line}" for line in letter.others))
    parts.append(f"{letter.link_words}: {letter.url}")
    return "\n\n".join(parts) + "\n"
