"""Reads what rules ask, each source as often as it changes; remembers requests between looks."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from datetime import datetime, timedelta
from typing import Final

from django.db import OperationalError
from django.db.models import Sum

from deployments.adapters import live_store
from deployments.models import MinuteRollup
from deployments.rules.alerts.catalogue import Reading, Readings, Source, Target
from deployments.rules.alerts.questions import Question
from deployments.rules.alerts.traffic_memory import Counts, TrafficMemory
from deployments.rules.alerts.traffic_signals import readings_of_endpoint
from deployments.rules.statistics.measurements import minute_of
from deployments.selectors.alerts.series_readings import series_readings
from deployments.selectors.alerts.state_readings import (
    burn_readings,
    leak_readings,
    state_readings,
)
from deployments.selectors.alerts.things import Things

EVERY: Final = {
    Source.TRAFFIC: timedelta(seconds=0),
    Source.SERIES: timedelta(seconds=15),
    Source.STATE: timedelta(seconds=15),
    Source.BURN: timedelta(seconds=60),
    Source.LEAK: timedelta(seconds=60),
}
"""How often each source is read at most; requests at each look."""

USUAL_OVER = timedelta(minutes=60)
USUAL_EVERY = timedelta(seconds=60)
LITTLE_S = 30
"""Endpoints of which more than so much is missing are read apart from the others."""
AT_ONCE = 50
FRESH_S = 20.0
"""While no endpoint at all has newer numbers than this, the collector is silent, not they."""

log = logging.getLogger(__name__)

Answers = dict[Question, Readings]


class SignalReader:
    """Belongs to one engine and one thread."""

    def __init__(self) -> None:
        self._memory = TrafficMemory()
        self._read_at: dict[Source, datetime] = {}
        self._answers: dict[Source, Answers] = {}
        self._usual: dict[int, int] = {}
        self._usual_at: datetime | None = None

    def read(
        self, questions: Collection[Question], things: Things, now: datetime
    ) -> tuple[Answers, frozenset[Source]]:
        """The newest answers, and which sources were read now; the others are as they were.

        A source that cannot be read has no answers: its rules are not judged. The queries do not
        grow with the number of endpoints.
        """
        by_source: dict[Source, list[Question]] = defaultdict(list)
        for question in questions:
            by_source[question.signal.source].append(question)
        read = set()
        for source, asked in by_source.items():
            at = self._read_at.get(source)
            known = self._answers.get(source, {})
            if at is not None and at <= now < at + EVERY[source] and known.keys() >= set(asked):
                continue
            self._read_at[source] = now
            try:
                self._answers[source] = self._look(source, asked, things, now)
            except OperationalError:
                raise
            except Exception:
                # One source that fails takes its own rules with it, and no other.
                log.exception("the signals of %s could not be read", source)
                self._answers.pop(source, None)
                continue
            read.add(source)
        merged: Answers = {}
        for source in by_source:
            merged |= self._answers.get(source, {})
        return merged, frozenset(read)

    def _look(
        self, source: Source, asked: list[Question], things: Things, now: datetime
    ) -> Answers:
        others: Mapping[Source, Callable[[Collection[Question], Things, datetime], Answers]] = {
            Source.SERIES: series_readings,
            Source.STATE: state_readings,
            Source.BURN: burn_readings,
            Source.LEAK: leak_readings,
        }
        if source in others:
            return others[source](asked, things, now)
        return self._traffic(asked, things, now)

    def _traffic(self, asked: list[Question], things: Things, now: datetime) -> Answers:
        self._hear(asked, things, now)
        return {one: self._answer(one, things, now) for one in asked}

    def _hear(self, asked: list[Question], things: Things, now: datetime) -> None:
        """Take the seconds that are new from the rings of all endpoints."""
        at = now.timestamp()
        names = [one.name for one in things.endpoints.values()]
        self._memory.keep(names, {float(one.window_s) for one in asked})
        if not self._take(names, at):
            # Other bounds while it was read: what was known is forgotten, and read anew.
            self._take(names, at)

    def _take(self, names: list[str], at: float) -> bool:
        """Read what is missing of these endpoints; False as soon as the bounds are others."""
        missing = {name: self._memory.missing_s(name, at) for name in names}
        for some in (
            [name for name in names if missing[name] <= LITTLE_S],
            [name for name in names if missing[name] > LITTLE_S],
        ):
            for first in range(0, len(some), AT_ONCE):
                part = some[first : first + AT_ONCE]
                last = int(max(missing[name] for name in part)) + 3
                points, bounds = live_store.rings(part, last=min(last, live_store.RING_LENGTH))
                if self._memory.under(bounds):
                    return False
                for name, found in points.items():
                    self._memory.hear(name, found, bounds)
        return True

    def _answer(self, question: Question, things: Things, now: datetime) -> Readings:
        if question.signal.key == "no_data_seconds":
            return self._silences(things, now)
        found: dict[Target, Reading] = {}
        at, seconds = now.timestamp(), float(question.window_s)
        if question.signal.key == "requests_of_usual_percent":
            return self._of_usual(question, things, now)
        for endpoint in things.endpoints.values():
            versions = self._memory.versions(endpoint.name, seconds, at)
            for version, reading in readings_of_endpoint(
                question.signal,
                versions,
                each=question.each,
                seconds=seconds,
                min_requests=question.min_requests,
                bounds=self._memory.bounds,
            ).items():
                found[Target(endpoint=endpoint.key, version=version)] = reading
        return found

    def _silences(self, things: Things, now: datetime) -> Readings:
        at = now.timestamp()
        heard = {
            endpoint.key: newest
            for endpoint in things.endpoints.values()
            if (newest := self._memory.heard_at(endpoint.name)) is not None
        }
        if not heard or at - max(heard.values()) > FRESH_S:
            return {}
        return {Target(endpoint=key): Reading(max(at - one, 0.0)) for key, one in heard.items()}

    def _of_usual(self, question: Question, things: Things, now: datetime) -> Readings:
        """Requests within the window against those of the hour before, as a share of the pace."""
        if self._usual_at is None or not self._usual_at <= now < self._usual_at + USUAL_EVERY:
            self._usual = requests_of_hour_before(now - timedelta(seconds=question.window_s))
            self._usual_at = now
        found: dict[Target, Reading] = {}
        at, seconds = now.timestamp(), float(question.window_s)
        for endpoint in things.endpoints.values():
            usual = self._usual.get(endpoint.key, 0)
            heard = self._memory.heard_at(endpoint.name)
            if usual < question.min_requests or heard is None or at - heard > FRESH_S:
                continue
            counts = sum(self._memory.versions(endpoint.name, seconds, at).values(), Counts())
            pace = usual / USUAL_OVER.total_seconds()
            found[Target(endpoint=endpoint.key)] = Reading(
                100 * counts.requests / seconds / pace,
                facts={"requests": counts.requests, "hour_before": usual},
            )
        return found


def requests_of_hour_before(end: datetime) -> dict[int, int]:
    """Requests of each endpoint in the hour before a moment (one query)."""
    last = minute_of(end)
    rows = (
        MinuteRollup.objects.filter(minute__gte=last - USUAL_OVER, minute__lt=last)
        .order_by()
        .values("endpoint_id")
        .annotate(n=Sum("requests"))
        .values_list("endpoint_id", "n")
    )
    return {key: int(n) for key, n in rows}
