"""Drift, entropy and business figures of a model, measured where it is called, sent to Covenant.

    from covenant_telemetry import Telemetry

    with Telemetry("https://covenant.example.com", token, environment="production",
                   model="fraud_detector", version=3) as telemetry:
        telemetry.drift(training_rows, rows_of_the_last_hour, names=["amount", "age"])
        telemetry.entropy(probabilities)
        telemetry.rate("conversion_rate", successes=31, trials=412)

It speaks OTLP over HTTP, needs numpy alone, and is one file: install it from the clone
(`pip install ./clients/python`) or copy it. Nothing is sent before `send` or the end of the block,
and a console that cannot be reached never raises there: it is said in what `send` gives.
"""

from __future__ import annotations

import gzip
import json
import math
import os
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

MOST_POINTS = 5000
"""Points that wait to be sent; the oldest go first when more are added."""
TRIES = 3
_PSI_BINS = 10
_HALF = 0.5
_DELTA = 1
_AGAIN = frozenset({429, 502, 503, 504})

Array = Any


@dataclass(frozen=True)
class Drift:
    """How far one feature is from training.

    `score` is the two-sample Kolmogorov-Smirnov statistic, 0 to 1; chance alone exceeds
    `by_chance` in 1 of 20 cases. `psi` is the population stability index over ten bins of equal
    share in training: from 0.1 on a shift, from 0.25 on a large one.
    """

    score: float
    psi: float
    by_chance: float


@dataclass(frozen=True)
class Sent:
    """What became of a sending: `ok`, how many points, how many were refused, and why."""

    ok: bool
    points: int = 0
    rejected: int = 0
    message: str = ""


def ks_statistic(training: Array, now: Array) -> float:
    """The two-sample Kolmogorov-Smirnov statistic; a value that is NaN stands above all others."""
    one, other = _ordered(training), _ordered(now)
    both = np.concatenate([one, other])
    below_one = np.searchsorted(one, both, side="right") / len(one)
    below_other = np.searchsorted(other, both, side="right") / len(other)
    return float(np.abs(below_one - below_other).max())


def population_stability_index(training: Array, now: Array) -> float:
    """The PSI over ten bins of equal share in training, and one for what is above all of it.

    Each bin counts half an observation more than it has, so that an empty one is not infinite.
    """
    one, other = _ordered(training), _ordered(now)
    finite = one[np.isfinite(one)]
    edges = np.zeros(0)
    if len(finite):
        places = [max(-(-len(finite) * tenth // _PSI_BINS) - 1, 0) for tenth in range(1, 11)]
        edges = np.unique(finite[places])
    before, after = _counted(one, edges), _counted(other, edges)
    expected = (before + _HALF) / (before.sum() + _HALF * len(before))
    actual = (after + _HALF) / (after.sum() + _HALF * len(after))
    return float(((actual - expected) * np.log(actual / expected)).sum())


def feature_drift(
    training: Array, now: Array, names: Sequence[str] | None = None
) -> dict[str, Drift]:
    """The drift of each column of two tables of numbers (rows × features), by its name.

    Without `names` they are `0`, `1` … Raises ValueError when the tables have other columns.
    """
    one, other = (np.asarray(table, np.float64) for table in (training, now))
    if not one.size or not other.size:
        raise ValueError("a table has no rows")
    one, other = (table.reshape(len(table), -1) for table in (one, other))
    if one.shape[1] != other.shape[1]:
        raise ValueError(f"training has {one.shape[1]} columns, and now there are {other.shape[1]}")
    labels = list(names) if names is not None else [str(n) for n in range(one.shape[1])]
    if len(labels) != one.shape[1]:
        raise ValueError(f"{len(labels)} names for {one.shape[1]} columns")
    rows, more = len(one), len(other)
    chance = math.sqrt(-math.log(0.025) / 2) * math.sqrt((rows + more) / (rows * more))
    return {
        label: Drift(
            ks_statistic(one[:, place], other[:, place]),
            population_stability_index(one[:, place], other[:, place]),
            min(chance, 1.0),
        )
        for place, label in enumerate(labels)
    }


def output_entropy(probabilities: Array) -> float:
    """The mean entropy of rows of probabilities, 0 (certain) to 1 (as undecided as can be).

    One column is the chance of a yes; several that sum up to 1 are the classes of a distribution,
    and others chances of their own. Raises ValueError for what is no probability.
    """
    table = np.asarray(probabilities, np.float64)
    if not table.size:
        raise ValueError("these are no probabilities")
    table = table.reshape(len(table), -1) if table.ndim else table.reshape(1, 1)
    if not np.isfinite(table).all() or table.min() < 0 or table.max() > 1.001:
        raise ValueError("these are no probabilities")
    width = table.shape[1]
    if width > 1 and (np.abs(table.sum(axis=1) - 1) <= 1e-3).all():
        return float((_terms(table).sum(axis=1) / np.log(width)).mean())
    chances = np.clip(table, 0, 1)
    return float(((_terms(chances) + _terms(1 - chances)) / np.log(2)).mean())


@dataclass
class Telemetry:
    """Gathers figures of one endpoint's model and sends them.

    `url` is the console's address, `token` one that may write. `version` 0 stands for the endpoint
    as a whole. Not for use by several threads at one time.
    """

    url: str
    token: str
    environment: str
    model: str
    version: int = 0
    timeout_s: float = 5.0
    resource: Mapping[str, str] = field(default_factory=dict)
    _points: list[dict[str, Any]] = field(default_factory=list)
    _last_ns: int = 0
    dropped: int = 0

    def __post_init__(self) -> None:
        if not self.url.startswith(("http://", "https://")):
            raise ValueError(f"{self.url!r} is no address of a console")

    def gauge(self, name: str, value: float, *, unit: str = "", **labels: str) -> None:
        """A value of now."""
        self._add(name, unit, "gauge", {"asDouble": float(value)}, labels)

    def count(self, name: str, by: float = 1, *, unit: str = "", **labels: str) -> None:
        """So many more of something; the series is called `name` with `_total`."""
        if by < 0:
            raise ValueError("a count never falls")
        self._add(name, unit, "sum", {"asDouble": float(by)}, labels)

    def rate(
        self, name: str, *, successes: float, trials: int, unit: str = "", **labels: str
    ) -> None:
        """A share, 0 to 1, as `conversion_rate`: those of several senders add up rightly."""
        if not 0 <= successes <= trials:
            raise ValueError("there are more successes than trials, or fewer than none")
        if trials:
            numbers = {"count": str(int(trials)), "sum": float(successes), "min": 0.0, "max": 1.0}
            self._add(name, unit, "histogram", numbers, labels)

    def drift(
        self, training: Array, now: Array, names: Sequence[str] | None = None
    ) -> dict[str, Drift]:
        """Measure `feature_drift_score` and `feature_psi` of each feature, and the greatest."""
        found = feature_drift(training, now, names)
        for label, one in found.items():
            self.gauge("feature_drift_score", one.score, feature=label)
            self.gauge("feature_psi", one.psi, feature=label)
        self.gauge("feature_drift_score", max(one.score for one in found.values()))
        self.gauge("feature_psi", max(one.psi for one in found.values()))
        return found

    def entropy(self, probabilities: Array) -> float:
        """Measure `model_output_entropy`."""
        value = output_entropy(probabilities)
        self.gauge("model_output_entropy", value)
        return value

    def send(self) -> Sent:
        """Send what was gathered. Never raises: what was not sent waits for the next time."""
        if not self._points:
            return Sent(True)
        points = list(self._points)
        body = gzip.compress(json.dumps(self._request(points)).encode())
        found = Sent(False)
        for attempt in range(TRIES):
            if attempt:
                time.sleep(0.2 * 2**attempt)
            found, again = self._post(body, len(points))
            if not again:
                # Taken, or refused for good: sending it once more would change nothing.
                self._points = self._points[len(points) :]
                break
        return found

    def __enter__(self) -> Telemetry:
        return self

    def __exit__(self, *_: object) -> None:
        self.send()

    def _add(
        self,
        name: str,
        unit: str,
        kind: str,
        numbers: Mapping[str, Any],
        labels: Mapping[str, str],
    ) -> None:
        # Each point has a moment of its own: by it Covenant knows one that is sent twice.
        now = max(time.time_ns(), self._last_ns + 1)
        self._last_ns = now
        point = {
            **numbers,
            "timeUnixNano": str(now),
            "startTimeUnixNano": str(now - 1),
            "attributes": _attributes(labels),
        }
        data: dict[str, Any] = {"dataPoints": [point]}
        if kind != "gauge":
            data["aggregationTemporality"] = _DELTA
        if kind == "sum":
            data["isMonotonic"] = True
        self._points.append({"name": name, "unit": unit, kind: data})
        if len(self._points) > MOST_POINTS:
            self.dropped += len(self._points) - MOST_POINTS
            del self._points[:-MOST_POINTS]

    def _request(self, points: list[dict[str, Any]]) -> dict[str, Any]:
        named = {
            "service.name": self.model,
            "service.instance.id": f"{socket.gethostname()}:{os.getpid()}:{id(self)}",
            **self.resource,
            "covenant.environment": self.environment,
            "covenant.model": self.model,
            "covenant.version": str(self.version),
        }
        scope = {"scope": {"name": "covenant_telemetry"}, "metrics": points}
        resource = {"attributes": _attributes(named)}
        return {"resourceMetrics": [{"resource": resource, "scopeMetrics": [scope]}]}

    def _post(self, body: bytes, points: int) -> tuple[Sent, bool]:
        """What came of it, and whether it should be tried again."""
        request = urllib.request.Request(  # noqa: S310 - the scheme is checked at the beginning
            f"{self.url.rstrip('/')}/otlp/v1/metrics",
            data=body,
            headers={
                "Authorization": f"Token {self.token}",
                "Content-Type": "application/json",
                "Content-Encoding": "gzip",
            },
        )
        try:
            with urllib.request.urlopen(request, timeout=self.timeout_s) as answer:  # noqa: S310
                partial = json.loads(answer.read() or b"{}").get("partialSuccess", {})
        except urllib.error.HTTPError as error:
            words = error.read(2000).decode("utf-8", "replace")
            return Sent(False, points, points, f"{error.code}: {words}"), error.code in _AGAIN
        except (OSError, ValueError) as error:
            return Sent(False, points, 0, f"not reached: {error}"), True
        rejected = int(partial.get("rejectedDataPoints", 0))
        return Sent(True, points - rejected, rejected, partial.get("errorMessage", "")), False


def _attributes(values: Mapping[str, str]) -> list[dict[str, Any]]:
    return [{"key": key, "value": {"stringValue": str(text)}} for key, text in values.items()]


def _ordered(values: Array) -> Array:
    given = np.asarray(values, np.float64).reshape(-1)
    return np.sort(np.where(np.isnan(given), np.inf, given))


def _counted(ordered: Array, edges: Array) -> Array:
    below = np.searchsorted(ordered, edges, side="right")
    return np.diff(np.concatenate([[0], below, [len(ordered)]])).astype(np.float64)


def _terms(shares: Array) -> Array:
    return -shares * np.log(np.where(shares > 0, shares, 1))
