"""Typed reads as the JSON that the API answers."""

from __future__ import annotations

from typing import Any

from deployments.models import Endpoint, EndpointMode, TrafficSplit
from deployments.selectors.statistics.live_numbers import LiveNumbers, VersionNumbers
from deployments.selectors.traffic.acknowledgements import GatewayWord, gateway_words
from deployments.selectors.traffic.endpoint_types import EndpointRow
from deployments.selectors.traffic.endpoints import split_view


def split_answer(
    split: TrafficSplit | None, words: list[GatewayWord] | None = None
) -> dict[str, Any]:
    """A split with what each gateway said; percent are whole numbers where they are whole."""
    if split is None:
        return {
            "revision": 0,
            "mode": EndpointMode.NORMAL,
            "weights": {},
            "state": "",
            "cause": "",
            "author": "",
            "reason": "",
            "created_at": None,
            "applied_at": None,
            "sticky_header": "x-user-id",
            "header_rules": [],
            "testers": [],
            "moved": 0,
            "mirror": None,
            "job": None,
            "acknowledgements": [],
        }
    view = split_view(split)
    said = gateway_words(split) if words is None else words
    return {
        "revision": view.revision,
        "mode": view.mode,
        "weights": percents(view.weights),
        "state": view.state,
        "cause": view.cause,
        "author": view.author,
        "reason": view.reason,
        "created_at": view.created_at,
        "applied_at": view.applied_at,
        "sticky_header": view.sticky_header,
        "header_rules": view.header_rules,
        "testers": view.testers,
        "moved": view.moved,
        "mirror": view.mirror,
        "job": split.job_id,
        "acknowledgements": [word.to_json() for word in said],
    }


def endpoint_answer(row: EndpointRow, live: LiveNumbers | None) -> dict[str, Any]:
    """An endpoint as it stands in a list."""
    return {
        "environment": row.environment,
        "model": row.model,
        "mode": row.mode,
        "split": {
            "revision": row.revision,
            "weights": percents(row.weights),
            "state": row.split_state,
        },
        "ready_versions": row.ready_versions,
        "live": live_answer(live),
        "limit_ms": row.limit_ms,
        "promise": row.promise,
        "budget_left": row.budget_left,
    }


def live_answer(live: LiveNumbers | None) -> dict[str, Any] | None:
    """Live numbers with when they were measured; None when nobody has looked lately."""
    if live is None:
        return None
    return {
        "at": live.at,
        **_numbers(live),
        "versions": {str(number): _numbers(one) for number, one in live.versions.items()},
    }


def percents(weights: dict[int, float]) -> dict[str, float]:
    """Weights for JSON: 95 rather than 95.0."""
    return {
        str(number): int(percent) if percent == int(percent) else percent
        for number, percent in weights.items()
    }


def etag_of(endpoint: Endpoint) -> str:
    """The entity tag of an endpoint's split: its revision."""
    return f'"{endpoint.current.revision if endpoint.current else 0}"'


def _numbers(one: VersionNumbers) -> dict[str, Any]:
    share = one.provider_share
    return {
        "requests_per_second": one.requests_per_second,
        "errors_per_second": (None if share is None else round(one.requests_per_second * share, 3)),
        "provider_share": share,
        "caller_share": one.caller_share,
        "p50_ms": one.p50_ms,
        "p95_ms": one.p95_ms,
        "p99_ms": one.p99_ms,
        "queue_ms": one.queue_ms,
        "compute_ms": one.compute_ms,
        "batch_size": one.batch_size,
    }
