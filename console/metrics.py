"""What `/metrics` tells of this process; each process counts for itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from django.db import DatabaseError
from django.db.models import Count
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Histogram,
    Metric,
    generate_latest,
)
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import REGISTRY, Collector

from console.models import Job, JobState, User

REQUESTS = Counter(
    "covenant_http_requests_total", "Requests answered.", ["method", "view", "status"]
)
DURATION = Histogram(
    "covenant_http_request_duration_seconds",
    "Time until the answer begins.",
    ["method", "view"],
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
)
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


def count_request(request: HttpRequest, response: HttpResponseBase, seconds: float) -> None:
    """Count one answered request under its view's name, so that no address makes a new series."""
    match = request.resolver_match
    view = (match.view_name or match.route) if match else "none"
    method = request.method if request.method in METHODS else "other"
    REQUESTS.labels(method, view, str(response.status_code)).inc()
    DURATION.labels(method, view).observe(seconds)


class JobCollector(Collector):
    """Jobs by kind and state, counted when asked: active ones, and the last day's endings."""

    def collect(self) -> list[GaugeMetricFamily]:
        jobs = GaugeMetricFamily(
            "covenant_jobs", "Jobs that wait or run, by kind and state.", labels=["kind", "state"]
        )
        active = Job.objects.filter(state__in=[JobState.QUEUED, JobState.RUNNING])
        try:
            rows = list(active.values_list("kind", "state").annotate(Count("pk")).order_by())
        except DatabaseError:
            return []
        for kind, state, count in rows:
            jobs.add_metric([kind, state], count)
        return [jobs]

    def describe(self) -> list[GaugeMetricFamily]:
        # Told apart from collecting, so that registering asks no database.
        return []


REGISTRY.register(JobCollector())


Source = Callable[[User], Iterable[Metric]]
"""Metrics that are for readers who say who they are, as far as these may see."""

_sources: list[Source] = []


def add_source(source: Source) -> None:
    """Have `/metrics` tell these, too, where a token is shown."""
    _sources.append(source)


class _Told(Collector):
    def __init__(self, user: User) -> None:
        self._user = user

    def collect(self) -> Iterable[Metric]:
        for source in _sources:
            yield from source(self._user)

    def describe(self) -> list[Metric]:
        return []


def text_for(user: User | None) -> bytes:
    """The text of this process, and what a known reader may see of models and machines."""
    text = bytes(generate_latest())
    if user is None:
        return text
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Told(user))
    return text + bytes(generate_latest(registry))
