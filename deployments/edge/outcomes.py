"""Who answered which request, as gateways tell, and what callers say that it led to."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import redis

from console.errors import Invalid
from deployments.adapters import answer_store
from deployments.adapters.answer_store import KeptAnswer
from deployments.adapters.envoy.answers_log import AnswersLog, LoggedAnswer
from deployments.edge.beats import every
from deployments.edge.http import Request, Response, Route, json_response, problem
from deployments.edge.ledger import Ledger, minute_of
from deployments.processes.database import AWAY, DatabaseThread
from deployments.rules.experiments.outcomes import (
    LONGEST_ID,
    Reception,
    ReportedOutcome,
    parse_outcomes,
    receive,
)
from deployments.selectors.experiments.running import RunningExperiment, running_experiments
from deployments.services.experiments.outcomes import (
    KIND,
    AnswerSlot,
    KnownOutcome,
    book_answers,
    record_outcomes,
)

WATCH_S = 1.0
BOOK_S = 2.0
SECOND_LOOK_S = 0.4
"""Gateways tell of an answer a tenth of a second after it; a quick caller may be quicker."""
LARGEST_BODY = 512 * 1024

log = logging.getLogger(__name__)


class Outcomes:
    """The part of the edge that experiments are counted by."""

    name = "outcomes"

    def __init__(self, log_address: str) -> None:
        self._log_address = log_address
        self._experiments: dict[str, RunningExperiment] = {}
        self._ledger: Ledger[AnswerSlot, int] = Ledger(KIND, 0)
        self._database: DatabaseThread | None = None

    @property
    def routes(self) -> Sequence[Route]:
        pattern = re.compile(r"/v1/outcomes")
        return (Route("POST", pattern, self.report, max_body=LARGEST_BODY, at_once=32),)

    async def run(self) -> None:
        """Listen to gateways, know what runs, and book what was answered."""
        database = self._database = DatabaseThread()
        loops = [
            asyncio.create_task(every(WATCH_S, self._watch, self.name)),
            asyncio.create_task(every(BOOK_S, self._book, self.name)),
            asyncio.create_task(AnswersLog(self.hear).serve(self._log_address)),
        ]
        try:
            await asyncio.gather(*loops)
        finally:
            for task in loops:
                task.cancel()
            await asyncio.gather(*loops, return_exceptions=True)
            with suppress(*AWAY):
                await self._ledger.book(database, book_answers)
            self._database = None
            database.close()

    async def hear(self, environment: str, answers: Sequence[LoggedAnswer]) -> None:
        """Keep who answered, and count it; what no experiment is about is left out."""
        kept: dict[int, list[KeptAnswer]] = {}
        for one in answers:
            running = self._experiments.get(one.endpoint)
            if (
                running is None
                or one.version not in (running.baseline, running.candidate)
                or not 0 < len(one.request_id) <= LONGEST_ID
            ):
                continue
            kept.setdefault(running.settings.window_s, []).append(
                KeptAnswer(one.request_id, running.id, one.version, one.at)
            )
        for seconds, some in kept.items():
            try:
                new = await asyncio.to_thread(
                    answer_store.remember, environment, some, seconds=seconds
                )
            except redis.RedisError as error:
                log.warning("%d answers do not count, Redis is away: %s", len(some), error)
                continue
            for answer, is_new in zip(some, new, strict=True):
                if is_new:
                    slot = AnswerSlot(
                        answer.experiment, answer.version, minute_of(answer.answered_at)
                    )
                    self._ledger.add(slot, 1)

    async def report(self, request: Request) -> Response:
        """Take outcomes in; says of each that does not count why."""
        try:
            outcomes = parse_outcomes(request.body)
        except Invalid as error:
            return _refused(error)
        environment = request.headers.get("x-covenant-environment", "")
        try:
            answers = await self._answers(environment, [one.request_id for one in outcomes])
            receptions = await self._record(outcomes, answers)
        except (redis.RedisError, *AWAY) as error:
            log.warning("outcomes cannot be taken: %s", error)
            away = problem(
                503,
                "unavailable",
                "Outcomes cannot be taken now",
                "What is needed to count outcomes is away; none of these was taken.",
                "Send them again in a few seconds: each counts once.",
            )
            return Response(away.status, away.body, {**away.headers, "retry-after": "5"})
        return json_response(_summary(outcomes, receptions), 202)

    async def _answers(self, environment: str, ids: list[str]) -> dict[str, KeptAnswer]:
        found = await asyncio.to_thread(answer_store.recall, environment, ids)
        missing = [one for one in ids if one not in found]
        if missing and self._experiments:
            await asyncio.sleep(SECOND_LOOK_S)
            found |= await asyncio.to_thread(answer_store.recall, environment, missing)
        return found

    async def _record(
        self, outcomes: Sequence[ReportedOutcome], answers: dict[str, KeptAnswer]
    ) -> list[Reception]:
        by_id = await self._known_experiments({one.experiment for one in answers.values()})
        receptions: list[Reception] = []
        known: dict[int, KnownOutcome] = {}
        taken: set[tuple[str, str]] = set()
        for index, one in enumerate(outcomes):
            answer = answers.get(one.request_id)
            if answer is None:
                receptions.append(Reception.UNKNOWN)
                continue
            running = by_id.get(answer.experiment)
            why = receive(
                one,
                wanted=running.settings.outcome if running else None,
                answered_at=answer.answered_at,
                window_s=running.settings.window_s if running else 0,
            )
            key = (answer.experiment, one.request_id)
            if why is None and key in taken:
                why = Reception.DUPLICATE
            receptions.append(why or Reception.ACCEPTED)
            if why is None:
                taken.add(key)
                known[index] = _known(one, answer)
        if known and self._database is not None:
            new = await self._database.run(record_outcomes, list(known.values()))
            for index, outcome in known.items():
                if (outcome.experiment, outcome.request_id) not in new:
                    receptions[index] = Reception.DUPLICATE
        return receptions

    async def _known_experiments(self, ids: set[str]) -> dict[str, RunningExperiment]:
        """Those under way by their id, asked for anew where one of `ids` is not among them."""
        by_id = {one.id: one for one in self._experiments.values()}
        if ids - set(by_id):
            await self._watch()
            by_id = {one.id: one for one in self._experiments.values()}
        return by_id

    async def _watch(self) -> None:
        if self._database is not None:
            found = await self._database.run(running_experiments)
            self._experiments = {one.endpoint: one for one in found}

    async def _book(self) -> None:
        if self._database is not None:
            await self._ledger.book(self._database, book_answers)


def _known(outcome: ReportedOutcome, answer: KeptAnswer) -> KnownOutcome:
    return KnownOutcome(
        answer.experiment,
        outcome.request_id,
        outcome.name,
        answer.version,
        outcome.value,
        datetime.fromtimestamp(answer.answered_at, UTC),
        outcome.at or datetime.now(UTC),
    )


def _summary(
    outcomes: Sequence[ReportedOutcome], receptions: Sequence[Reception]
) -> dict[str, Any]:
    """How many of each kind, and which of them did not count."""
    counts = {kind.value: sum(one is kind for one in receptions) for kind in Reception}
    return {
        **counts,
        "not_counted": [
            {"pointer": f"/{index}", "request_id": outcome.request_id, "reason": kind.value}
            for index, (outcome, kind) in enumerate(zip(outcomes, receptions, strict=True))
            if kind is not Reception.ACCEPTED
        ],
    }


def _refused(error: Invalid) -> Response:
    value = {
        "type": "about:blank",
        "title": "Invalid outcomes",
        "status": error.status,
        "detail": error.message,
        "code": error.code,
        "hint": error.hint,
        "error": error.message,
        "errors": [{"pointer": one.pointer, "detail": one.detail} for one in error.errors],
    }
    return json_response(value, error.status, content_type="application/problem+json")
