"""What an Envoy counted, read from its admin address.

Counters and latencies of each cluster, and what callers got (see `observing.callers_log`).
"""

from __future__ import annotations

import re
import time
from collections import defaultdict
from typing import Any

import httpx

from console.errors import Unavailable
from deployments.adapters.envoy.observing import CALLERS
from deployments.adapters.gateway import Callers, ClusterSample, GatewaySample
from deployments.rules.gateways.snapshots import ClusterKey
from deployments.rules.statistics.answers import Answer
from deployments.rules.statistics.histograms import Histogram, empty
from deployments.rules.statistics.latency_bounds import EDGES_MS, from_bins, upper_edge

COUNTERS = {
    "upstream_rq_completed": "total",
    "upstream_rq_2xx": "ok_2xx",
    "upstream_rq_3xx": "other_3xx",
    "upstream_rq_4xx": "client_4xx",
    "upstream_rq_5xx": "server_5xx",
    "upstream_rq_timeout": "timeout",
    "upstream_cx_none_healthy": "none_healthy",
    "upstream_cx_connect_fail": "connect_fail",
    "upstream_rq_pending_overflow": "overflow",
    "upstream_rq_retry": "retry",
    "upstream_rq_retry_success": "retry_success",
    "retry.upstream_rq_5xx": "retried_5xx",
    "upstream_rq_active": "active",
    "membership_healthy": "healthy",
    "membership_total": "members",
}
"""Envoy's statistic -> its name in a `ClusterSample`; the last three are gauges, not counters."""

GAUGES = frozenset({"active", "healthy", "members"})
LATENCY = "upstream_rq_time"

UPTIME = "server.uptime"
# Envoy runs the filter as RE2 over every statistic that it has, so it is narrow.
_FILTER = (
    rf"^(server\.uptime|{CALLERS}\..+"
    rf"|cluster\.[^.]+/[^.]+\.({'|'.join([*COUNTERS, LATENCY])}))$"
)
_CALLERS = re.compile(
    rf"{CALLERS}\.(?P<environment>[^.]+)\.cluster\.(?P<cluster>[^.]*)\.model\.(?P<model>[^.]+)"
    r"\.version\.(?P<version>\S*)\.status\.(?P<status>\d+)"
)


async def scrape(client: httpx.AsyncClient, admin_url: str, *, gateway: str) -> GatewaySample:
    """Read one Envoy at `admin_url` ("http://host:port").

    Histograms are as of Envoy's last flush (each second), counters as of now. Only clusters of
    ours are given. The client's own time-out holds.

    Raises Unavailable (retryable) when the gateway cannot be reached or says something else.
    """
    query = {"format": "json", "histogram_buckets": "detailed", "filter": _FILTER}
    try:
        reply = await client.get(f"{admin_url}/stats", params=query)
        entries = reply.raise_for_status().json()["stats"]
        (uptime,) = (float(entry["value"]) for entry in entries if entry.get("name") == UPTIME)
    except (httpx.HTTPError, KeyError, TypeError, ValueError) as fault:
        raise Unavailable(
            f"The gateway {gateway} does not give its statistics at {admin_url}: {fault!r}.",
            code="gateway_unreachable",
            hint="Check that the gateway runs and that its admin address is right.",
        ) from fault
    return GatewaySample(
        gateway,
        time.time() - uptime,
        uptime,
        read_clusters(entries),
        read_callers(entries),
    )


def read_clusters(entries: list[dict[str, Any]]) -> dict[str, ClusterSample]:
    """The parts of `/stats?format=json&histogram_buckets=detailed` that are ours, by cluster."""
    counters: dict[str, dict[str, int]] = defaultdict(dict)
    latencies: dict[str, Histogram] = {}
    for entry in entries:
        for histogram in entry.get("histograms", {}).get("details", ()):
            cluster, _ = _split(histogram["name"])
            latencies[cluster] = _histogram(histogram["totals"])
        if entry.get("name", "").startswith("cluster."):
            cluster, statistic = _split(entry["name"])
            counters[cluster][COUNTERS[statistic]] = int(entry["value"])
    return {
        name: ClusterSample(name, counts, latencies.get(name, empty(EDGES_MS)))
        for name, counts in sorted(counters.items())
        if ClusterKey.parse(name) is not None
    }


def read_callers(entries: list[dict[str, Any]]) -> Callers:
    """What callers of each (environment, model) got: counts by the answer's name."""
    found: dict[tuple[str, str], dict[str, int]] = defaultdict(dict)
    for entry in entries:
        if match := _CALLERS.fullmatch(entry.get("name", "")):
            answer = Answer(int(match["status"]), match["cluster"], match["version"])
            found[match["environment"], match["model"]][answer.name] = int(entry["value"])
    return found


def _split(name: str) -> tuple[str, str]:
    cluster, _, statistic = name.removeprefix("cluster.").partition(".")
    return cluster, statistic


def _histogram(bins: list[dict[str, Any]]) -> Histogram:
    return from_bins(
        (upper_edge(float(one["lower_bound"]), float(one["width"])), int(one["count"]))
        for one in bins
    )
