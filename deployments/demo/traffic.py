"""A steady caller for the demo and the benchmarks: one kept connection a thread, paced."""

from __future__ import annotations

import http.client
import json
import random
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit


@dataclass(frozen=True, slots=True)
class Answer:
    """One call: its end (monotonic seconds), status (0: no answer), version, seconds taken."""

    at: float
    status: int
    version: str
    seconds: float


@dataclass(slots=True)
class Tally:
    """What a caller saw over some time."""

    answers: list[Answer] = field(default_factory=list)

    @property
    def failed(self) -> int:
        return sum(a.status != 200 for a in self.answers)

    @property
    def by_version(self) -> Counter[str]:
        return Counter(a.version for a in self.answers if a.status == 200)

    def percentile_ms(self, share: float) -> float:
        """The `share` (0..1) quantile of the durations in milliseconds; 0 without answers."""
        if not self.answers:
            return 0.0
        ordered = sorted(a.seconds for a in self.answers)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] * 1000

    def since(self, moment: float) -> Tally:
        return Tally([a for a in self.answers if a.at >= moment])


class Caller:
    """Calls an endpoint at a steady rate until stopped; never longer than `limit_seconds`.

    Each request is a person of its own (X-User-Id) with ten seeded features in -10..10, or with
    those given.
    """

    def __init__(
        self,
        url: str,
        model: str,
        *,
        rate: float,
        threads: int = 4,
        limit_seconds: float = 120,
        versions: int | None = None,
        features: Sequence[float] = (),
    ) -> None:
        parts = urlsplit(url)
        self._host, self._port = parts.hostname or "127.0.0.1", parts.port or 80
        pin = f"/versions/{versions}" if versions else ""
        self._path = f"/v2/models/{model}{pin}/infer"
        self._interval = threads / rate
        self._features = list(features)
        self._stop = threading.Event()
        self._deadline = time.monotonic() + limit_seconds
        self._lock = threading.Lock()
        self.tally = Tally()
        self._threads = [
            threading.Thread(target=self._run, args=(number,), daemon=True)
            for number in range(threads)
        ]

    def __enter__(self) -> Caller:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(timeout=10)

    def mark(self) -> float:
        """A moment to compare answers against."""
        return time.monotonic()

    def _run(self, number: int) -> None:
        source = random.Random(number)  # noqa: S311 - repeatable traffic, not a secret
        connection = http.client.HTTPConnection(self._host, self._port, timeout=5)
        due = time.monotonic()
        while not self._stop.is_set() and time.monotonic() < self._deadline:
            features = self._features or [round(source.uniform(-10, 10), 3) for _ in range(10)]
            answer = call(connection, self._path, features, user=f"u{source.randrange(10_000)}")
            with self._lock:
                self.tally.answers.append(answer)
            due = max(due + self._interval, time.monotonic() - 1)
            self._stop.wait(max(0.0, due - time.monotonic()))
        connection.close()


def call(
    connection: http.client.HTTPConnection, path: str, features: list[float], *, user: str
) -> Answer:
    """One inference over a kept connection, which is opened anew after an error."""
    body = json.dumps(
        {
            "inputs": [
                {
                    "name": "features",
                    "datatype": "FP32",
                    "shape": [1, len(features)],
                    "data": features,
                }
            ]
        }
    )
    started = time.monotonic()
    try:
        connection.request(
            "POST", path, body, {"Content-Type": "application/json", "X-User-Id": user}
        )
        response = connection.getresponse()
        response.read()
        status, version = response.status, response.getheader("X-Model-Version") or ""
    except (OSError, http.client.HTTPException):
        connection.close()
        status, version = 0, ""
    now = time.monotonic()
    return Answer(at=now, status=status, version=version, seconds=now - started)
