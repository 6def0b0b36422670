"""Counting answers and what they led to, each once."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from django.db import connection, transaction
from django.db.models import F

from deployments.models import Experiment, ExperimentCount, ExperimentState
from deployments.services.statistics.bookings import Entry, take

KIND = "answers"

_INSERT = """
    insert into deployments_outcome (experiment_id, request_id, name, version, value, at)
    select * from unnest(%s::uuid[], %s::text[], %s::text[], %s::int[], %s::float8[],
                         %s::timestamptz[])
    on conflict (experiment_id, request_id, name) do nothing
    returning experiment_id, request_id
"""


@dataclass(frozen=True, slots=True)
class AnswerSlot:
    """Answers of one version within the minute in which they were given."""

    experiment: str
    version: int
    minute: datetime


@dataclass(frozen=True, slots=True)
class KnownOutcome:
    """An outcome of a request whose answer is known; `at` is when it happened."""

    experiment: str
    request_id: str
    name: str
    version: int
    value: float
    answered_at: datetime
    at: datetime


@transaction.atomic
def book_answers(entry: Entry, answered: Mapping[AnswerSlot, int]) -> None:
    """Add answers to their minutes, unless this entry was booked before."""
    if take(entry):
        _add("answered", Counter(dict(answered)))


@transaction.atomic
def record_outcomes(outcomes: Sequence[KnownOutcome]) -> set[tuple[str, str]]:
    """Write outcomes down; gives those (experiment, request id) that were not there before.

    Those of experiments that have ended meanwhile are left out.
    """
    ids = {one.experiment for one in outcomes}
    # Locked, so that none is counted behind an end that is being written.
    running = {
        str(pk)
        for pk in Experiment.objects.select_for_update(no_key=True)
        .filter(pk__in=[uuid.UUID(one) for one in ids], state=ExperimentState.RUNNING)
        .order_by("pk")
        .values_list("pk", flat=True)
    }
    known = {(one.experiment, one.request_id): one for one in outcomes if one.experiment in running}
    if not known:
        return set()
    rows = list(known.values())
    with connection.cursor() as cursor:
        cursor.execute(
            _INSERT,
            [
                [one.experiment for one in rows],
                [one.request_id for one in rows],
                [one.name for one in rows],
                [one.version for one in rows],
                [one.value for one in rows],
                [one.at for one in rows],
            ],
        )
        new = {(str(experiment), request_id) for experiment, request_id in cursor.fetchall()}
    led = [known[key] for key in new if known[key].value > 0]
    _add("converted", Counter(AnswerSlot(o.experiment, o.version, _minute(o)) for o in led))
    return new


def _minute(outcome: KnownOutcome) -> datetime:
    return outcome.answered_at.astimezone(UTC).replace(second=0, microsecond=0)


def _add(field: str, counts: Counter[AnswerSlot]) -> None:
    """Add to one column of the minutes' rows, always in the same order of rows."""
    slots = sorted(counts, key=lambda slot: (slot.experiment, slot.version, slot.minute))
    exist = {
        str(pk)
        for pk in Experiment.objects.filter(
            pk__in={uuid.UUID(slot.experiment) for slot in slots}
        ).values_list("pk", flat=True)
    }
    wanted = [slot for slot in slots if slot.experiment in exist]
    ExperimentCount.objects.bulk_create(
        [
            ExperimentCount(experiment_id=slot.experiment, version=slot.version, minute=slot.minute)
            for slot in wanted
        ],
        ignore_conflicts=True,
    )
    for slot in wanted:
        ExperimentCount.objects.filter(
            experiment_id=slot.experiment, version=slot.version, minute=slot.minute
        ).update(**{field: F(field) + counts[slot]})
