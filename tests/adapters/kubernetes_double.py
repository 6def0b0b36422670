"""A stand-in for the API server of Kubernetes, with a controller for the Gateway API behind it.

Server-side apply with field managers and its conflicts, dry runs, resource versions, generations,
lists in pages by `continue`, label selectors, and Status bodies are those of Kubernetes 1.3x; what
an HTTPRoute, Service and EndpointSlice may hold is taken from their published schemas.
"""

from __future__ import annotations

import base64
import copy
import json
import re
import threading
from collections.abc import Callable, Mapping
from typing import Any

from tests.adapters.gateway_api_proxy import GatewayApiProxy
from tests.adapters.http_double import Answer, Asked, HttpDouble
from tests.adapters.kubernetes_schemas import faults_of

JSON = dict[str, Any]

KINDS = {"services": "Service", "endpointslices": "EndpointSlice", "httproutes": "HTTPRoute"}
CONTROLLER = "tests.example/controller"
_PATH = re.compile(r"/(?:api/v1|apis/[^/]+/v1)/namespaces/([^/]+)/([a-z]+)(?:/([^/]+))?\Z")


class KubernetesDouble:
    """One cluster, one namespace, one Gateway with its controller and its proxy.

    `network` says where an address of the cluster's network really is: (address, port) -> port
    on this machine. `silent`: the controller says nothing. `backend_filters`: it takes filters on
    backends.
    """

    def __init__(self, *, token: str = "", page: int = 500, gateway: str = "public") -> None:
        self.token = token
        self.page = page
        self.gateway = gateway
        self.silent = False
        self.backend_filters = True
        self.network: dict[tuple[str, int], int] = {}
        self.stored: dict[tuple[str, str], JSON] = {}
        self.writes = 0
        self.lock = threading.RLock()
        self._version = 100
        self.api = HttpDouble(self.answer)
        self.proxy = GatewayApiProxy(self.stored, self.network, self.lock)

    def answer(self, asked: Asked) -> Answer:
        if self.token and asked.headers.get("authorization") != f"Bearer {self.token}":
            return _status(401, "Unauthorized", "Unauthorized")
        if asked.path == "/version":
            return Answer(200, {"major": "1", "minor": "34", "gitVersion": "v1.34.2"})
        found = _PATH.match(asked.path)
        if found is None or found[2] not in KINDS:
            return Answer(404, b"404 page not found\n", {"content-type": "text/plain"})
        with self.lock:
            return self._object(asked, KINDS[found[2]], found[3] or "")

    def edit(self, kind: str, name: str, manager: str, change: Callable[[JSON], None]) -> None:
        """Have somebody else change an object, as by `kubectl edit`."""
        with self.lock:
            there = self.stored[(kind, name)]
            after = copy.deepcopy(there)
            change(after)
            changed = _leaves(after) ^ _leaves(there)
            owners = self._owners(after)
            for other in owners:
                owners[other] -= {path for path, _ in changed}
            owners.setdefault(manager, set()).update(path for path, _ in changed)
            self._store(kind, name, after, there)

    def _object(self, asked: Asked, kind: str, name: str) -> Answer:
        there = self.stored.get((kind, name))
        if not name:
            return self._list(asked, kind)
        if asked.method == "PATCH":
            return self._apply(asked, kind, name, there)
        if there is None:
            return _status(404, "NotFound", f'{kind.lower()}s "{name}" not found')
        if asked.method == "GET":
            return Answer(200, _shown(there))
        del self.stored[(kind, name)]
        self.writes += 1
        self._judge_all()
        return Answer(200, {"kind": "Status", "apiVersion": "v1", "status": "Success"})

    def _list(self, asked: Asked, kind: str) -> Answer:
        labels = dict(
            one.split("=", 1) for one in asked.query.get("labelSelector", "").split(",") if one
        )
        found = [
            one
            for (other, _), one in sorted(self.stored.items())
            if other == kind and labels.items() <= (one["metadata"].get("labels") or {}).items()
        ]
        start = 0
        if token := asked.query.get("continue"):
            start = int(base64.b64decode(token))
        size = min(int(asked.query.get("limit", 0)) or self.page, self.page)
        metadata: JSON = {"resourceVersion": str(self._version)}
        if start + size < len(found):
            metadata["continue"] = base64.b64encode(str(start + size).encode()).decode()
        items = [_shown(one) for one in found[start : start + size]]
        for item in items:
            item.pop("kind")
            item.pop("apiVersion")
        return Answer(200, {"kind": f"{kind}List", "metadata": metadata, "items": items})

    def _apply(self, asked: Asked, kind: str, name: str, there: JSON | None) -> Answer:
        manager = asked.query.get("fieldManager")
        if not manager:
            return _status(
                422, "Invalid", "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required "
                "value: is required for apply patch",
            )  # fmt: skip
        if asked.headers["content-type"] != "application/apply-patch+yaml":
            return _status(415, "UnsupportedMediaType", "the body of the request was in an unknown "
                           "format")  # fmt: skip
        wanted = json.loads(asked.body)
        if problems := faults_of(kind, wanted):
            group = ".gateway.networking.k8s.io" if kind == "HTTPRoute" else ""
            return _status(
                422, "Invalid", f'{kind}{group} "{name}" is invalid: {"; ".join(problems)}'
            )
        owners = self._owners(there) if there else {}
        leaves = _leaves(wanted)
        taken = {
            other: sorted(
                path
                for path in fields & {path for path, _ in leaves}
                if (path, _at(there or {}, path)) not in leaves
            )
            for other, fields in owners.items()
            if other != manager
        }
        taken = {other: paths for other, paths in taken.items() if paths}
        if taken and asked.query.get("force") != "true":
            count = sum(map(len, taken.values()))
            said = "; ".join(
                f'conflict with "{other}": {", ".join(paths)}' for other, paths in taken.items()
            )
            plural = "s" if count > 1 else ""
            return _status(409, "Conflict", f"Apply failed with {count} conflict{plural}: {said}")
        after = _merged(there, wanted, owners.get(manager, set()))
        if asked.query.get("dryRun") == "All":
            return Answer(200, _shown(after))
        after["_owners"] = {
            **{o: fields - set(taken.get(o, ())) for o, fields in owners.items()},
            manager: {path for path, _ in leaves},
        }
        self._store(kind, name, after, there)
        return Answer(200 if there else 201, _shown(self.stored[(kind, name)]))

    def _owners(self, one: JSON) -> dict[str, set[str]]:
        owners: dict[str, set[str]] = one.setdefault("_owners", {})
        return owners

    def _store(self, kind: str, name: str, after: JSON, there: JSON | None) -> None:
        if there is not None and _content(after) == _content(there):
            return
        self.writes += 1
        self._version += 1
        metadata = after["metadata"]
        metadata["resourceVersion"] = str(self._version)
        same = there is not None and after.get("spec") == there.get("spec")
        before = there["metadata"].get("generation", 0) if there else 0
        metadata["generation"] = before if same else before + 1
        self.stored[(kind, name)] = after
        self._judge_all()

    def _judge_all(self) -> None:
        if not self.silent:
            for (kind, _), one in self.stored.items():
                if kind == "HTTPRoute":
                    self._judge(one)

    def _judge(self, route: JSON) -> None:
        """What the controller says of a route: on filters that it knows, and on its backends."""
        accepted = ("True", "Accepted", "Route is accepted")
        resolved = ("True", "ResolvedRefs", "")
        for rule in route["spec"]["rules"]:
            for backend in rule.get("backendRefs", ()):
                if backend.get("filters") and not self.backend_filters:
                    accepted = ("False", "UnsupportedValue",
                                "filters within backendRefs are not supported")  # fmt: skip
                if ("Service", backend["name"]) not in self.stored:
                    resolved = ("False", "BackendNotFound", f"Service {backend['name']} not found")
        conditions = [
            {"type": kind, "status": status, "reason": reason, "message": message,
             "observedGeneration": route["metadata"]["generation"]}
            for kind, (status, reason, message) in
            (("Accepted", accepted), ("ResolvedRefs", resolved))
        ]  # fmt: skip
        parent = {"parentRef": route["spec"]["parentRefs"][0], "controllerName": CONTROLLER}
        if route["spec"]["parentRefs"][0]["name"] == self.gateway:
            route["status"] = {"parents": [{**parent, "conditions": conditions}]}

    def stop(self) -> None:
        self.api.go_away()
        self.proxy.stop()


def _status(code: int, reason: str, message: str) -> Answer:
    body = {
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": code,
    }  # fmt: skip
    return Answer(code, body)


def _shown(one: JSON) -> JSON:
    shown = {key: value for key, value in copy.deepcopy(one).items() if key != "_owners"}
    shown["metadata"]["managedFields"] = [
        {"manager": name, "operation": "Apply"} for name in one.get("_owners", {})
    ]
    return shown


def _content(one: Mapping[str, Any]) -> JSON:
    kept = {k: v for k, v in one.items() if k not in ("status", "_owners", "metadata")}
    metadata = one["metadata"]
    return {**kept, "labels": metadata.get("labels"), "notes": metadata.get("annotations")}


def _leaves(one: Mapping[str, Any], path: str = "") -> set[tuple[str, str]]:
    """Each field with its value; a list is one field, as lists without keys are in the schemas."""
    found: set[tuple[str, str]] = set()
    for key, value in one.items():
        if not path and key not in ("spec", "endpoints", "ports", "addressType", "metadata"):
            continue
        if path == ".metadata" and key not in ("labels", "annotations"):
            continue
        here = f"{path}.{key}"
        if isinstance(value, Mapping):
            found |= _leaves(value, here)
        else:
            found.add((here, json.dumps(value, sort_keys=True)))
    return found


def _at(one: Mapping[str, Any], path: str) -> str:
    return dict(_leaves(one)).get(path, "")


def _merged(there: JSON | None, wanted: JSON, owned: set[str]) -> JSON:
    """What is there with our fields as they are wanted; fields that we no longer want go."""
    after = copy.deepcopy(there) if there else {"metadata": {}}
    _lay_over(after, wanted)
    gone = owned - {path for path, _ in _leaves(wanted)}
    for path in gone:
        *parents, last = path.strip(".").split(".")
        place = after
        for parent in parents:
            place = place.get(parent, {})
        place.pop(last, None)
    return after


def _lay_over(under: JSON, over: Mapping[str, Any]) -> None:
    for key, value in over.items():
        if isinstance(value, Mapping) and isinstance(under.get(key), dict):
            _lay_over(under[key], value)
        else:
            under[key] = copy.deepcopy(value)
