"""The audit trail's partitions: one a month, by the time of its entries (UTC)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

TABLE = "console_auditentry"
MONTHS_AHEAD = 3
_NAME = re.compile(rf"{TABLE}_y(\d{{4}})m(\d{{2}})")


@dataclass(frozen=True, slots=True, order=True)
class Month:
    year: int
    month: int

    @classmethod
    def of(cls, moment: datetime) -> Month:
        utc = moment.astimezone(UTC)
        return cls(utc.year, utc.month)

    @classmethod
    def of_partition(cls, name: str) -> Month | None:
        """The month whose entries the table of this name holds; None for any other table."""
        match = _NAME.fullmatch(name)
        return cls(int(match[1]), int(match[2])) if match else None

    def plus(self, months: int) -> Month:
        total = self.year * 12 + self.month - 1 + months
        return Month(total // 12, total % 12 + 1)

    @property
    def start(self) -> datetime:
        return datetime(self.year, self.month, 1, tzinfo=UTC)

    @property
    def partition(self) -> str:
        return f"{TABLE}_y{self.year:04}m{self.month:02}"

    def __str__(self) -> str:
        return f"{self.year:04}-{self.month:02}"


def wanted(now: datetime) -> list[Month]:
    """This month and the next ones: what should be there before anything is written to it."""
    return [Month.of(now).plus(ahead) for ahead in range(MONTHS_AHEAD + 1)]


def expired(months: Iterable[Month], *, now: datetime, keep: int) -> list[Month]:
    """Months that ended more than `keep` whole months ago, oldest first; 0 keeps all for ever."""
    if keep <= 0:
        return []
    oldest_kept = Month.of(now).plus(-keep)
    return sorted(month for month in months if month < oldest_kept)
