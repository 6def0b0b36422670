"""Answers by a contract's rules while no model may: the rows of each request, one after another.

Whatever cannot be answered here in time, or at all, is answered with 501: the gateway then gives
the contract's fixed response itself, as it does when this process is away.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import redis

from deployments.adapters import rule_store
from deployments.adapters.notifications import notifications
from deployments.edge.http import Request, Response, Route
from deployments.processes.database import AWAY, DatabaseThread, connection_parameters
from deployments.rules.fallback.rule_answers import ServedRules, plain_answer, v2_answer
from deployments.rules.fallback.rule_requests import (
    RuleRequest,
    UnreadableRequest,
    read_v1,
    read_v2,
)
from deployments.selectors.fallback.rules import Key, rules_in_force
from deployments.services.gateways.desired import CHANNEL
from models_registry.rules.fallback_rules import FIXED, Decision

ANSWER_HEADER = "x-covenant-answer"
SAMPLE_HEADER = "x-covenant-sample"
LENGTH_HEADER = "inference-header-content-length"
LARGEST_REQUEST = 8 * 1024 * 1024
POLL_S = 2.0
TELL_S = 1.0
BUDGET_S = 0.12
"""Longest time for the rows of one request; the gateway waits a little longer."""
SLOW_S = 0.05
"""A rule that takes longer for one row is set aside until its contract changes."""
AT_ONCE_HERE = 64
"""So many judgements of short rows are made between two other things; more go to a thread."""
SHORT_BODY = 64 * 1024

log = logging.getLogger(__name__)


class Rules:
    """The part of the edge that answers by rules."""

    name = "rules"

    def __init__(self) -> None:
        self._known: dict[Key, ServedRules] = {}
        self._served: dict[str, ServedRules] = {}
        self._counts: Counter[tuple[str, str, str]] = Counter()
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="rules")
        self._wake = asyncio.Event()

    @property
    def routes(self) -> Sequence[Route]:
        pattern = re.compile(r"/v[12]/models/.*")
        return (
            Route("POST", pattern, self.answer, timeout_s=0.2, at_once=512, header=ANSWER_HEADER),
        )

    async def run(self) -> None:
        """Keep the rules fresh, and tell which of them answered."""
        database = DatabaseThread()
        loops = [
            asyncio.create_task(self._listen()),
            asyncio.create_task(self._refresh(database)),
            asyncio.create_task(self._tell()),
        ]
        try:
            await asyncio.gather(*loops)
        finally:
            for task in loops:
                task.cancel()
            await asyncio.gather(*loops, return_exceptions=True)
            database.close()

    async def answer(self, request: Request) -> Response:
        """The rules' answer to a request of the v2 protocol, or in plain JSON."""
        endpoint, _, kind = request.headers[ANSWER_HEADER].rpartition("/")
        served = self._served.get(endpoint.rpartition("/")[2])
        is_copy = SAMPLE_HEADER in request.headers
        if served is None or kind != "fallback" or is_copy or len(request.body) > LARGEST_REQUEST:
            return Response(501)
        try:
            asked, decided = await self._decided(served, request)
        except (UnreadableRequest, TimeoutError):
            return Response(501)
        self._count(endpoint, served, decided)
        return _response(served, request, asked, decided)

    async def _decided(
        self, served: ServedRules, request: Request
    ) -> tuple[RuleRequest, list[Decision]]:
        """What takes long is done in a thread: neither a health check nor another request waits."""
        loop = asyncio.get_running_loop()
        if len(request.body) > SHORT_BODY:
            asked = await loop.run_in_executor(self._threads, _read, served, request)
        else:
            asked = _read(served, request)
            if len(asked.rows) * len(served.rules.names) <= AT_ONCE_HERE:
                return asked, _decide(served, asked)
        return asked, await loop.run_in_executor(self._threads, _decide, served, asked)

    def _count(self, endpoint: str, served: ServedRules, decided: Sequence[Decision]) -> None:
        names = served.rules.names
        for decision in decided:
            name = rule_store.FIXED if decision.rule == FIXED else names[decision.rule]
            self._counts[endpoint, "answered", name] += 1
            for rule in decision.unjudged:
                self._counts[endpoint, "unjudged", names[rule]] += 1

    async def _listen(self) -> None:
        async for _ in notifications(connection_parameters(), CHANNEL):
            self._wake.set()

    async def _refresh(self, database: DatabaseThread) -> None:
        while True:
            try:
                self._known = await database.run(rules_in_force, self._known)
                self._served = {model: served for (model, _), served in self._known.items()}
            except AWAY as error:
                log.warning("the rules stay as they are, the database is away: %s", error)
            self._wake.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), POLL_S)

    async def _tell(self) -> None:
        while True:
            await asyncio.sleep(TELL_S)
            if not self._counts:
                continue
            counts, self._counts = self._counts, Counter()
            try:
                await asyncio.to_thread(rule_store.add, counts)
            except redis.RedisError as error:
                log.warning("answers by rules are not counted, Redis is away: %s", error)


def _read(served: ServedRules, request: Request) -> RuleRequest:
    if request.path.startswith("/v1/"):
        return read_v1(request.body, served.rules.inputs)
    said = request.headers.get(LENGTH_HEADER, "")
    described = int(said) if said.isdecimal() else None
    return read_v2(request.body, described, served.rules.inputs, served.rules.read)


def _decide(served: ServedRules, asked: RuleRequest) -> list[Decision]:
    """Raises TimeoutError when the rows take longer than may be."""
    rules = served.rules
    begun = before = time.perf_counter()
    decided = []
    for row in asked.rows:
        decided.append(rules.decide(row))
        now = time.perf_counter()
        if now - before > SLOW_S:
            _set_aside(served, row)
        if now - begun > BUDGET_S:
            raise TimeoutError
        before = now
    return decided


def _set_aside(served: ServedRules, row: dict[str, object]) -> None:
    """Find which rule took so long for a row; a machine that is only busy is not its fault."""
    for index, condition in enumerate(served.rules.conditions):
        begun = time.thread_time()
        condition.holds(row)
        if time.thread_time() - begun > SLOW_S and index not in served.rules.set_aside:
            served.rules.set_aside.add(index)
            log.error(
                "rule %s of %s takes too long for a row: set aside until the contract changes",
                served.rules.names[index],
                served.model,
            )


def _response(
    served: ServedRules, request: Request, asked: RuleRequest, decided: Sequence[Decision]
) -> Response:
    who = [decision.rule for decision in decided]
    fixed = served.answers[FIXED].reason.encode("ascii", "replace").decode().replace("\n", " ")
    headers = {
        "content-type": "application/json",
        "x-covenant-fallback": "rules" if any(rule != FIXED for rule in who) else fixed,
        "x-model-version": "fallback",
    }
    is_plain = request.path.startswith("/v1/") or "format=plain" in request.headers.get(
        "accept", ""
    )
    body = plain_answer(served, who) if is_plain else v2_answer(served, who, asked.id)
    return Response(200, body, headers)
