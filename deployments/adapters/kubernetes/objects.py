"""A snapshot as objects of Kubernetes: HTTPRoutes, Services without selectors, EndpointSlices.

A version is a Service with the nodes' addresses; an endpoint is one HTTPRoute, and each version
that callers may name in the path is another. A Service cannot rewrite a path, an HTTPRoute can: for
all of a rule (which most implementations do), or for each backend of it (which few do). So a rule
that leads to one version rewrites as a whole, and only a split among several asks for the second.
"""

from __future__ import annotations

import hashlib
import ipaddress
import json
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from deployments.adapters.reaching import Refused
from deployments.rules.gateways.snapshots import Cluster, ClusterKey, EndpointRoutes, Snapshot
from deployments.rules.gateways.state import Mode, Target

JSON = dict[str, Any]

MOST_RULES = 16
MOST_MATCHES = 64
MANAGER = "covenant"
DIGEST = "covenant/digest"
OURS_ALONE = ["x-model-version", "x-covenant-fallback", "x-covenant-caller"]
OPERATIONS = (("POST", "/infer"), ("GET", ""), ("GET", "/ready"))


@dataclass(frozen=True, slots=True)
class Site:
    """Where in a cluster the objects lie, and which Gateway the routes hang on.

    `sections` names the Gateway's listener of each environment, `hostnames` its host.
    `backend_rewrites`: the implementation rewrites the path of each backend of a rule.
    """

    gateway: str
    namespace: str
    parent: str
    parent_namespace: str = ""
    sections: Mapping[str, str] = field(default_factory=dict)
    hostnames: Mapping[str, str] = field(default_factory=dict)
    backend_rewrites: bool = False

    @property
    def labels(self) -> dict[str, str]:
        return {
            "app.kubernetes.io/managed-by": MANAGER,
            "app.kubernetes.io/instance": self.gateway,
        }

    @property
    def selector(self) -> str:
        return ",".join(f"{name}={value}" for name, value in self.labels.items())


def site_of(gateway: str, options: Mapping[str, Any]) -> Site:
    """The site that a registration's options describe."""
    parent = options.get("parent") or {}
    return Site(
        gateway=gateway,
        namespace=str(options.get("namespace", "default")),
        parent=str(parent.get("name", "")),
        parent_namespace=str(parent.get("namespace", "")),
        sections=dict(options.get("sections") or {}),
        hostnames=dict(options.get("hostnames") or {}),
        backend_rewrites=bool(options.get("backend_rewrites")),
    )


@dataclass(frozen=True, slots=True)
class Objects:
    """Everything of a snapshot: first the backends, then the routes that lead to them."""

    backends: tuple[JSON, ...]
    routes: tuple[JSON, ...]


def objects(snapshot: Snapshot, site: Site) -> Objects:
    """All objects that a cluster should have for this snapshot.

    Raises Refused for what cannot be said in the Gateway API.
    """
    if len(snapshot.route_tables) > 1:
        for table in snapshot.route_tables:
            if not (site.sections.get(table.environment) or site.hostnames.get(table.environment)):
                raise Refused(
                    "registration",
                    f"The Gateway has no listener or host name for {table.environment}. Name one "
                    "in the gateway's options (sections or hostnames).",
                )
    clusters = {cluster.name: cluster for cluster in snapshot.clusters}
    backends: list[JSON] = []
    routes: list[JSON] = []
    for table in snapshot.route_tables:
        for endpoint in table.endpoints:
            made = _Endpoint(table.environment, endpoint, clusters, site)
            backends += made.backends()
            routes += made.routes()
    return Objects(tuple(map(_marked, backends)), tuple(map(_marked, routes)))


class _Endpoint:
    """The objects of one endpoint."""

    def __init__(
        self,
        environment: str,
        endpoint: EndpointRoutes,
        clusters: Mapping[str, Cluster],
        site: Site,
    ) -> None:
        self.environment = environment
        self.endpoint = endpoint
        self.clusters = clusters
        self.site = site
        self.base = f"/v2/models/{endpoint.model}"

    def backends(self) -> list[JSON]:
        found = [self._service(self._name("closed"))]
        for number, cluster in self.endpoint.pinned:
            name = self._name(f"v{number}")
            found.append(self._service(name))
            found += self._slices(name, self._target(cluster))
        return found

    def routes(self) -> list[JSON]:
        if self.endpoint.mode is Mode.FALLBACK:
            raise Refused("HTTPRoute", "HTTPRoute cannot answer by itself with a fallback.")
        if self.endpoint.answer:
            return [self._route("endpoint", [self._closed()])]
        rules = [
            self._rule(
                [_post(f"{self.base}/infer", {header: value}) for header, value, _ in matches],
                "/infer",
                [(cluster, 1)],
            )
            for cluster, matches in _grouped(self.endpoint.header_rules)
        ]
        for method, suffix in OPERATIONS:
            shares = self._shares() if suffix == "/infer" else self._shares()[:1]
            match = _match(method, f"{self.base}{suffix}")
            rules.append(self._rule([match], suffix, shares))
        if len(rules) > MOST_RULES:
            raise Refused(
                "HTTPRoute",
                f"An HTTPRoute has at most {MOST_RULES} rules, and this endpoint needs "
                f"{len(rules)}: use fewer header rules.",
            )
        return [
            self._route("endpoint", rules),
            *(self._pin(number, cluster) for number, cluster in self.endpoint.pinned),
        ]

    def _shares(self) -> list[tuple[str, int]]:
        """Each version of the split once, the heaviest first."""
        shares: dict[str, int] = defaultdict(int)
        for cluster, points in self.endpoint.split:
            shares[cluster] += points
        return sorted(shares.items(), key=lambda one: -one[1])

    def _pin(self, number: int, cluster: str) -> JSON:
        path = f"{self.base}/versions/{number}"
        rules = [
            self._rule([_match(method, f"{path}{suffix}")], suffix, [(cluster, 1)])
            for method, suffix in OPERATIONS
        ]
        return self._route(f"v{number}", rules)

    def _rule(self, matches: list[JSON], suffix: str, shares: list[tuple[str, int]]) -> JSON:
        whole = len(shares) == 1
        if not whole and not self.site.backend_rewrites:
            raise Refused(
                "HTTPRoute",
                "A split among versions needs a Gateway that rewrites the path of each backend; "
                "this one is not registered as such (backend_rewrites).",
            )
        filters: list[JSON] = [
            {"type": "RequestHeaderModifier", "requestHeaderModifier": {"remove": OURS_ALONE}}
        ]
        backends: list[JSON] = []
        for cluster, points in shares:
            own = self._filters(cluster, suffix)
            backend: JSON = {"name": self._name(f"v{_number(cluster)}"), "port": 80}
            backend |= {"weight": points} if not whole else {}
            backends.append({**backend, **({} if whole else {"filters": own})})
            filters += own if whole else []
        return {
            "matches": matches,
            "filters": filters,
            "backendRefs": backends,
            "timeouts": {"request": duration(self.endpoint.timeout_ms)},
        }

    def _filters(self, cluster: str, suffix: str) -> list[JSON]:
        target = self._target(cluster)
        path = f"/v2/models/{target.triton_model}/versions/{target.triton_version}{suffix}"
        version = {"name": "x-model-version", "value": str(_number(cluster))}
        return [
            {
                "type": "URLRewrite",
                "urlRewrite": {"path": {"type": "ReplaceFullPath", "replaceFullPath": path}},
            },
            {"type": "ResponseHeaderModifier", "responseHeaderModifier": {"set": [version]}},
        ]

    def _closed(self) -> JSON:
        """A Service without any endpoint: requests to it are answered with 503."""
        paths = [
            {"path": {"type": "PathPrefix", "value": self.base}},
            {"path": {"type": "Exact", "value": f"/v1/models/{self.endpoint.model}:predict"}},
        ]
        return {"matches": paths, "backendRefs": [{"name": self._name("closed"), "port": 80}]}

    def _route(self, part: str, rules: list[JSON]) -> JSON:
        parent: JSON = {
            "group": "gateway.networking.k8s.io",
            "kind": "Gateway",
            "name": self.site.parent,
        }
        if self.site.parent_namespace:
            parent["namespace"] = self.site.parent_namespace
        if section := self.site.sections.get(self.environment):
            parent["sectionName"] = section
        spec: JSON = {"parentRefs": [parent], "rules": rules}
        if host := self.site.hostnames.get(self.environment):
            spec["hostnames"] = [host]
        return {
            "apiVersion": "gateway.networking.k8s.io/v1",
            "kind": "HTTPRoute",
            "metadata": self._metadata(self._name(part)),
            "spec": spec,
        }

    def _service(self, name: str) -> JSON:
        return {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": self._metadata(name),
            "spec": {
                "type": "ClusterIP",
                "ports": [{"name": "http", "port": 80, "protocol": "TCP", "targetPort": 80}],
            },
        }

    def _slices(self, service: str, target: Target) -> list[JSON]:
        """One slice for each port and kind of address: all endpoints of a slice share both."""
        groups: dict[tuple[str, int], list[str]] = defaultdict(list)
        for node in target.nodes:
            try:
                address = ipaddress.ip_address(node.host)
            except ValueError as fault:
                raise Refused(
                    "EndpointSlice",
                    f"The node {node.node} is registered as {node.host}, and an EndpointSlice "
                    "takes IP addresses.",
                ) from fault
            groups[(f"IPv{address.version}", node.http_port)].append(str(address))
        made = []
        for (kind, port), addresses in sorted(groups.items()):
            metadata = self._metadata(f"{service}-{kind.lower()}-{port}")
            metadata["labels"] |= {
                "kubernetes.io/service-name": service,
                "endpointslice.kubernetes.io/managed-by": MANAGER,
            }
            made.append(
                {
                    "apiVersion": "discovery.k8s.io/v1",
                    "kind": "EndpointSlice",
                    "metadata": metadata,
                    "addressType": kind,
                    "ports": [{"name": "http", "port": port, "protocol": "TCP"}],
                    "endpoints": [
                        {"addresses": [address], "conditions": {"ready": True}}
                        for address in sorted(addresses)
                    ],
                }
            )
        return made

    def _metadata(self, name: str) -> JSON:
        return {"name": name, "namespace": self.site.namespace, "labels": dict(self.site.labels)}

    def _name(self, part: str) -> str:
        """A name that Services may have: a letter first, and under 63 characters in the end."""
        whole = f"{self.site.gateway}/{self.environment}/{self.endpoint.model}"
        digest = hashlib.sha256(whole.encode()).hexdigest()[:8]
        slug = re.sub(r"[^a-z0-9]+", "-", self.endpoint.model).strip("-")[:24]
        return f"{slug}-{digest}-{part}"

    def _target(self, cluster: str) -> Target:
        target = self.clusters[cluster].target
        if target is None:
            raise Refused("Service", f"{cluster} has no nodes.")
        return target


def _grouped(
    rules: Sequence[tuple[str, str, str]],
) -> list[tuple[str, list[tuple[str, str, str]]]]:
    """Rules in a row that lead to the same version, as many together as one rule may match."""
    groups: list[tuple[str, list[tuple[str, str, str]]]] = []
    for rule in rules:
        if groups and groups[-1][0] == rule[2] and len(groups[-1][1]) < MOST_MATCHES:
            groups[-1][1].append(rule)
        else:
            groups.append((rule[2], [rule]))
    return groups


def _marked(made: JSON) -> JSON:
    """The object with a digest of itself, so that a field that is no longer wanted shows."""
    digest = hashlib.sha256(json.dumps(made, sort_keys=True).encode()).hexdigest()[:16]
    return {**made, "metadata": {**made["metadata"], "annotations": {DIGEST: digest}}}


def duration(milliseconds: int) -> str:
    """A Gateway API duration: at most five digits of each unit."""
    seconds, rest = divmod(milliseconds, 1000)
    parts = [f"{seconds}s"] if seconds else []
    return "".join([*parts, *([f"{rest}ms"] if rest else [])]) or "0s"


def _post(path: str, headers: Mapping[str, str]) -> JSON:
    wanted = [{"type": "Exact", "name": name, "value": value} for name, value in headers.items()]
    return {**_match("POST", path), "headers": wanted}


def _match(method: str, path: str) -> JSON:
    return {"method": method, "path": {"type": "Exact", "value": path}}


def _number(cluster: str) -> int:
    key = ClusterKey.parse(cluster)
    if key is None or key.version is None:
        raise Refused("HTTPRoute", f"The Gateway API cannot send requests to {cluster}.")
    return key.version
