"""Clusters in Envoy's words: the hosts of one version, or the gateway itself.

The cluster writes the path that its Triton knows, in an upstream filter, and says in
`X-Model-Version` who answered: whatever route, retry or mirror led to it, both are right.
"""

from __future__ import annotations

import ipaddress
from pathlib import Path

from deployments.adapters.envoy.composite import CONFIG
from deployments.adapters.envoy.requests import LARGEST_BODY
from deployments.adapters.envoy.routes import ANSWERS, JSON, TYPE, VERSION_FILTER
from deployments.rules.gateways.snapshots import EDGE_CLUSTER, Cluster, ClusterKind
from deployments.rules.gateways.state import Target

_VERSION_SCRIPT = Path(__file__).with_name("version.lua").read_text(encoding="utf-8")
TARGET_FILTER = "covenant.target"
TARGET_HEADER = "x-covenant-target"
_MOST_REQUESTS = 2048
_MOST_RETRIES_ONTO_BASELINE = 1024
WHOLE_FILTER = "covenant.whole"
_WHOLE_SCRIPT = "function envoy_on_response(handle) handle:body() end"
_OPTIONS = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"


def cluster_config(cluster: Cluster) -> JSON:
    """The Cluster message, as JSON."""
    if cluster.members:
        return _composite_cluster(cluster)
    if cluster.target is None:
        return _answering_cluster(cluster)
    return _version_cluster(cluster, cluster.target)


def edge_cluster_config(host: str, port: int) -> JSON:
    """The Cluster message of the edge process, as JSON: what cannot be had fails at once."""
    address = {"socket_address": {"address": host, "port_value": port}}
    return {
        "name": EDGE_CLUSTER,
        "type": "STATIC" if _is_ip(host) else "STRICT_DNS",
        "connect_timeout": "0.1s",
        "load_assignment": _assignment(EDGE_CLUSTER, [address]),
        "circuit_breakers": _limits(),
        "common_lb_config": {"healthy_panic_threshold": {"value": 0}},
        "health_checks": [
            {
                "timeout": "1s",
                "interval": "1s",
                "no_traffic_interval": "1s",
                "no_traffic_healthy_interval": "1s",
                "unhealthy_threshold": 2,
                "healthy_threshold": 1,
                "http_health_check": {"path": "/healthz", "host": "covenant"},
            }
        ],
        "typed_extension_protocol_options": _options([]),
    }


def lua_filter(name: str, script: str) -> JSON:
    """An HTTP filter that runs one script."""
    return {
        "name": name,
        "typed_config": {
            "@type": f"{TYPE}.extensions.filters.http.lua.v3.Lua",
            "default_source_code": {"inline_string": script},
        },
    }


def _version_cluster(cluster: Cluster, target: Target) -> JSON:
    path = f"/v2/models/{target.triton_model}/versions/{target.triton_version}"
    is_candidate = cluster.key.kind is ClusterKind.CANDIDATE
    facts = {"path": path, "version": str(cluster.key.version)}
    addresses = [(node.host, node.http_port) for node in target.nodes]
    numeric = all(_is_ip(host) for host, _ in addresses)
    sockets = [
        {"socket_address": {"address": host, "port_value": port}} for host, port in addresses
    ]
    return {
        "name": cluster.name,
        "type": "STATIC" if numeric else "STRICT_DNS",
        "connect_timeout": "0.25s",
        "lb_policy": "LEAST_REQUEST",
        "load_assignment": _assignment(cluster.name, sockets, facts),
        "circuit_breakers": _limits(cluster.most_requests),
        # Without it Envoy would go on sending to hosts that it knows to be dead. A candidate whose
        # every host is dead has to fail, so that it is seen; the baseline answers.
        "common_lb_config": {"healthy_panic_threshold": {"value": 1 if is_candidate else 0}},
        # Fast enough that a node that died drops out in two seconds; Triton answers this cheaply.
        "health_checks": [
            {
                "timeout": "1s",
                "interval": "1s",
                "no_traffic_interval": "1s",
                "no_traffic_healthy_interval": "1s",
                "unhealthy_threshold": 2,
                "healthy_threshold": 1,
                "http_health_check": {"path": f"{path}/ready", "host": "covenant"},
            }
        ],
        "outlier_detection": _outliers(),
        "typed_extension_protocol_options": _options(_version_filters()),
    }


def _version_filters() -> list[JSON]:
    return [_target_filter(), lua_filter(VERSION_FILTER, _VERSION_SCRIPT)]


def _target_filter() -> JSON:
    """Says to the script after it, and to the caller, whose host was chosen.

    A composite cluster has filters of its own only, and an attempt does not tell which member
    took it (one without hosts is passed over), so each host brings its version's facts.
    """
    return {
        "name": TARGET_FILTER,
        "typed_config": {
            "@type": f"{TYPE}.extensions.filters.http.header_mutation.v3.HeaderMutation",
            "mutations": {
                "request_mutations": [_from_host(TARGET_HEADER, "path")],
                "response_mutations": [_from_host("x-model-version", "version")],
            },
        },
    }


def _from_host(header: str, fact: str) -> JSON:
    value = f"%UPSTREAM_METADATA({VERSION_FILTER}:{fact})%"
    return {
        "append": {
            "header": {"key": header, "value": value},
            "append_action": "OVERWRITE_IF_EXISTS_OR_ADD",
        }
    }


def _composite_cluster(cluster: Cluster) -> JSON:
    """First attempt: the first member; second attempt: the second. Counted as one cluster."""
    members = [{"name": name} for name in cluster.members]
    return {
        "name": cluster.name,
        "connect_timeout": "0.25s",
        "lb_policy": "CLUSTER_PROVIDED",
        "cluster_type": {
            "name": "envoy.clusters.composite",
            "typed_config": {"@type": f"type.googleapis.com/{CONFIG}", "clusters": members},
        },
        "circuit_breakers": _limits(most_retries=_MOST_RETRIES_ONTO_BASELINE),
        "typed_extension_protocol_options": _options(_version_filters()),
    }


def _answering_cluster(cluster: Cluster) -> JSON:
    inner = {"envoy_internal_address": {"server_listener_name": ANSWERS}}
    if cluster.edge:
        return _ruled_cluster(cluster.name, cluster.edge, inner)
    return {
        "name": cluster.name,
        "type": "STATIC",
        "connect_timeout": "0.25s",
        "load_assignment": _assignment(cluster.name, [inner]),
        "circuit_breakers": _limits(),
        "per_connection_buffer_limit_bytes": LARGEST_BODY,
        "typed_extension_protocol_options": _options([]),
    }


def _ruled_cluster(name: str, edge: tuple[str, int], inner: JSON) -> JSON:
    """The edge first, and the gateway's own answer where the edge has none.

    There is no health check: each contract with rules would add one each second. An edge that does
    not answer five requests is left out for a while, and these five are answered all the same.
    """
    host, port = edge
    first = {"socket_address": {"address": host, "port_value": port}}
    assignment = _assignment(name, [first, inner])
    hosts = assignment["endpoints"][0]["lb_endpoints"]
    assignment["endpoints"] = [
        {"priority": priority, "lb_endpoints": [one]} for priority, one in enumerate(hosts)
    ]
    limits = {
        "max_connections": 512,
        "max_pending_requests": 4096,
        "max_requests": 4096,
        # As many as there are requests: none may fail because others are tried again.
        "max_retries": 4096,
    }
    return {
        "name": name,
        # A name could not stand in one group with the inner listener.
        "type": "STATIC",
        "connect_timeout": "0.05s",
        "load_assignment": assignment,
        "circuit_breakers": {"thresholds": [limits]},
        "per_connection_buffer_limit_bytes": LARGEST_BODY,
        "common_lb_config": {"healthy_panic_threshold": {"value": 0}},
        "outlier_detection": {
            **_outliers(),
            "interval": "0.5s",
            # Not longer each time: one that is back is asked again at once.
            "base_ejection_time": "2s",
            "max_ejection_time": "2s",
            # A process that hangs still takes connections, which would count as a success of its.
            "split_external_local_origin_errors": False,
        },
        # An answer that breaks off after its head is none yet, and the next is asked.
        "typed_extension_protocol_options": _options([lua_filter(WHOLE_FILTER, _WHOLE_SCRIPT)]),
    }


def _outliers() -> JSON:
    """Nodes that cannot be reached, or from which nothing comes back (502, 503, 504), are left out.

    A 500 leaves nobody out: it may be about one request alone. At most half of the nodes go, so
    that one slow node alone is not turned into none.
    """
    return {
        "interval": "1s",
        "base_ejection_time": "5s",
        "max_ejection_percent": 50,
        "split_external_local_origin_errors": True,
        "consecutive_gateway_failure": 5,
        "enforcing_consecutive_gateway_failure": 100,
        "consecutive_local_origin_failure": 5,
        "enforcing_consecutive_5xx": 0,
        "enforcing_success_rate": 0,
        "enforcing_local_origin_success_rate": 0,
        "enforcing_failure_percentage": 0,
        "enforcing_failure_percentage_local_origin": 0,
    }


def _limits(most_requests: int | None = None, most_retries: int = 16) -> JSON:
    """Requests at one time to one version; what is beyond is refused with 503 `overloaded`.

    Where a policy sets a limit, connections are not what runs out: a request that waits for one
    is not refused, only made slow.
    """
    connections = max(most_requests or 0, 512)
    return {
        "thresholds": [
            {
                "max_connections": connections,
                "max_pending_requests": connections,
                "max_requests": most_requests or _MOST_REQUESTS,
                "max_retries": most_retries,
            }
        ]
    }


def _assignment(name: str, addresses: list[JSON], facts: dict[str, str] | None = None) -> JSON:
    known = {"metadata": {"filter_metadata": {VERSION_FILTER: facts}}} if facts else {}
    hosts = [{"endpoint": {"address": address}, **known} for address in addresses]
    return {"cluster_name": name, "endpoints": [{"lb_endpoints": hosts}]}


def _options(filters: list[JSON]) -> JSON:
    codec = {
        "name": "envoy.filters.http.upstream_codec",
        "typed_config": {
            "@type": f"{TYPE}.extensions.filters.http.upstream_codec.v3.UpstreamCodec"
        },
    }
    return {
        _OPTIONS: {
            "@type": f"{TYPE}.{_OPTIONS.removeprefix('envoy.')}",
            "explicit_http_config": {"http_protocol_options": {}},
            "common_http_protocol_options": {"idle_timeout": "30s"},
            "http_filters": [*filters, codec],
        }
    }


def _is_ip(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
