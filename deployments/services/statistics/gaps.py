"""Noting when a gateway was not read, so that "no data" is never taken for "no errors"."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import F, Q
from django.db.models.functions import Least

from deployments.models import CountGap, GapReason

SHOWN_FROM = timedelta(seconds=5)
"""Shorter gaps are looks that came late; they are not noted unless counts were lost."""


@dataclass(frozen=True, slots=True)
class Gap:
    """A stretch in which a source was not read; `ended_at` None: it lasts."""

    source: str
    started_at: datetime
    ended_at: datetime | None
    why: GapReason
    lost: bool = False
    detail: str = ""


@transaction.atomic
def note(gaps: Iterable[Gap]) -> None:
    """Write gaps down in their order. A gap that ended closes the source's open one.

    The same gap told twice is one.
    """
    for gap in gaps:
        if gap.ended_at is None:
            _open(gap)
        elif not _close(gap) and (gap.lost or gap.ended_at - gap.started_at >= SHOWN_FROM):
            CountGap.objects.get_or_create(
                source=gap.source,
                started_at=gap.started_at,
                ended_at=gap.ended_at,
                defaults={"why": gap.why, "lost": gap.lost, "detail": gap.detail},
            )


def _open(gap: Gap) -> None:
    CountGap.objects.bulk_create(
        [
            CountGap(
                source=gap.source,
                started_at=gap.started_at,
                why=gap.why,
                lost=gap.lost,
                detail=gap.detail[:300],
            )
        ],
        ignore_conflicts=True,
    )


def _close(gap: Gap) -> bool:
    """Whether there was an open gap to end. A restart that came to light makes its counts lost."""
    changes = {"why": gap.why, "lost": True} if gap.lost else {}
    ended = CountGap.objects.filter(source=gap.source, ended_at__isnull=True).update(
        ended_at=gap.ended_at, started_at=Least(F("started_at"), gap.started_at), **changes
    )
    return bool(ended)


def end_of_sources(gone: Iterable[str], at: datetime) -> None:
    """End what lasts of sources that are no longer read, since they are gone."""
    CountGap.objects.filter(Q(source__in=list(gone)), ended_at__isnull=True).update(ended_at=at)
