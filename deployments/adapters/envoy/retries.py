"""When a request is tried again, and where: an inference may not be run twice unasked."""

from __future__ import annotations

from typing import Any

from deployments.rules.gateways.snapshots import EndpointRoutes

JSON = dict[str, Any]

_PREVIOUS_HOSTS = (
    "type.googleapis.com/envoy.extensions.retry.host.previous_hosts.v3.PreviousHostsPredicate"
)
_NEVER_RUN = "connect-failure,refused-stream,reset-before-request"
_ANY_FAILURE = f"{_NEVER_RUN},reset,5xx"


def retry_policy() -> JSON:
    """Of every route that says nothing else: only what certainly never reached a model."""
    return {"retry_on": _NEVER_RUN, **_elsewhere(2)}


def retries_of(endpoint: EndpointRoutes) -> JSON:
    """Of an endpoint whose contract says that a request may be run twice: after any failure.

    An attempt gets half of the time, so that the second one has as much.
    """
    if not endpoint.idempotent:
        return {}
    half = f"{endpoint.timeout_ms / 2000:.4f}s"
    return {"retry_policy": {"retry_on": _ANY_FAILURE, "per_try_timeout": half, **_elsewhere(2)}}


def asks_the_baseline() -> JSON:
    """Of a cluster that asks the baseline when a candidate fails: once, whatever the failure.

    A retry policy belongs to a route, and this is one of several clusters of a route; so it is
    said by headers, which the cluster's own filter takes away.
    """
    return {
        "request_headers_to_add": [
            _header("x-envoy-retry-on", _ANY_FAILURE),
            _header("x-envoy-max-retries", "1"),
        ]
    }


def _header(name: str, value: str) -> JSON:
    return {
        "header": {"key": name, "value": value},
        "append_action": "OVERWRITE_IF_EXISTS_OR_ADD",
    }


def _elsewhere(most: int) -> JSON:
    return {
        "num_retries": most,
        "retry_back_off": {"base_interval": "0.005s", "max_interval": "0.025s"},
        "retry_host_predicate": [
            {
                "name": "envoy.retry_host_predicates.previous_hosts",
                "typed_config": {"@type": _PREVIOUS_HOSTS},
            }
        ],
        "host_selection_retry_max_attempts": 3,
    }
