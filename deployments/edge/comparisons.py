"""Copies of requests come in; both versions answer them here, and what differs is kept.

The copy is taken at once and worked on behind it: neither the gateway nor the edge's answers to
callers wait. What there is no room for is dropped, and the share that is looked at is smaller.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Sequence
from contextlib import suppress

import httpx
import redis

from deployments.adapters import comparison_store
from deployments.adapters.envoy.observing import SAMPLE_HEADER
from deployments.edge.asking import LENGTH_HEADER, ask
from deployments.edge.beats import every
from deployments.edge.http import Request, Response, Route
from deployments.edge.ledger import Ledger, minute_of
from deployments.edge.model_telemetry import ModelTelemetry
from deployments.processes.database import AWAY, DatabaseThread
from deployments.rules.experiments.comparison_figures import Figures
from deployments.rules.experiments.comparison_windows import to_point
from deployments.rules.experiments.comparisons import compare
from deployments.rules.experiments.token_buckets import TokenBucket
from deployments.rules.experiments.v2_answers import UnreadableAnswer, wanted_outputs
from deployments.selectors.experiments.sampled_endpoints import SampledEndpoint, sampled_endpoints
from deployments.services.experiments.comparisons import KIND, Slot, book_comparisons

LARGEST_SAMPLE = 1024 * 1024
A_SECOND = 20
"""Samples of one endpoint that are worked on each second."""
AT_ONCE = 16
WATCH_S = 1.0
TELL_S = 1.0
BOOK_S = 5.0

log = logging.getLogger(__name__)

Point = tuple[str, int, int, int]
"""Endpoint, baseline, candidate, and the second."""


class Comparisons:
    """The part of the edge that compares versions."""

    name = "comparisons"

    def __init__(self, telemetry: ModelTelemetry | None = None) -> None:
        self._telemetry = telemetry
        self._endpoints: dict[str, SampledEndpoint] = {}
        self._rates: dict[str, TokenBucket] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._points: dict[Point, Figures] = {}
        self._ledger: Ledger[Slot, Figures] = Ledger(KIND, Figures())
        self._client: httpx.AsyncClient | None = None

    @property
    def routes(self) -> Sequence[Route]:
        pattern = re.compile(r"/v2/models/[^/]+/infer")
        return (
            Route(
                "POST",
                pattern,
                self.take,
                max_body=LARGEST_SAMPLE,
                at_once=64,
                header=SAMPLE_HEADER,
            ),
        )

    async def run(self) -> None:
        """Keep in mind what is compared, and write down what was found."""
        database = DatabaseThread()
        async with httpx.AsyncClient(trust_env=False) as client:
            self._client = client
            loops = [
                asyncio.create_task(every(WATCH_S, lambda: self._watch(database), self.name)),
                asyncio.create_task(every(TELL_S, self._tell, self.name)),
                asyncio.create_task(every(BOOK_S, lambda: self._book(database), self.name)),
            ]
            try:
                await asyncio.gather(*loops)
            finally:
                for task in [*loops, *self._tasks]:
                    task.cancel()
                await asyncio.gather(*loops, *self._tasks, return_exceptions=True)
                self._client = None
                with suppress(*AWAY):
                    await self._book(database)
                database.close()

    async def take(self, request: Request) -> Response:
        """Accept a copy, or say that there is no room for it."""
        key = request.headers.get(SAMPLE_HEADER, "")
        endpoint = self._endpoints.get(key)
        measured = None
        if self._telemetry is not None:
            measured = self._telemetry.take(key, request, compared=endpoint is not None)
        if endpoint is None or self._client is None:
            return Response(measured or 404)
        rate = self._rates.setdefault(key, TokenBucket(A_SECOND))
        if len(self._tasks) >= AT_ONCE or not rate.take(time.monotonic()):
            return Response(429)
        task = asyncio.create_task(self._compare(self._client, endpoint, request))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return Response(202)

    async def _compare(
        self, client: httpx.AsyncClient, endpoint: SampledEndpoint, request: Request
    ) -> None:
        said = request.headers.get(LENGTH_HEADER, "")
        described = int(said) if said.isdecimal() else None
        try:
            wanted = wanted_outputs(request.body, described)
        except UnreadableAnswer:
            return
        sides = await asyncio.gather(
            ask(client, endpoint.baseline_urls, request, endpoint.timeout_s),
            ask(client, endpoint.candidate_urls, request, endpoint.timeout_s),
        )
        if self._telemetry is not None:
            numbers = (endpoint.baseline, endpoint.candidate)
            key = f"{endpoint.environment}/{endpoint.model}"
            self._telemetry.answered(key, dict(zip(numbers, sides, strict=True)))
        rules = [one for one in endpoint.outputs if not wanted or one.name in wanted]
        figures = await asyncio.to_thread(compare, *sides, rules, endpoint.tolerance)
        self._keep(endpoint, figures)

    def _keep(self, endpoint: SampledEndpoint, figures: Figures) -> None:
        now = int(time.time())
        pair = (endpoint.baseline, endpoint.candidate)
        point = (f"{endpoint.environment}/{endpoint.model}", *pair, now)
        self._points[point] = self._points.get(point, Figures()) + figures
        slot = Slot(endpoint.environment, endpoint.model, *pair, minute_of(now))
        self._ledger.add(slot, figures)

    async def _watch(self, database: DatabaseThread) -> None:
        self._endpoints = await database.run(sampled_endpoints)

    async def _tell(self) -> None:
        """Hand on the seconds so far; a second that goes on comes as several points."""
        if not self._points:
            return
        found, self._points = self._points, {}
        rings: dict[str, list[dict[str, object]]] = {}
        for (key, baseline, candidate, at), one in found.items():
            rings.setdefault(key, []).append(to_point(at, baseline, candidate, one))
        try:
            await asyncio.to_thread(comparison_store.store, rings)
        except redis.RedisError as error:
            log.warning("compared answers are not kept live, Redis is away: %s", error)

    async def _book(self, database: DatabaseThread) -> None:
        await self._ledger.book(database, book_comparisons)
