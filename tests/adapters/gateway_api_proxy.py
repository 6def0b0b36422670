"""A proxy that does what HTTPRoutes say, by the semantics that the Gateway API publishes."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from http.client import HTTPConnection, HTTPException
from typing import Any

from tests.adapters.http_double import Answer, Asked, HttpDouble

JSON = dict[str, Any]
Stored = Mapping[tuple[str, str], JSON]


class GatewayApiProxy:
    """Answers callers by the routes that the controller has accepted."""

    def __init__(
        self, stored: Stored, network: Mapping[tuple[str, int], int], lock: threading.RLock
    ) -> None:
        self._stored = stored
        self._network = network
        self._lock = lock
        self._spent: dict[tuple[str, str], int] = {}
        self._turns: dict[str, int] = {}
        self._server = HttpDouble(self.answer)
        self.port = self._server.port

    def stop(self) -> None:
        self._server.go_away()

    def answer(self, asked: Asked) -> Answer:
        with self._lock:
            found = self._match(asked)
            if found is None:
                return Answer(404, b"", {"content-type": "text/plain"})
            route, rule = found
            backend = self._pick(route, rule)
            ports = self._ports(backend["name"])
        filters = [*rule.get("filters", ()), *backend.get("filters", ())]
        if not ports:
            return Answer(503, b"no healthy upstream", {"content-type": "text/plain"})
        return _forward(asked, ports, filters)

    def _match(self, asked: Asked) -> tuple[str, JSON] | None:
        """The rule that goes before all others: exact path, then the longest, method, headers."""
        found = []
        for (kind, name), route in self._stored.items():
            if kind != "HTTPRoute" or not _is_accepted(route):
                continue
            host = asked.headers.get("host", "").split(":")[0]
            if route["spec"].get("hostnames") and host not in route["spec"]["hostnames"]:
                continue
            for index, rule in enumerate(route["spec"]["rules"]):
                ranks = [
                    rank for match in rule["matches"] if (rank := _rank(match, asked)) is not None
                ]
                if ranks:
                    found.append((max(ranks), -index, name, rule))
        if not found:
            return None
        _, _, name, rule = max(found, key=lambda one: one[:2])
        return name, rule

    def _pick(self, route: str, rule: JSON) -> JSON:
        """Backends in turns by their weights: the one that is furthest behind its share."""
        backends = [one for one in rule["backendRefs"] if one.get("weight", 1)]
        total = sum(one.get("weight", 1) for one in backends)
        for one in backends:
            key = (route, one["name"])
            self._spent[key] = self._spent.get(key, 0) + one.get("weight", 1)
        chosen: JSON = max(backends, key=lambda one: self._spent[(route, one["name"])])
        self._spent[(route, chosen["name"])] -= total
        return chosen

    def _ports(self, service: str) -> list[int]:
        ports = []
        for (kind, _), one in sorted(self._stored.items()):
            labels = one["metadata"].get("labels", {})
            if kind != "EndpointSlice" or labels.get("kubernetes.io/service-name") != service:
                continue
            for endpoint in one["endpoints"]:
                ports.append(self._network[(endpoint["addresses"][0], one["ports"][0]["port"])])
        turn = self._turns[service] = self._turns.get(service, -1) + 1
        start = turn % len(ports) if ports else 0
        return ports[start:] + ports[:start]


def _is_accepted(route: JSON) -> bool:
    return any(
        condition["type"] == "Accepted" and condition["status"] == "True"
        for parent in route.get("status", {}).get("parents", ())
        for condition in parent["conditions"]
    )


def _rank(match: JSON, asked: Asked) -> tuple[bool, int, bool, int] | None:
    kind, value = match["path"]["type"], match["path"]["value"]
    exact = kind == "Exact"
    inside = asked.path == value or asked.path.startswith(value.rstrip("/") + "/")
    if (exact and asked.path != value) or not inside:
        return None
    if match.get("method") not in (None, asked.method):
        return None
    headers = match.get("headers", ())
    if any(asked.headers.get(one["name"].lower()) != one["value"] for one in headers):
        return None
    return exact, len(value), "method" in match, len(headers)


def _forward(asked: Asked, ports: list[int], filters: Iterable[JSON]) -> Answer:
    path, said = asked.path, {}
    for one in filters:
        if one["type"] == "URLRewrite":
            path = one["urlRewrite"]["path"]["replaceFullPath"]
        elif one["type"] == "ResponseHeaderModifier":
            for header in one["responseHeaderModifier"].get("set", ()):
                said[header["name"].lower()] = header["value"]
    for port in ports:
        connection = HTTPConnection("127.0.0.1", port, timeout=5)
        try:
            connection.request(asked.method, path, asked.body)
            reply = connection.getresponse()
            body = reply.read()
        except (OSError, HTTPException):
            continue
        finally:
            connection.close()
        passed = {k.lower(): v for k, v in reply.getheaders() if k.lower() != "content-length"}
        return Answer(reply.status, body, {**passed, **said})
    return Answer(503, b"upstream connect error", {"content-type": "text/plain"})
