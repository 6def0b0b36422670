"""Booking a process's counts once, also when the answer to a commit was lost and it tries again."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from deployments.models import CounterCursor


@dataclass(frozen=True, slots=True)
class Entry:
    """The `number`th booking of one kind by one run (`epoch`) of a process (`source`)."""

    source: str
    kind: str
    epoch: str
    number: int
    at: datetime


def take(entry: Entry) -> bool:
    """Note the entry; False when it was booked before. Belongs into the booking's transaction."""
    CounterCursor.objects.bulk_create(
        [CounterCursor(source=entry.source, name=entry.kind, epoch="", read_at=entry.at)],
        ignore_conflicts=True,
    )
    cursor = CounterCursor.objects.select_for_update().get(source=entry.source, name=entry.kind)
    if cursor.epoch == entry.epoch and cursor.values["booked"] >= entry.number:
        return False
    cursor.epoch, cursor.values, cursor.read_at = entry.epoch, {"booked": entry.number}, entry.at
    cursor.save(update_fields=["epoch", "values", "read_at"])
    return True
