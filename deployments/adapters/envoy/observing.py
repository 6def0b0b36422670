"""What Envoy tells the edge beside its answers: copies of requests, and who answered which id.

Neither may cost a caller anything: a copy that the edge has no room for is dropped, and the log of
answers is sent behind them. Both have clusters of their own, so that the edge's answers to callers
never wait for them.
"""

from __future__ import annotations

import ipaddress
from typing import Any

from deployments.rules.gateways.snapshots import EDGE_CLUSTER, SAMPLES_CLUSTER, EndpointRoutes

JSON = dict[str, Any]

TYPE = "type.googleapis.com/envoy"
ANSWERS_LOG_CLUSTER = "covenant_answers_log"
SAMPLE_HEADER = "x-covenant-sample"
ENVIRONMENT_HEADER = "x-covenant-environment"
EXPERIMENT_HEADER = "x-covenant-experiment"
"""Names the endpoint in whose experiment the answer to a request counts."""
AT_ONCE = 64
"""Copies under way at one time from one gateway; what is beyond is dropped by it."""
CALLERS = "covenant_callers"
"""Prefix of the counters of what callers got."""
_METADATA = "covenant"
LOG_EVERY = "0.100s"
LOG_BYTES = 65536
_OPTIONS = "extensions.upstreams.http.v3.HttpProtocolOptions"


def observing_clusters(host: str, port: int) -> list[JSON]:
    """Cluster messages for copies of requests (the edge's HTTP port) and the log of answers.

    The log goes by gRPC to the port after it.
    """
    http1: JSON = {"http_protocol_options": {}}
    http2: JSON = {"http2_protocol_options": {}}
    return [
        _cluster(SAMPLES_CLUSTER, host, port, http1),
        _cluster(ANSWERS_LOG_CLUSTER, host, port + 1, http2),
    ]


def sample_policies(endpoint: EndpointRoutes) -> list[JSON]:
    """The mirror policy that copies a share of an endpoint's requests to the edge."""
    if endpoint.sampled is None:
        return []
    name, basis_points = endpoint.sampled
    mark = {
        "header": {"key": SAMPLE_HEADER, "value": name},
        "append_action": "OVERWRITE_IF_EXISTS_OR_ADD",
    }
    share = {"numerator": basis_points, "denominator": "TEN_THOUSAND"}
    return [
        {
            "cluster": SAMPLES_CLUSTER,
            "runtime_fraction": {"default_value": share},
            "request_headers_mutations": [{"append": mark}],
        }
    ]


def experiment_headers(endpoint: EndpointRoutes) -> JSON:
    """What marks the requests of an endpoint whose answers are to be told to the edge."""
    if endpoint.experiment is None:
        return {}
    mark = {
        "header": {"key": EXPERIMENT_HEADER, "value": endpoint.experiment},
        "append_action": "OVERWRITE_IF_EXISTS_OR_ADD",
    }
    return {"request_headers_to_add": [mark]}


def outcomes_route(environment: str) -> JSON:
    """The route by which callers report what an answer led to."""
    said = {
        "header": {"key": ENVIRONMENT_HEADER, "value": environment},
        "append_action": "OVERWRITE_IF_EXISTS_OR_ADD",
    }
    return {
        "match": {"path": "/v1/outcomes"},
        "route": {"cluster": EDGE_CLUSTER, "timeout": "5s"},
        "request_headers_to_add": [said],
    }


def without_callers_marks() -> JSON:
    """Takes our own marks off every request that comes in: nobody counts himself in.

    Before routes are looked at, since what a virtual host removes is removed after its routes'
    own additions.
    """
    return {
        "name": "envoy.http.early_header_mutation.header_mutation",
        "typed_config": {
            "@type": f"{TYPE}.extensions.http.early_header_mutation.header_mutation.v3"
            ".HeaderMutation",
            "mutations": [{"remove": SAMPLE_HEADER}, {"remove": EXPERIMENT_HEADER}],
        },
    }


def answers_log(environment: str) -> JSON:
    """The access log that tells the edge who answered, of marked requests alone."""
    return {
        "name": "envoy.access_loggers.http_grpc",
        "filter": {"header_filter": {"header": {"name": EXPERIMENT_HEADER, "present_match": True}}},
        "typed_config": {
            "@type": f"{TYPE}.extensions.access_loggers.grpc.v3.HttpGrpcAccessLogConfig",
            "common_config": {
                "log_name": environment,
                "transport_api_version": "V3",
                "grpc_service": {
                    "envoy_grpc": {"cluster_name": ANSWERS_LOG_CLUSTER},
                    "timeout": "1s",
                },
                "buffer_flush_interval": LOG_EVERY,
                "buffer_size_bytes": LOG_BYTES,
            },
            "additional_request_headers_to_log": [EXPERIMENT_HEADER],
            "additional_response_headers_to_log": ["x-model-version"],
        },
    }


def callers_log(environment: str) -> JSON:
    """Counts each request as its caller saw it end: by cluster, model, version and status.

    The clusters' own counters know nothing of what no cluster was asked for (refusals), nor of
    callers who left before an answer came (status 0). Every value of a tag is ours or a number, so
    there are no more counters than answers that differ.
    """
    tags = {
        "cluster": "%UPSTREAM_CLUSTER%",
        "model": f"%METADATA(ROUTE:{_METADATA}:model)%",
        "version": "%RESP(X-MODEL-VERSION)%",
        "status": "%RESPONSE_CODE%",
    }
    counted = {
        "name": environment,
        "tags": [{"name": name, "value_format": value} for name, value in tags.items()],
    }
    return {
        "name": "envoy.access_loggers.stats",
        "typed_config": {
            "@type": f"{TYPE}.extensions.access_loggers.stats.v3.Config",
            "stat_prefix": CALLERS,
            "counters": [{"stat": counted, "value_fixed": 1}],
        },
    }


def _cluster(name: str, host: str, port: int, protocol: JSON) -> JSON:
    address = {"socket_address": {"address": host, "port_value": port}}
    return {
        "name": name,
        "type": "STATIC" if _is_ip(host) else "STRICT_DNS",
        "connect_timeout": "0.25s",
        "load_assignment": {
            "cluster_name": name,
            "endpoints": [{"lb_endpoints": [{"endpoint": {"address": address}}]}],
        },
        "circuit_breakers": {
            "thresholds": [
                {
                    "max_connections": AT_ONCE,
                    "max_pending_requests": AT_ONCE,
                    "max_requests": AT_ONCE,
                    "max_retries": 0,
                }
            ]
        },
        "typed_extension_protocol_options": {
            f"envoy.{_OPTIONS}": {
                "@type": f"{TYPE}.{_OPTIONS}",
                "explicit_http_config": protocol,
                "common_http_protocol_options": {"idle_timeout": "30s"},
            }
        },
    }


def _is_ip(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
