"""Which alerts a silence keeps quiet."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

K = TypeVar("K")


@dataclass(frozen=True, slots=True)
class Traits:
    """What an alert can be matched by; keys of rows, None where it has none."""

    rule_name: str
    severity: str
    environment: int | None
    model: int | None
    node: int | None
    label: str


@dataclass(frozen=True, slots=True)
class Matchers:
    """What a silence matches: what is empty (None, "") matches everything."""

    rule_name: str = ""
    severity: str = ""
    environment: int | None = None
    model: int | None = None
    node: int | None = None
    label: str = ""

    @property
    def is_empty(self) -> bool:
        return self == Matchers()


def matches(matchers: Matchers, traits: Traits) -> bool:
    """Whether every matcher that is not empty is met."""
    return all(
        wanted in ("", None) or wanted == getattr(traits, name)
        for name, wanted in (
            ("rule_name", matchers.rule_name),
            ("severity", matchers.severity),
            ("environment", matchers.environment),
            ("model", matchers.model),
            ("node", matchers.node),
            ("label", matchers.label),
        )
    )


def silence_of(silences: Iterable[tuple[K, Matchers, datetime]], traits: Traits) -> K | None:
    """The silence that keeps an alert quiet for the longest; None: nobody silenced it."""
    found = [(until, key) for key, matchers, until in silences if matches(matchers, traits)]
    return max(found, key=lambda one: one[0])[1] if found else None
