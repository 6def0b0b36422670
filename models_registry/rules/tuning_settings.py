"""A value of a configuration with where it came from."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

T = TypeVar("T")


class Origin(StrEnum):
    """Where a value came from."""

    DEFAULT = "default"
    MEASURED = "measured"
    USER = "set_by_user"


@dataclass(frozen=True, slots=True)
class Setting(Generic[T]):
    """A value, where it came from, and why, in a sentence a person can read."""

    value: T
    origin: Origin
    reason: str
