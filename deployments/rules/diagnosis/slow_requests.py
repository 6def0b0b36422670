"""Which requests were slow, and in which stage of their way their time went.

From the gateway's access log, whose lines tell how long each stage of one request took
(deployments.adapters.envoy.listeners). Percentiles are exact: of the requests themselves, by the
nearest-rank method, so that "P99.9" names a request that really was.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

RECEIVE, WAIT, SEND, QUEUE, COMPUTE, MODEL, ANSWER, REST = (
    "receive",
    "wait",
    "send",
    "queue",
    "compute",
    "model",
    "answer",
    "rest",
)
STAGES: Final = (RECEIVE, WAIT, SEND, QUEUE, COMPUTE, MODEL, ANSWER, REST)
"""In the order of the way. `model` is what of the model's time nobody can split further."""

PERCENTILES: Final = (50.0, 95.0, 99.0, 99.9)
MOST_WORST: Final = 100
ABSENT: Final = ("", "-", None)
"""Compared, not looked up: a line of somebody else's making may hold lists."""


@dataclass(frozen=True, slots=True)
class LoggedRequest:
    """One request as the gateway logged it; times in milliseconds. `version` 0: none answered."""

    at: datetime
    request_id: str
    environment: str
    model: str
    version: int
    status: int
    flags: str
    caller: str
    upstream: str
    attempts: int
    refused: str
    bytes_received: int
    bytes_sent: int
    total_ms: float
    receive_ms: float
    wait_ms: float
    send_ms: float
    model_ms: float
    answer_ms: float

    @property
    def rest_ms(self) -> float:
        """What no stage explains."""
        told = self.receive_ms + self.wait_ms + self.send_ms + self.model_ms + self.answer_ms
        return max(0.0, self.total_ms - told)


@dataclass(frozen=True, slots=True)
class ModelTime:
    """How Triton's time for a version was split at some moment: means in milliseconds."""

    queue_ms: float
    compute_ms: float


@dataclass(frozen=True, slots=True)
class Slow:
    """One slow request with its stages; they add up to its total."""

    request: LoggedRequest
    stages: dict[str, float]
    main: str


@dataclass(frozen=True, slots=True)
class Percentile:
    """The request at one percentile, and how those at or above it spent their time.

    `slower` of them took `slower_ms` on average; `stages` add up to that, not to `value_ms`, and
    `share` is the main stage's of it.
    """

    percent: float
    value_ms: float
    slower: int
    slower_ms: float
    stages: dict[str, float]
    main: str
    share: float


@dataclass(frozen=True, slots=True)
class SlowReport:
    """What was found in a span: percentiles explained, the worst requests, who sent them."""

    requests: int
    percentiles: tuple[Percentile, ...]
    worst: tuple[Slow, ...]
    stages: dict[str, float]
    by_status: dict[int, int]
    by_version: dict[int, int]
    by_upstream: dict[str, int]
    by_caller: dict[str, int]


def parse(line: Mapping[str, Any]) -> LoggedRequest | None:
    """A line of the access log, None for one that is no request to a model."""
    model, raw = line.get("model"), line.get("time")
    if model in ABSENT or not isinstance(raw, str):
        return None
    try:
        at = datetime.fromisoformat(raw)
    except ValueError:
        return None
    receive = _ms(line, "receive_us")
    until = _ms(line, "until_upstream_us")
    return LoggedRequest(
        at=at,
        request_id=_word(line, "x_request_id"),
        environment=_word(line, "environment"),
        model=str(model),
        version=int(_number(line, "model_version")),
        status=int(_number(line, "status")),
        flags=_word(line, "flags"),
        caller=_word(line, "caller"),
        upstream=_word(line, "upstream"),
        attempts=int(_number(line, "attempts")),
        refused=_word(line, "refused"),
        bytes_received=int(_number(line, "bytes_received")),
        bytes_sent=int(_number(line, "bytes_sent")),
        total_ms=_total(line),
        # The body is read while the gateway already works: what of it came later is sending.
        receive_ms=min(receive, until) if until else receive,
        wait_ms=max(0.0, until - receive),
        send_ms=_ms(line, "send_us"),
        model_ms=_ms(line, "model_us"),
        answer_ms=_ms(line, "answer_us"),
    )


def stages_of(request: LoggedRequest, model_time: ModelTime | None) -> dict[str, float]:
    """The request's time by stage, in milliseconds.

    `model_time` is what Triton measured around that moment on average. It splits the model's time
    as far as it reaches: a request that took longer than the mean waited, by all that is known, in
    the queue of the version's instances.
    """
    found = {
        RECEIVE: request.receive_ms,
        WAIT: request.wait_ms,
        SEND: request.send_ms,
        ANSWER: request.answer_ms,
        REST: request.rest_ms,
    }
    if model_time is None:
        found[MODEL] = request.model_ms
        return found
    compute = min(model_time.compute_ms, request.model_ms)
    queue = min(model_time.queue_ms, request.model_ms - compute)
    found[COMPUTE], found[QUEUE] = compute, queue
    found[MODEL] = request.model_ms - compute - queue
    return found


def report(
    requests: Iterable[LoggedRequest],
    model_times: Mapping[tuple[int, datetime], ModelTime],
    *,
    most: int = MOST_WORST,
) -> SlowReport:
    """What the requests of a span say.

    `model_times` are by version and minute. The stages of a percentile are the means of the
    requests at or above it: of P99.9 that is the slowest thousandth and no fewer than one.
    """
    ordered = sorted(requests, key=lambda one: one.total_ms)
    split = [stages_of(one, model_times.get(_key(one))) for one in ordered]
    percentiles = tuple(_percentile(percent, ordered, split) for percent in PERCENTILES if ordered)
    worst = tuple(
        Slow(one, stages, _main(stages))
        for one, stages in list(zip(ordered, split, strict=True))[: -most - 1 : -1]
    )
    return SlowReport(
        requests=len(ordered),
        percentiles=percentiles,
        worst=worst,
        stages=_means(split),
        by_status=_counted(one.request.status for one in worst),
        by_version=_counted(one.request.version for one in worst),
        by_upstream=_counted(one.request.upstream for one in worst),
        by_caller=_counted(one.request.caller for one in worst),
    )


def nearest_rank(percent: float, count: int) -> int:
    """The index of a percentile in `count` ordered values (nearest rank, one request at least)."""
    return min(count - 1, max(0, math.ceil(round(percent * count / 100, 6)) - 1))


def _percentile(
    percent: float, ordered: Sequence[LoggedRequest], split: Sequence[Mapping[str, float]]
) -> Percentile:
    index = nearest_rank(percent, len(ordered))
    stages = _means(split[index:])
    total = sum(stages.values())
    main = _main(stages)
    share = stages[main] / total if total else 0.0
    return Percentile(
        percent, ordered[index].total_ms, len(ordered) - index, total, stages, main, share
    )


def _means(split: Sequence[Mapping[str, float]]) -> dict[str, float]:
    if not split:
        return {}
    return {
        name: sum(one.get(name, 0.0) for one in split) / len(split)
        for name in STAGES
        if any(name in one for one in split)
    }


def _main(stages: Mapping[str, float]) -> str:
    return max(stages, key=lambda name: stages[name], default=REST)


def _key(request: LoggedRequest) -> tuple[int, datetime]:
    return request.version, request.at.replace(second=0, microsecond=0)


def _counted(values: Iterable[Any]) -> dict[Any, int]:
    return dict(Counter(value for value in values if value).most_common(10))


def _total(line: Mapping[str, Any]) -> float:
    """The gateway's own total, to the microsecond where its stages tell it."""
    whole = _number(line, "duration_ms")
    names = ("until_upstream_us", "send_us", "model_us", "answer_us")
    if all(name in line and line[name] not in ABSENT for name in names):
        told = sum(_ms(line, name) for name in names)
        if abs(told - whole) <= 2:
            return told
        # Stages follow one another: together they took no less than what they were.
        return max(whole, told)
    return whole


def _ms(line: Mapping[str, Any], name: str) -> float:
    return max(0.0, _number(line, name) / 1000)


def _number(line: Mapping[str, Any], name: str) -> float:
    value = line.get(name)
    if isinstance(value, bool) or value in ABSENT:
        return 0.0
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return 0.0
    return number if math.isfinite(number) else 0.0


def _word(line: Mapping[str, Any], name: str) -> str:
    value = line.get(name)
    return "" if value in ABSENT else str(value)[:200]
