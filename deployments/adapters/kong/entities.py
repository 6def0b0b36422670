"""A snapshot as Kong's entities: upstreams and targets, services, routes and plugins.

A version is an upstream (its nodes as targets) and one service for each operation, whose path is
the one that Triton knows. Routes pick services. A target cannot rewrite a path, so a split among
several versions is a route with a function (`split.lua`) that picks upstream and path; everything
else, and a split that gives one version all, is entities alone.

Every entity has an id that follows from its name, so that writing one twice is one effect.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from typing import Any

from deployments.adapters.reaching import Refused
from deployments.rules.gateways.snapshots import Cluster, ClusterKey, EndpointRoutes, Snapshot
from deployments.rules.gateways.state import Target

JSON = dict[str, Any]

KINDS = ("upstreams", "targets", "services", "routes", "plugins")
"""In the order in which they need one another, but for plugins of routes that are new."""

OPERATIONS = {"infer": ("POST", "/infer"), "describe": ("GET", ""), "ready": ("GET", "/ready")}
MOST_RULES = 1000
PARKED = "x-covenant-parked"
"""A header that nobody sends: an answer of the gateway waits behind it, complete, to be let in."""

_SPACE = uuid.UUID("6f0c1b1e-5f0b-4f4e-9f53-3c6d5d6e7a10")
_SPLIT = Path(__file__).with_name("split.lua").read_text(encoding="utf-8")
_VERSION_HEADER = "x-model-version"


@dataclass(frozen=True, slots=True)
class Entity:
    """One entity as it is written; `parent` is the upstream of a target."""

    kind: str
    id: str
    body: Mapping[str, Any]
    parent: str = ""


@dataclass(frozen=True, slots=True)
class Site:
    """What of a Kong is ours: the tag on all of it, and the host names of each environment."""

    gateway: str
    hosts: Mapping[str, str]

    @property
    def tag(self) -> str:
        return f"covenant.{self.gateway}"


def site_of(gateway: str, options: Mapping[str, Any]) -> Site:
    """The site that a registration's options describe."""
    return Site(gateway, dict(options.get("hosts") or {}))


def entities(snapshot: Snapshot, site: Site) -> tuple[Entity, ...]:
    """Everything that Kong should have for this snapshot.

    Raises Refused for what cannot be said to Kong.
    """
    clusters = {cluster.name: cluster for cluster in snapshot.clusters}
    if len(snapshot.route_tables) > 1:
        for table in snapshot.route_tables:
            if table.environment not in site.hosts:
                raise Refused(
                    "registration",
                    f"Kong tells environments apart by host, and {table.environment} has none. "
                    "Name one for each in the gateway's options (hosts).",
                )
    found: list[Entity] = []
    for table in snapshot.route_tables:
        for endpoint in table.endpoints:
            found += _Endpoint(table.environment, endpoint, clusters, site).entities()
    return tuple(found)


class _Endpoint:
    """The entities of one endpoint, gathered."""

    def __init__(
        self,
        environment: str,
        endpoint: EndpointRoutes,
        clusters: Mapping[str, Cluster],
        site: Site,
    ) -> None:
        self.endpoint = endpoint
        self.site = site
        self.stem = f"{environment}.{endpoint.model}"
        self.environment = environment
        self.clusters = clusters
        self.found: list[Entity] = []

    def entities(self) -> list[Entity]:
        for number, cluster in self.endpoint.pinned:
            self._version(number, self._target(cluster))
        self._answers()
        if not self.endpoint.answer:
            self._split()
            self._rules()
            self._pins()
        return self.found

    def _version(self, number: int, target: Target) -> None:
        stem, path = f"{self.stem}.v{number}", _path(target)
        upstream = self._add("upstreams", stem, _upstream(_upstream_name(stem), path))
        for node in target.nodes:
            address = f"{_bracketed(node.host)}:{node.http_port}"
            body = {"target": address, "weight": 100}
            self._add("targets", f"{stem}/{address}", body, parent=upstream)
        for operation, (_, suffix) in OPERATIONS.items():
            self._service(f"{stem}.{operation}", stem, path + suffix)
            config = {"remove": {"headers": [_VERSION_HEADER]}}
            config["add"] = {"headers": [f"{_VERSION_HEADER}:{number}"]}
            self._plugin(f"{stem}.{operation}", "response-transformer", config, "service")

    def _service(self, name: str, upstream: str, path: str) -> None:
        timeout = self.endpoint.timeout_ms
        body = {
            "name": name,
            "protocol": "http",
            "host": _upstream_name(upstream),
            "port": 80,
            "path": path,
            "connect_timeout": 250,
            "write_timeout": timeout,
            "read_timeout": timeout,
            # Kong asks another target only where the request cannot have reached the first.
            "retries": 2,
        }
        self._add("services", name, body)

    def _split(self) -> None:
        pieces = [(self._number(name), name, points) for name, points in self.endpoint.split]
        base = f"~/v2/models/{self.endpoint.model}"
        shares: dict[int, int] = {}
        for number, _, points in pieces:
            shares[number] = shares.get(number, 0) + points
        most = max(sorted(shares), key=lambda number: shares[number])
        stem = f"{self.stem}.v{most}"
        for operation in ("describe", "ready"):
            method, suffix = OPERATIONS[operation]
            name = f"{self.stem}.{operation}"
            self._route(name, f"{stem}.{operation}", [f"{base}{suffix}$"], [method])
        paths = [f"{base}/infer$"]
        name = f"{self.stem}.infer"
        if len(shares) == 1:
            self._route(name, f"{stem}.infer", paths, ["POST"])
            return
        # A service of its own: the heaviest version's says that this version answered.
        path = _path(self._target(f"{self.environment}/{self.endpoint.model}/{most}"))
        self._service(f"{self.stem}.split", stem, f"{path}/infer")
        self._route(name, f"{self.stem}.split", paths, ["POST"])
        function = split_function(
            self.endpoint.sticky_header,
            [
                (points, _upstream_name(f"{self.stem}.v{number}"), _path(self._target(c)), number)
                for number, c, points in pieces
            ],
            most,
        )
        self._plugin(name, "pre-function", {"access": [function]}, "route")

    def _rules(self) -> None:
        """Rules in a row that agree in header and version are one route; the first rule wins."""
        path = f"~/v2/models/{self.endpoint.model}/infer$"
        groups = groupby(self.endpoint.header_rules, key=lambda rule: (rule[0], rule[2]))
        for index, ((header, cluster), rules) in enumerate(groups):
            values = sorted({value for _, value, _ in rules})
            for value in values:
                if value.startswith("~*"):
                    raise Refused(
                        "routes", f"Kong reads the value {value!r} of {header} as an expression."
                    )
            digest = hashlib.sha256(json.dumps([header, values]).encode()).hexdigest()[:12]
            service = f"{self.stem}.v{self._number(cluster)}.infer"
            name = f"{self.stem}.rule.{digest}"
            self._route(name, service, [path], ["POST"], {header: values}, MOST_RULES - index)

    def _pins(self) -> None:
        for number, _ in self.endpoint.pinned:
            base = f"~/v2/models/{self.endpoint.model}/versions/{number}"
            for operation, (method, suffix) in OPERATIONS.items():
                name = f"{self.stem}.v{number}.{operation}"
                self._route(name, name, [f"{base}{suffix}$"], [method])

    def _answers(self) -> None:
        """What Kong answers by itself, always there, so that a change of mode is one write."""
        endpoint = self.endpoint
        self._answer(
            "open",
            {
                "status_code": 503,
                "content_type": "application/problem+json",
                "body": json.dumps(_unavailable(endpoint)),
            },
            [f"retry-after:{endpoint.retry_after_s}"],
        )
        if endpoint.fallback is not None:
            reason = endpoint.fallback.reason.encode("ascii", "replace").decode().replace("\n", " ")
            self._answer(
                "fallback",
                {
                    "status_code": 200,
                    "content_type": "application/json",
                    "body": endpoint.fallback.plain,
                },
                [f"x-covenant-fallback:{reason}", f"{_VERSION_HEADER}:fallback"],
            )

    def _answer(self, kind: str, answer: JSON, headers: list[str]) -> None:
        name = f"{self.stem}.{kind}"
        wanted = self.endpoint.answer or ""
        base = f"~/v2/models/{self.endpoint.model}"
        paths = [f"{base}$", f"{base}/", f"~/v1/models/{self.endpoint.model}:predict$"]
        parked = {} if wanted.endswith(f"/{kind}") else {PARKED: [self._id("parked", name)]}
        self._route(name, "", paths, [], parked)
        self._plugin(name, "request-termination", answer, "route")
        self._plugin(name, "response-transformer", {"add": {"headers": headers}}, "route")

    def _route(
        self,
        name: str,
        service: str,
        paths: list[str],
        methods: list[str],
        headers: Mapping[str, list[str]] | None = None,
        priority: int = 0,
    ) -> None:
        host = self.site.hosts.get(self.environment)
        body = {
            "name": name,
            "protocols": ["http", "https"],
            "paths": paths,
            "methods": methods or None,
            "headers": dict(headers) if headers else None,
            "hosts": [host] if host else None,
            "strip_path": True,
            "regex_priority": priority,
            "service": {"id": self._id("services", service)} if service else None,
        }
        self._add("routes", name, body)

    def _plugin(self, owner: str, plugin: str, config: JSON, of: str) -> None:
        body = {"name": plugin, "config": config, of: {"id": self._id(f"{of}s", owner)}}
        self._add("plugins", f"{of}/{owner}/{plugin}", body)

    def _add(self, kind: str, name: str, body: JSON, parent: str = "") -> str:
        made = Entity(kind, self._id(kind, name), {**body, "tags": [self.site.tag]}, parent)
        self.found.append(made)
        return made.id

    def _id(self, kind: str, name: str) -> str:
        return _id(self.site.gateway, kind, name)

    def _target(self, cluster: str) -> Target:
        target = self.clusters[cluster].target
        if target is None:
            raise Refused("upstreams", f"{cluster} has no nodes.")
        return target

    @staticmethod
    def _number(cluster: str) -> int:
        key = ClusterKey.parse(cluster)
        if key is None or key.version is None:
            raise Refused("routes", f"Kong cannot send requests to {cluster}.")
        return key.version


def split_function(header: str, pieces: Iterable[tuple[int, str, str, int]], heaviest: int) -> str:
    """The function that divides requests among pieces `(basis points, upstream, path, version)`."""
    rows = ", ".join(
        f"{{{points}, {_quoted(upstream)}, {_quoted(path + '/infer')}, {_quoted(str(version))}}}"
        for points, upstream, path, version in pieces
    )
    filled = _SPLIT.replace("$HEADER", _quoted(header)).replace("$PIECES", f"{{{rows}}}")
    return filled.replace("$HEAVIEST", _quoted(str(heaviest)))


def _upstream(name: str, path: str) -> JSON:
    return {
        "name": name,
        "algorithm": "least-connections",
        "hash_on": "none",
        "healthchecks": {
            "active": {
                "type": "http",
                "http_path": f"{path}/ready",
                "timeout": 1,
                "healthy": {"interval": 1, "successes": 1},
                "unhealthy": {
                    "interval": 1,
                    "http_failures": 2,
                    "tcp_failures": 2,
                    "timeouts": 2,
                },
            }
        },
    }


def _unavailable(endpoint: EndpointRoutes) -> JSON:
    detail = f"The model {endpoint.model} takes no requests now."
    return {
        "type": "about:blank",
        "title": "Model unavailable",
        "status": 503,
        "detail": detail,
        "code": endpoint.unavailable_code,
        "hint": f"Try again after {endpoint.retry_after_s} s.",
        "error": detail,
    }


def _path(target: Target) -> str:
    return f"/v2/models/{target.triton_model}/versions/{target.triton_version}"


def _upstream_name(stem: str) -> str:
    """Upstreams are named like hosts, and a service finds its upstream by that name."""
    return f"{stem}.covenant"


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _quoted(text: str) -> str:
    """A Lua string. Names, paths and headers are plain ASCII by the rules for them."""
    return json.dumps(text)


@lru_cache(maxsize=65536)
def _id(gateway: str, kind: str, name: str) -> str:
    return str(uuid.uuid5(_SPACE, f"{gateway}/{kind}/{name}"))
