"""A snapshot in Envoy's words: Listener, RouteConfiguration and Cluster messages for xDS.

One cluster for each (environment, model, version). The cluster itself writes the path its Triton
knows, in an upstream filter, and says in `X-Model-Version` who answered: whatever route, retry or
mirror led to it, the path and the header are right.
"""

from __future__ import annotations

import hashlib
import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from envoy.config.cluster.v3 import cluster_pb2
from envoy.config.listener.v3 import listener_pb2
from envoy.config.route.v3 import route_components_pb2, route_pb2

# Messages that travel inside Any fields: importing them registers their types.
from envoy.extensions.access_loggers.file.v3 import file_pb2 as _file_log
from envoy.extensions.filters.http.lua.v3 import lua_pb2 as _lua
from envoy.extensions.filters.http.router.v3 import router_pb2 as _router
from envoy.extensions.filters.http.upstream_codec.v3 import upstream_codec_pb2 as _codec
from envoy.extensions.filters.network.http_connection_manager.v3 import (
    http_connection_manager_pb2 as _manager,
)
from envoy.extensions.request_id.uuid.v3 import uuid_pb2 as _uuid
from envoy.extensions.retry.host.previous_hosts.v3 import previous_hosts_pb2 as _previous
from envoy.extensions.upstreams.http.v3 import http_protocol_options_pb2 as _options
from google.protobuf import any_pb2
from google.protobuf.json_format import ParseDict
from google.protobuf.message import Message

from deployments.adapters.envoy.routes import (
    ANSWERS,
    ANSWERS_FILTER,
    JSON,
    METADATA,
    TYPE,
    answer_routes,
    answers_frame,
    endpoint_routes,
    table_frame,
    table_name,
    unknown_route,
)
from deployments.rules.snapshots import (
    Cluster,
    EndpointRoutes,
    Listener,
    RouteTable,
    Snapshot,
    Target,
)

REGISTERED = (_file_log, _lua, _router, _codec, _manager, _uuid, _previous, _options)

_ANSWERS_SCRIPT = Path(__file__).with_name("answers.lua").read_text(encoding="utf-8")
_LARGEST_BODY = 64 * 1024 * 1024

_PATH_SCRIPT = """
function envoy_on_request(handle)
  local headers = handle:headers()
  local path = headers:get(":path"):match("^[^?]*")
  local tail = path:match("^/v2/models/[^/]+(/%a+)$")
    or path:match("^/v2/models/[^/]+/versions/%d+(/%a+)$") or ""
  headers:replace(":path", "{path}" .. tail)
end
function envoy_on_response(handle)
  handle:headers():replace("x-model-version", "{version}")
end
"""


@dataclass(frozen=True, slots=True)
class Resource:
    """One xDS resource as it is sent; `needs` are the clusters it refers to."""

    name: str
    digest: str
    body: any_pb2.Any
    needs: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ResourceSet:
    """All resources of one snapshot, by name."""

    clusters: Mapping[str, Resource]
    listeners: Mapping[str, Resource]
    routes: Mapping[str, Resource]


def build(snapshot: Snapshot) -> ResourceSet:
    """The snapshot's resources; what did not change since an earlier call comes from a cache."""
    clusters = [_cluster_resource(cluster) for cluster in snapshot.clusters]
    listeners = [_listener_resource(listener) for listener in snapshot.listeners]
    routes = [_table_resource(table) for table in snapshot.route_tables]
    listeners.append(_pack(ANSWERS, _answers_listener(), listener_pb2.Listener()))
    routes.append(_answers_resource(snapshot.route_tables))
    return ResourceSet(
        clusters={resource.name: resource for resource in clusters},
        listeners={resource.name: resource for resource in listeners},
        routes={resource.name: resource for resource in routes},
    )


@lru_cache(maxsize=8192)
def _cluster_resource(cluster: Cluster) -> Resource:
    plain = (
        _version_cluster(cluster, cluster.target) if cluster.target else _answer_cluster(cluster)
    )
    return _pack(cluster.name, plain, cluster_pb2.Cluster())


@lru_cache(maxsize=256)
def _listener_resource(listener: Listener) -> Resource:
    return _pack(table_name(listener.environment), _listener(listener), listener_pb2.Listener())


@lru_cache(maxsize=64)
def _table_resource(table: RouteTable) -> Resource:
    needs = frozenset[str]().union(*(endpoint.destinations() for endpoint in table.endpoints))
    message = ParseDict(table_frame(table.environment), route_pb2.RouteConfiguration())
    for endpoint in table.endpoints:
        message.virtual_hosts[0].routes.extend(_endpoint_messages(endpoint))
    last = ParseDict(unknown_route(table.environment), route_components_pb2.Route())
    message.virtual_hosts[0].routes.append(last)
    return _resource(table_name(table.environment), message, needs)


@lru_cache(maxsize=64)
def _answers_resource(tables: tuple[RouteTable, ...]) -> Resource:
    message = ParseDict(answers_frame(), route_pb2.RouteConfiguration())
    for table in tables:
        for endpoint in table.endpoints:
            answers = _answer_messages(table.environment, endpoint)
            message.virtual_hosts[0].routes.extend(answers)
    return _resource(ANSWERS, message)


# One endpoint changes at a time; reading the JSON of all the others again would take longest.
@lru_cache(maxsize=8192)
def _endpoint_messages(endpoint: EndpointRoutes) -> tuple[Message, ...]:
    routes = endpoint_routes(endpoint)
    return tuple(ParseDict(route, route_components_pb2.Route()) for route in routes)


@lru_cache(maxsize=8192)
def _answer_messages(environment: str, endpoint: EndpointRoutes) -> tuple[Message, ...]:
    routes = answer_routes(environment, endpoint)
    return tuple(ParseDict(route, route_components_pb2.Route()) for route in routes)


def _pack(name: str, plain: JSON, message: Message) -> Resource:
    return _resource(name, ParseDict(plain, message))


def _resource(name: str, message: Message, needs: frozenset[str] = frozenset()) -> Resource:
    body = any_pb2.Any()
    body.Pack(message, deterministic=True)
    return Resource(name, hashlib.sha256(body.value).hexdigest()[:16], body, needs)


def _version_cluster(cluster: Cluster, target: Target) -> JSON:
    path = f"/v2/models/{target.triton_model}/versions/{target.triton_version}"
    script = _PATH_SCRIPT.replace("{path}", path).replace("{version}", str(cluster.key.version))
    addresses = [(node.host, node.http_port) for node in target.nodes]
    return {
        **_cluster_base(cluster.name, addresses),
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
        # Triton answers 500 to a caller's malformed JSON, so a 500 ejects nobody. What counts is
        # that a node cannot be reached, or that nothing came back (502, 503, 504).
        "outlier_detection": {
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
        },
        "typed_extension_protocol_options": _http_options([_lua_filter("covenant.path", script)]),
    }


def _answer_cluster(cluster: Cluster) -> JSON:
    return {
        "name": cluster.name,
        "type": "STATIC",
        "connect_timeout": "0.25s",
        "load_assignment": _assignment(
            cluster.name, [{"envoy_internal_address": {"server_listener_name": ANSWERS}}]
        ),
        "circuit_breakers": _limits(),
        "per_connection_buffer_limit_bytes": _LARGEST_BODY,
        "typed_extension_protocol_options": _http_options([]),
    }


def _cluster_base(name: str, addresses: list[tuple[str, int]]) -> JSON:
    numeric = all(_is_ip(host) for host, _ in addresses)
    sockets = [
        {"socket_address": {"address": host, "port_value": port}} for host, port in addresses
    ]
    return {
        "name": name,
        "type": "STATIC" if numeric else "STRICT_DNS",
        "connect_timeout": "0.25s",
        "lb_policy": "LEAST_REQUEST",
        "load_assignment": _assignment(name, sockets),
        "circuit_breakers": _limits(),
        # Without it Envoy would go on sending to hosts that it knows to be dead.
        "common_lb_config": {"healthy_panic_threshold": {"value": 0}},
    }


def _assignment(name: str, addresses: list[JSON]) -> JSON:
    hosts = [{"endpoint": {"address": address}} for address in addresses]
    return {"cluster_name": name, "endpoints": [{"lb_endpoints": hosts}]}


def _limits() -> JSON:
    return {
        "thresholds": [
            {
                "max_connections": 512,
                "max_pending_requests": 512,
                "max_requests": 2048,
                "max_retries": 16,
            }
        ]
    }


def _http_options(filters: list[JSON]) -> JSON:
    name = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
    codec = {
        "name": "envoy.filters.http.upstream_codec",
        "typed_config": {
            "@type": f"{TYPE}.extensions.filters.http.upstream_codec.v3.UpstreamCodec"
        },
    }
    return {
        name: {
            "@type": f"{TYPE}.{name.removeprefix('envoy.')}",
            "explicit_http_config": {"http_protocol_options": {}},
            "common_http_protocol_options": {"idle_timeout": "30s"},
            "http_filters": [*filters, codec],
        }
    }


def _lua_filter(name: str, script: str) -> JSON:
    return {
        "name": name,
        "typed_config": {
            "@type": f"{TYPE}.extensions.filters.http.lua.v3.Lua",
            "default_source_code": {"inline_string": script},
        },
    }


def _router_filter() -> JSON:
    return {
        "name": "envoy.filters.http.router",
        "typed_config": {
            "@type": f"{TYPE}.extensions.filters.http.router.v3.Router",
            "suppress_envoy_headers": True,
        },
    }


def _manager_filter(prefix: str, table: str, filters: list[JSON], **options: Any) -> JSON:
    return {
        "name": "envoy.filters.network.http_connection_manager",
        "typed_config": {
            "@type": f"{TYPE}.extensions.filters.network.http_connection_manager.v3"
            ".HttpConnectionManager",
            "stat_prefix": prefix,
            "rds": {
                "route_config_name": table,
                "config_source": {"ads": {}, "resource_api_version": "V3"},
            },
            "http_filters": [*filters, _router_filter()],
            "preserve_external_request_id": True,
            **options,
        },
    }


def _listener(listener: Listener) -> JSON:
    name = table_name(listener.environment)
    manager = _manager_filter(
        f"environment_{listener.environment}",
        name,
        [],
        always_set_request_id_in_response=True,
        request_id_extension={
            "typed_config": {
                "@type": f"{TYPE}.extensions.request_id.uuid.v3.UuidRequestIdConfig",
                # Otherwise Envoy writes a digit of its own into the caller's UUID.
                "pack_trace_reason": False,
            }
        },
        use_remote_address=True,
        # Nobody is internal: callers may not steer time-outs and retries by x-envoy-* headers.
        internal_address_config={
            "cidr_ranges": [{"address_prefix": "255.255.255.255", "prefix_len": 32}]
        },
        server_name="covenant",
        normalize_path=True,
        merge_slashes=True,
        path_with_escaped_slashes_action="REJECT_REQUEST",
        request_headers_timeout="10s",
        stream_idle_timeout="60s",
        common_http_protocol_options={"idle_timeout": "300s"},
        local_reply_config=_local_replies(),
        access_log=[_access_log(listener)],
    )
    return {
        "name": name,
        "address": {"socket_address": {"address": listener.address, "port_value": listener.port}},
        "filter_chains": [{"filters": [manager]}],
    }


def _answers_listener() -> JSON:
    manager = _manager_filter("answers", ANSWERS, [_lua_filter(ANSWERS_FILTER, _ANSWERS_SCRIPT)])
    return {
        "name": ANSWERS,
        "internal_listener": {},
        "per_connection_buffer_limit_bytes": _LARGEST_BODY,
        "filter_chains": [{"filters": [manager]}],
    }


def _local_replies() -> JSON:
    """What Envoy says when no model answered: problems, with the contract's code."""
    late = _reply(
        ["UT"],
        504,
        "timeout",
        "Model did not answer in time",
        "The time-out of the service contract passed.",
        "Try again; if it stays, tell the model's owners.",
    )
    full = _reply(
        ["UO"],
        503,
        "overloaded",
        "Too many requests at once",
        "The gateway's limit for this model is reached.",
        "Try again shortly, with fewer requests at once.",
    )
    down = _reply(
        ["UH", "UF", "NC", "NR", "UC", "UR", "LR", "LH", "URX"],
        503,
        f"%METADATA(ROUTE:{METADATA}:unavailable_code)%",
        "Model unavailable",
        "No instance of the model could answer.",
        "Try again shortly.",
    )
    return {"mappers": [late, full, down]}


def _reply(flags: list[str], status: int, code: str, title: str, detail: str, hint: str) -> JSON:
    return {
        "filter": {"response_flag_filter": {"flags": flags}},
        "headers_to_add": [
            {
                "header": {"key": "retry-after", "value": "1"},
                "append_action": "OVERWRITE_IF_EXISTS_OR_ADD",
            }
        ],
        "body_format_override": {
            "content_type": "application/problem+json",
            "json_format": {
                "type": "about:blank",
                "title": title,
                "status": status,
                "detail": detail,
                "code": code,
                "hint": hint,
                "request_id": "%REQ(X-REQUEST-ID)%",
            },
        },
    }


def _access_log(listener: Listener) -> JSON:
    return {
        "name": "envoy.access_loggers.file",
        "typed_config": {
            "@type": f"{TYPE}.extensions.access_loggers.file.v3.FileAccessLog",
            "path": listener.access_log,
            "log_format": {
                "json_format": {
                    "time": "%START_TIME%",
                    "environment": listener.environment,
                    "x_request_id": "%REQ(X-REQUEST-ID)%",
                    "model": f"%METADATA(ROUTE:{METADATA}:model)%",
                    "model_version": "%RESP(X-MODEL-VERSION)%",
                    "cluster": "%UPSTREAM_CLUSTER%",
                    "upstream": "%UPSTREAM_HOST%",
                    "method": "%REQ(:METHOD)%",
                    "path": "%REQ(:PATH)%",
                    "status": "%RESPONSE_CODE%",
                    "flags": "%RESPONSE_FLAGS%",
                    "duration_ms": "%DURATION%",
                    "attempts": "%UPSTREAM_REQUEST_ATTEMPT_COUNT%",
                    "bytes_received": "%BYTES_RECEIVED%",
                    "bytes_sent": "%BYTES_SENT%",
                }
            },
        },
    }


def _is_ip(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
