"""Booking compared answers into minutes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction

from deployments.models import ComparisonMinute
from deployments.rules.experiments.comparison_figures import Figures, to_json
from deployments.selectors.experiments.comparisons import figures_of
from deployments.services.statistics.bookings import Entry, take
from deployments.services.statistics.rollups import endpoint_ids

KIND = "comparisons"


@dataclass(frozen=True, slots=True)
class Slot:
    """One minute of one pair of versions at one endpoint."""

    environment: str
    model: str
    baseline: int
    candidate: int
    minute: datetime


@transaction.atomic
def book_comparisons(entry: Entry, figures: Mapping[Slot, Figures]) -> None:
    """Add figures to their minutes, unless this entry was booked before.

    Those of an endpoint that is gone are left out.
    """
    if not take(entry):
        return
    ids = endpoint_ids({(slot.environment, slot.model) for slot in figures})
    keys = {
        (ids[(s.environment, s.model)], s.baseline, s.candidate, s.minute): s
        for s in figures
        if (s.environment, s.model) in ids
    }
    if not keys:
        return
    ComparisonMinute.objects.bulk_create(
        [
            ComparisonMinute(endpoint_id=e, baseline=b, candidate=c, minute=m)
            for e, b, c, m in sorted(keys)
        ],
        ignore_conflicts=True,
    )
    rows = (
        ComparisonMinute.objects.select_for_update()
        .filter(endpoint_id__in={e for e, *_ in keys}, minute__in={m for *_, m in keys})
        .order_by("pk")
    )
    changed = []
    for row in rows:
        slot = keys.get((row.endpoint_id, row.baseline, row.candidate, row.minute))
        if slot is not None:
            _put(row, figures_of(row) + figures[slot])
            changed.append(row)
    ComparisonMinute.objects.bulk_update(changed, _FIELDS)


_FIELDS = [
    "sampled",
    "compared",
    "differing",
    "baseline_faults",
    "candidate_faults",
    "max_difference",
    "outputs",
]


def _put(row: ComparisonMinute, figures: Figures) -> None:
    for name in _FIELDS[:-1]:
        setattr(row, name, getattr(figures, name))
    row.outputs = to_json(figures.outputs)
