"""A snapshot as Envoy's messages: Listener, RouteConfiguration and Cluster, ready for xDS."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from envoy.config.cluster.v3 import cluster_pb2
from envoy.config.core.v3 import extension_pb2
from envoy.config.listener.v3 import listener_pb2
from envoy.config.route.v3 import route_components_pb2, route_pb2

# Messages that travel inside Any fields: importing them registers their types.
from envoy.extensions.access_loggers.file.v3 import file_pb2 as _file_log
from envoy.extensions.access_loggers.grpc.v3 import als_pb2 as _grpc_log
from envoy.extensions.access_loggers.stats.v3 import stats_pb2 as _stats_log
from envoy.extensions.filters.http.header_mutation.v3 import header_mutation_pb2 as _mutation
from envoy.extensions.filters.http.jwt_authn.v3 import config_pb2 as _tokens
from envoy.extensions.filters.http.local_ratelimit.v3 import local_rate_limit_pb2 as _rates
from envoy.extensions.filters.http.lua.v3 import lua_pb2 as _lua
from envoy.extensions.filters.http.rbac.v3 import rbac_pb2 as _networks
from envoy.extensions.filters.http.router.v3 import router_pb2 as _router
from envoy.extensions.filters.http.upstream_codec.v3 import upstream_codec_pb2 as _codec
from envoy.extensions.filters.network.http_connection_manager.v3 import (
    http_connection_manager_pb2 as _manager,
)
from envoy.extensions.http.early_header_mutation.header_mutation.v3 import (
    header_mutation_pb2 as _guard,
)
from envoy.extensions.request_id.uuid.v3 import uuid_pb2 as _uuid
from envoy.extensions.retry.host.previous_hosts.v3 import previous_hosts_pb2 as _previous
from envoy.extensions.retry.priority.previous_priorities.v3 import (
    previous_priorities_config_pb2 as _priorities,
)
from envoy.extensions.transport_sockets.tls.v3 import secret_pb2
from envoy.extensions.transport_sockets.tls.v3 import tls_pb2 as _tls
from envoy.extensions.upstreams.http.v3 import http_protocol_options_pb2 as _options
from google.protobuf import any_pb2
from google.protobuf.json_format import ParseDict
from google.protobuf.message import Message

from deployments.adapters.envoy.access import callers_config, rates_config, tokens_config
from deployments.adapters.envoy.clusters import cluster_config, edge_cluster_config
from deployments.adapters.envoy.listeners import answers_listener_config, listener_config
from deployments.adapters.envoy.observing import observing_clusters, outcomes_route
from deployments.adapters.envoy.routes import (
    ANSWERS,
    JSON,
    answer_routes,
    answers_frame,
    guarded,
    table_frame,
    table_name,
    unknown_route,
)
from deployments.adapters.envoy.secrets import certificate_config
from deployments.rules.access.caller_directory import CallerDirectory, Certificate, Issuer
from deployments.rules.access.rules import OPEN, RateLimit
from deployments.rules.gateways.snapshots import (
    EDGE_CLUSTER,
    Cluster,
    EndpointRoutes,
    Listener,
    RouteTable,
    Snapshot,
)

REGISTERED = (
    *(
        _file_log,
        _grpc_log,
        _stats_log,
        _lua,
        _router,
        _codec,
        _manager,
        _uuid,
        _previous,
        _priorities,
    ),
    *(_options, _mutation),
)
REGISTERED_FOR_ACCESS = (_tokens, _rates, _networks, _guard, _tls)


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
    secrets: Mapping[str, Resource] = field(default_factory=dict)
    filters: Mapping[str, Resource] = field(default_factory=dict)


def build(snapshot: Snapshot) -> ResourceSet:
    """The snapshot's resources; what did not change since an earlier call comes from a cache."""
    clusters = [_cluster_resource(cluster) for cluster in snapshot.clusters]
    listeners = [_listener_resource(listener) for listener in snapshot.listeners]
    routes = [_table_resource(table) for table in snapshot.route_tables]
    listeners.append(_pack(ANSWERS, answers_listener_config(), listener_pb2.Listener()))
    routes.append(_answers_resource(snapshot.route_tables))
    if snapshot.edge:
        clusters.append(_edge_resource(*snapshot.edge))
        clusters.extend(_observing_resources(*snapshot.edge))
    return ResourceSet(
        clusters={resource.name: resource for resource in clusters},
        listeners={resource.name: resource for resource in listeners},
        routes={resource.name: resource for resource in routes},
        secrets={one.name: one for one in map(_certificate_resource, snapshot.certificates)},
        filters={one.name: one for table in snapshot.route_tables for one in _filters(table)},
    )


def _filters(table: RouteTable) -> tuple[Resource, ...]:
    guarded_ones = [one for one in table.endpoints if one.access is not OPEN]
    rates = tuple(
        (one.model, one.access.per_caller, one.access.total)
        for one in guarded_ones
        if one.access.has_rates
    )
    lists = tuple(
        (one.model, one.access.allow_callers, one.access.deny_callers)
        for one in guarded_ones
        if one.access.allow_callers or one.access.deny_callers
    )
    return (
        _tokens_resource(table.environment, table.directory.issuers),
        _callers_resource(table.environment, table.directory, lists),
        _rates_resource(table.environment, rates),
    )


@lru_cache(maxsize=16)
def _callers_resource(
    environment: str,
    directory: CallerDirectory,
    lists: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...],
) -> Resource:
    plain = callers_config(environment, directory, lists)
    return _pack(plain["name"], plain, extension_pb2.TypedExtensionConfig())


@lru_cache(maxsize=64)
def _tokens_resource(environment: str, issuers: tuple[Issuer, ...]) -> Resource:
    plain = tokens_config(environment, issuers)
    return _pack(plain["name"], plain, extension_pb2.TypedExtensionConfig())


@lru_cache(maxsize=64)
def _rates_resource(
    environment: str, rates: tuple[tuple[str, RateLimit | None, RateLimit | None], ...]
) -> Resource:
    plain = rates_config(environment, rates)
    return _pack(plain["name"], plain, extension_pb2.TypedExtensionConfig())


@lru_cache(maxsize=64)
def _certificate_resource(certificate: Certificate) -> Resource:
    plain = certificate_config(certificate)
    return _pack(plain["name"], plain, secret_pb2.Secret())


@lru_cache(maxsize=8192)
def _cluster_resource(cluster: Cluster) -> Resource:
    return _pack(cluster.name, cluster_config(cluster), cluster_pb2.Cluster())


@lru_cache(maxsize=4)
def _edge_resource(host: str, port: int) -> Resource:
    return _pack(EDGE_CLUSTER, edge_cluster_config(host, port), cluster_pb2.Cluster())


@lru_cache(maxsize=4)
def _observing_resources(host: str, port: int) -> tuple[Resource, ...]:
    configs = observing_clusters(host, port)
    return tuple(_pack(one["name"], one, cluster_pb2.Cluster()) for one in configs)


@lru_cache(maxsize=256)
def _listener_resource(listener: Listener) -> Resource:
    name = table_name(listener.environment)
    return _pack(name, listener_config(listener), listener_pb2.Listener())


@lru_cache(maxsize=64)
def _table_resource(table: RouteTable) -> Resource:
    needs = frozenset[str]().union(*(endpoint.destinations() for endpoint in table.endpoints))
    message = ParseDict(table_frame(table.environment), route_pb2.RouteConfiguration())
    issuers = tuple((one.name, one.issuer) for one in table.directory.issuers)
    for endpoint in table.endpoints:
        # Those without a policy must not be read anew because an issuer came.
        named = issuers if endpoint.access.issuers else ()
        messages = _endpoint_messages(table.environment, endpoint, named)
        message.virtual_hosts[0].routes.extend(messages)
    if table.edge:
        needs |= {EDGE_CLUSTER}
        outcomes = ParseDict(outcomes_route(table.environment), route_components_pb2.Route())
        message.virtual_hosts[0].routes.append(outcomes)
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
def _endpoint_messages(
    environment: str, endpoint: EndpointRoutes, issuers: tuple[tuple[str, str], ...]
) -> tuple[Message, ...]:
    routes = guarded(environment, endpoint, issuers)
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
