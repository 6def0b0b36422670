"""Drift of what callers send, and how undecided their answers are, measured by sampled requests.

It takes the same copies of requests as the comparison of versions. Inputs are held against what
each version was trained on; where no two versions are compared, one of those that serve is asked
again, each in its turn. All of it happens behind the copy, within bounds, and drops what is beyond.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import httpx
import numpy as np
import redis

from console.errors import CovenantError
from deployments.adapters import telemetry_store
from deployments.edge.asking import LENGTH_HEADER, ask
from deployments.edge.beats import every
from deployments.edge.http import Request, Route
from deployments.processes.database import DatabaseThread
from deployments.rules.experiments.comparisons import Answered
from deployments.rules.experiments.token_buckets import TokenBucket
from deployments.rules.experiments.v2_answers import (
    UnreadableAnswer,
    Values,
    parse_inputs,
    wanted_outputs,
)
from deployments.rules.statistics.measurements import Point
from deployments.rules.telemetry import measuring
from deployments.rules.telemetry.entropy import row_entropies
from deployments.rules.telemetry.measured import (
    Measured,
    drift_document,
    drift_points,
    entropy_points,
    measure_drift,
)
from deployments.rules.telemetry.windows import Window
from deployments.selectors.telemetry.measured_endpoints import (
    MeasuredEndpoint,
    MeasuredVersion,
    TrainedOn,
    measured_endpoints,
)
from deployments.services.statistics.measurements import record
from deployments.services.telemetry.trained_on import Training, load_training
from models_registry.rules.feature_values import Column, columns_of

INPUTS_A_SECOND = 10
ASKED_A_SECOND = 3
AT_ONCE = 16
WATCH_S = 5.0
MEASURE_S = 15.0
EACH_FEATURE_S = 60.0
"""The greatest drift is written at each measurement, that of each feature less often."""
MOST_TRAININGS = 400

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Seen:
    """What was seen of one endpoint: its inputs, and the entropy of each version's outputs."""

    inputs: Window = field(default_factory=lambda: Window(measuring.MOST_ROWS, measuring.OLDEST_S))
    outputs: dict[tuple[int, str], Window] = field(default_factory=dict)
    rate: TokenBucket = field(default_factory=lambda: TokenBucket(INPUTS_A_SECOND))
    asked: TokenBucket = field(default_factory=lambda: TokenBucket(ASKED_A_SECOND))
    turn: int = 0
    fresh: bool = False
    features_at: float = -EACH_FEATURE_S


class ModelTelemetry:
    """The part of the edge that measures models by what callers send and get."""

    name = "model telemetry"
    routes: Sequence[Route] = ()

    def __init__(self, measure_s: float = MEASURE_S) -> None:
        self._measure_s = measure_s
        self._endpoints: dict[str, MeasuredEndpoint] = {}
        self._seen: dict[str, _Seen] = {}
        self._training: dict[TrainedOn, Training | None] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._client: httpx.AsyncClient | None = None

    async def run(self) -> None:
        """Keep in mind what is measured, and write down what was found."""
        database = DatabaseThread()
        async with httpx.AsyncClient(trust_env=False) as client:
            self._client = client
            loops = [
                asyncio.create_task(every(WATCH_S, lambda: self._watch(database), self.name)),
                asyncio.create_task(
                    every(self._measure_s, lambda: self._measure(database), self.name)
                ),
            ]
            try:
                await asyncio.gather(*loops)
            finally:
                for task in [*loops, *self._tasks]:
                    task.cancel()
                await asyncio.gather(*loops, *self._tasks, return_exceptions=True)
                self._client = None
                database.close()

    def take(self, key: str, request: Request, *, compared: bool) -> int | None:
        """Take a copy of a request; gives an HTTP status, or None where nothing is measured.

        `compared`: two versions are asked anyway, and their answers come by `answered`.
        """
        endpoint = self._endpoints.get(key)
        if endpoint is None or self._client is None:
            return None
        seen = self._seen.setdefault(key, _Seen())
        if len(self._tasks) >= AT_ONCE or not seen.rate.take(time.monotonic()):
            return 429
        version = None
        if not compared and endpoint.probabilities and seen.asked.take(time.monotonic()):
            seen.turn += 1
            version = endpoint.versions[seen.turn % len(endpoint.versions)]
        self._start(self._look(self._client, endpoint, seen, request, version))
        return 202

    def answered(self, key: str, answers: Mapping[int, Answered]) -> None:
        """What versions answered to a copy, by their numbers."""
        endpoint, seen = self._endpoints.get(key), self._seen.get(key)
        if endpoint is None or seen is None:
            return
        for version in endpoint.versions:
            if (answer := answers.get(version.number)) is not None:
                _keep_answer(endpoint, seen, version, answer)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _look(
        self,
        client: httpx.AsyncClient,
        endpoint: MeasuredEndpoint,
        seen: _Seen,
        request: Request,
        version: MeasuredVersion | None,
    ) -> None:
        batched = endpoint.versions[0].batched
        try:
            columns, names_outputs = await asyncio.to_thread(_read, request, batched)
        except UnreadableAnswer:
            return
        seen.inputs.add(columns, time.monotonic())
        seen.fresh = True
        if version is not None and not names_outputs:
            answer = await ask(client, version.urls, request, endpoint.timeout_s)
            _keep_answer(endpoint, seen, version, answer)

    async def _watch(self, database: DatabaseThread) -> None:
        found = await database.run(measured_endpoints)
        wanted = {
            version.trained_on
            for endpoint in found.values()
            for version in endpoint.versions
            if version.trained_on is not None
        }
        for where in sorted(wanted - set(self._training), key=repr)[:MOST_TRAININGS]:
            try:
                self._training[where] = await database.run(load_training, where)
            except CovenantError as error:
                log.error("a training sample cannot be read: %s", error.message)
                self._training[where] = None
        self._training = {key: one for key, one in self._training.items() if key in wanted}
        self._endpoints = found
        self._seen = {key: seen for key, seen in self._seen.items() if key in found}

    async def _measure(self, database: DatabaseThread) -> None:
        points: list[Point] = []
        documents: dict[str, dict[str, object]] = {}
        for key, seen in list(self._seen.items()):
            endpoint = self._endpoints.get(key)
            if endpoint is None or not seen.fresh:
                continue
            seen.fresh = False
            found = await asyncio.to_thread(self._measured, endpoint, seen)
            now = datetime.now(UTC)
            each = time.monotonic() - seen.features_at >= EACH_FEATURE_S
            if found and each:
                seen.features_at = time.monotonic()
            points += drift_points(endpoint.endpoint_id, found, now, each_feature=each)
            points += entropy_points(endpoint.endpoint_id, _entropies(seen), now)
            documents[key] = drift_document(
                found, now, rows=seen.inputs.rows(time.monotonic()), without=self._without(endpoint)
            )
        if points:
            await database.run(record, points)
        if documents:
            with suppress(redis.RedisError):
                await asyncio.to_thread(telemetry_store.store, documents)

    def _measured(self, endpoint: MeasuredEndpoint, seen: _Seen) -> list[Measured]:
        now = time.monotonic()
        if seen.inputs.rows(now) < measuring.FEWEST_ROWS:
            return []
        columns = seen.inputs.columns(now)
        found = []
        for version in endpoint.versions:
            training = self._training.get(version.trained_on) if version.trained_on else None
            if training is not None:
                found.append(measure_drift(version.number, training.features, columns))
        return found

    def _without(self, endpoint: MeasuredEndpoint) -> list[int]:
        """Versions that nothing is held against: no training sample is known of them."""
        return [
            version.number
            for version in endpoint.versions
            if version.trained_on is None or self._training.get(version.trained_on) is None
        ]


def _read(request: Request, batched: bool) -> tuple[dict[str, Column], bool]:
    """A request's rows as columns, and whether it asks for some outputs alone."""
    said = request.headers.get(LENGTH_HEADER, "")
    described = int(said) if said.isdecimal() else None
    named = bool(wanted_outputs(request.body, described))
    inputs: dict[str, Values] = {
        name: one.values for name, one in parse_inputs(request.body, described).items()
    }
    return columns_of(inputs, batched=batched), named


def _keep_answer(
    endpoint: MeasuredEndpoint, seen: _Seen, version: MeasuredVersion, answer: Answered
) -> None:
    for name, output in answer.outputs.items():
        found = row_entropies(
            output.values, batched=version.batched, is_probability=name in endpoint.probabilities
        )
        if found is None:
            continue
        window = seen.outputs.setdefault(
            (version.number, name), Window(measuring.MOST_ANSWERS, measuring.OLDEST_ANSWER_S)
        )
        window.add({name: Column("number", found)}, time.monotonic())


def _entropies(seen: _Seen) -> dict[tuple[int, str], float]:
    """Each version's output → the mean entropy of its newest rows, where there are enough."""
    now = time.monotonic()
    return {
        slot: float(np.mean(window.columns(now)[slot[1]].values))
        for slot, window in seen.outputs.items()
        if window.rows(now) >= measuring.FEWEST_ANSWERS
    }
