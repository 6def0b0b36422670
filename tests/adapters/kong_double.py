"""A stand-in for Kong at its Admin API: entities, their checks, and the faults that Kong answers.

Status codes, bodies and codes of faults, defaults, paging by `offset`, tags, unique names and
foreign keys are those of Kong 3. It knows the fields of the entities that Covenant writes, and
refuses others, as Kong does.
"""

from __future__ import annotations

import base64
import re
import threading
import time
from collections.abc import Mapping
from typing import Any

from lupa.luajit21 import LuaError, LuaRuntime

from tests.adapters.http_double import Answer, Asked, HttpDouble
from tests.adapters.kong_proxy import KongProxy

JSON = dict[str, Any]

KINDS = ("services", "routes", "upstreams", "plugins")
_DEFAULTS: dict[str, JSON] = {
    "services": {
        "name": None, "protocol": "http", "host": None, "port": 80, "path": None, "retries": 5,
        "connect_timeout": 60000, "write_timeout": 60000, "read_timeout": 60000, "tags": None,
        "enabled": True,
    },
    "routes": {
        "name": None, "protocols": ["http", "https"], "methods": None, "hosts": None,
        "paths": None, "headers": None, "regex_priority": 0, "strip_path": True,
        "preserve_host": False, "service": None, "tags": None,
    },
    "upstreams": {
        "name": None, "algorithm": "round-robin", "hash_on": "none", "hash_fallback": "none",
        "slots": 10000, "healthchecks": {}, "tags": None,
    },
    "targets": {"target": None, "weight": 100, "upstream": None, "tags": None},
    "plugins": {
        "name": None, "config": {}, "route": None, "service": None, "enabled": True, "tags": None,
    },
}  # fmt: skip
_NEEDED = {
    "services": ("host",), "routes": (), "upstreams": ("name",), "targets": ("target",),
    "plugins": ("name",),
}  # fmt: skip
PLUGINS = (
    "pre-function", "request-termination", "response-transformer", "request-transformer",
    "prometheus",
)  # fmt: skip
_HOST = re.compile(r"[\w.-]+\Z")


class KongDouble:
    """A Kong with a database: an Admin API and a proxy that routes by what it was told."""

    def __init__(self, *, token: str = "", page: int = 100) -> None:
        self.token = token
        self.page = page
        self.configuration: JSON = {
            "database": "postgres", "db_update_frequency": 0.01, "db_update_propagation": 0,
            "worker_consistency": "strict", "worker_state_update_frequency": 5,
            "untrusted_lua": "sandbox",
        }  # fmt: skip
        self.stored: dict[str, dict[str, JSON]] = {kind: {} for kind in (*KINDS, "targets")}
        self.writes = 0
        self.lock = threading.RLock()
        self.admin = HttpDouble(self.answer)
        self.proxy = KongProxy(self.stored, self.lock)

    def answer(self, asked: Asked) -> Answer:
        if self.token and asked.headers.get("kong-admin-token") != self.token:
            return Answer(
                401, {"message": "Invalid credentials. Token or User credentials required"}
            )
        with self.lock:
            try:
                return self._route(asked)
            except _Fault as fault:
                return Answer(fault.status, fault.body)

    def _route(self, asked: Asked) -> Answer:
        match [part for part in asked.path.split("/") if part]:
            case []:
                plugins = {"available_on_server": dict.fromkeys(PLUGINS, True)}
                about = {"version": "3.9.1", "configuration": self.configuration}
                return Answer(200, {**about, "plugins": plugins})
            case ["schemas", kind, "validate"]:
                body = asked.json
                body.pop("id", None)
                self._check(kind, body)
                return Answer(200, {"message": "schema validation successful"})
            case ["upstreams", upstream, "targets"]:
                return self._targets(asked, self._upstream(upstream))
            case ["upstreams", upstream, "targets", target]:
                self._delete("targets", self._target(self._upstream(upstream), target))
                return Answer(204)
            case [kind] if kind in KINDS and asked.method == "GET":
                return self._page(kind, asked, list(self.stored[kind].values()))
            case [kind, id] if kind in KINDS and asked.method == "PUT":
                return Answer(200, self._put(kind, id, asked.json))
            case [kind, id] if kind in KINDS and asked.method == "DELETE":
                self._delete(kind, id)
                return Answer(204)
        return Answer(404, {"message": "Not found"})

    def _targets(self, asked: Asked, upstream: str) -> Answer:
        there = [t for t in self.stored["targets"].values() if t["upstream"]["id"] == upstream]
        if asked.method == "GET":
            return self._page("targets", asked, there)
        body = {**asked.json, "upstream": {"id": upstream}}
        if any(one["target"] == body.get("target") for one in there):
            raise _unique({"target": body["target"], "upstream": {"id": upstream}})
        id = body.pop("id", "") or f"{len(there)}-{upstream}"
        return Answer(201, self._put("targets", id, body))

    def _page(self, kind: str, asked: Asked, found: list[JSON]) -> Answer:
        tags = [tag for tag in asked.query.get("tags", "").split(",") if tag]
        found = [one for one in found if set(tags) <= set(one["tags"] or ())]
        size = int(asked.query.get("size", 100))
        if not 1 <= size <= 1000:
            raise _Fault(400, 9, "invalid size", "size must be an integer between 1 and 1000")
        start = 0
        if given := asked.query.get("offset"):
            try:
                start = int(base64.b64decode(given, validate=True))
            except ValueError as error:
                raise _Fault(
                    400,
                    7,
                    "invalid offset",
                    f"'{given}' is not a valid offset: bad base64 encoding",
                ) from error
        end = start + min(size, self.page)
        page: JSON = {"data": found[start:end], "next": None}
        if end < len(found):
            page["offset"] = base64.b64encode(str(end).encode()).decode()
            page["next"] = f"/{kind}?offset={page['offset']}"
        return Answer(200, page)

    def _put(self, kind: str, id: str, body: JSON) -> JSON:
        self._check(kind, body)
        self._check_keys(kind, id, body)
        now = int(time.time())
        made = {**_DEFAULTS[kind], **body, "id": id, "updated_at": now}
        made["created_at"] = self.stored[kind].get(id, {}).get("created_at", now)
        self.stored[kind][id] = made
        self.writes += 1
        return made

    def _check(self, kind: str, body: Mapping[str, Any]) -> None:
        if kind not in _DEFAULTS:
            raise _Fault(404, 6, "not found", f"No entity named '{kind}'")
        faults = {name: "unknown field" for name in body if name not in _DEFAULTS[kind]}
        faults |= {n: "required field missing" for n in _NEEDED[kind] if body.get(n) is None}
        faults |= _field_faults(kind, body)
        if kind == "plugins":
            faults |= self._plugin_faults(body)
        if faults:
            words = "; ".join(f"{name}: {fault}" for name, fault in sorted(faults.items()))
            several = f"{len(faults)} schema violations" if len(faults) > 1 else "schema violation"
            raise _Fault(400, 2, "schema violation", f"{several} ({words})", faults)

    def _check_keys(self, kind: str, id: str, body: Mapping[str, Any]) -> None:
        """What only the database knows; Kong's validation of a schema does not look at it."""
        for field, other in (
            ("service", "services"),
            ("route", "routes"),
            ("upstream", "upstreams"),
        ):
            key = body.get(field)
            if key and key["id"] not in self.stored[other]:
                raise _foreign(field, key, other)
        for other_id, one in self.stored[kind].items():
            named = kind != "plugins" and one.get("name") and one["name"] == body.get("name")
            if other_id != id and named:
                raise _unique({"name": one["name"]})

    def _plugin_faults(self, body: Mapping[str, Any]) -> dict[str, str]:
        name = body.get("name")
        if name not in PLUGINS:
            return {"name": f"plugin '{name}' not enabled; add it to the 'plugins' configuration "
                            "property"}  # fmt: skip
        if name != "pre-function":
            return {}
        if self.configuration["untrusted_lua"] == "off":
            return {"config.access.1": "loading of untrusted Lua code disabled because "
                                       "'untrusted_lua' config option is set to 'off'"}  # fmt: skip
        try:
            for function in body["config"].get("access", ()):
                LuaRuntime().compile(function)
        except LuaError as error:
            return {"config.access.1": f"Error parsing function: {error}"}
        return {}

    def _delete(self, kind: str, id: str) -> None:
        if id not in self.stored[kind]:
            return
        if kind == "services" and any(
            (route["service"] or {}).get("id") == id for route in self.stored["routes"].values()
        ):
            raise _Fault(
                400, 4, "foreign key violation",
                "an existing 'routes' entity references this 'services' entity",
                {"@referenced_by": "routes"},
            )  # fmt: skip
        del self.stored[kind][id]
        self.writes += 1
        field = {"services": "service", "routes": "route", "upstreams": "upstream"}.get(kind)
        for child in ("plugins", "targets"):
            for other, one in list(self.stored[child].items()):
                if field and (one.get(field) or {}).get("id") == id:
                    del self.stored[child][other]

    def _upstream(self, named: str) -> str:
        for id, one in self.stored["upstreams"].items():
            if named in (id, one["name"]):
                return id
        raise _Fault(404, 6, "not found", "Not found")

    def _target(self, upstream: str, named: str) -> str:
        for id, one in self.stored["targets"].items():
            if one["upstream"]["id"] == upstream and named in (id, one["target"]):
                return id
        raise _Fault(404, 6, "not found", "Not found")

    def stop(self) -> None:
        self.admin.go_away()
        self.proxy.stop()


class _Fault(Exception):
    """A fault in the form in which Kong answers it."""

    def __init__(
        self, status: int, code: int, name: str, message: str, fields: object = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.body = {"code": code, "name": name, "message": message, "fields": fields or {}}


def _unique(key: JSON) -> _Fault:
    shown = ",".join(f'{name}="{value}"' for name, value in key.items())
    message = f"UNIQUE violation detected on '{{{shown}}}'"
    return _Fault(409, 5, "unique constraint violation", message, key)


def _foreign(field: str, key: JSON, other: str) -> _Fault:
    message = (
        f"the foreign key '{{id=\"{key['id']}\"}}' does not reference an existing '{other}' entity."
    )
    return _Fault(400, 4, "foreign key violation", message, {field: key})


def _field_faults(kind: str, body: Mapping[str, Any]) -> dict[str, str]:
    faults = {}
    if kind == "services" and body.get("path") and not body["path"].startswith("/"):
        faults["path"] = "should start with: /"
    if kind == "services" and not 0 <= body.get("retries", 5) <= 32767:
        faults["retries"] = "value should be between 0 and 32767"
    for field in ("connect_timeout", "write_timeout", "read_timeout"):
        if kind == "services" and not 1 <= body.get(field, 60000) <= 2147483646:
            faults[field] = "value should be between 1 and 2147483646"
    if kind == "upstreams" and not _HOST.match(str(body.get("name"))):
        faults["name"] = "Invalid name; must be a valid hostname"
    if kind == "targets" and not 0 <= body.get("weight", 100) <= 65535:
        faults["weight"] = "value should be between 0 and 65535"
    for path in body.get("paths") or ():
        if kind == "routes" and not path.startswith(("/", "~/")):
            faults["paths"] = "should start with: / (fixed path) or ~/ (regex path)"
    if kind == "routes" and not any(body.get(f) for f in ("methods", "hosts", "paths", "headers")):
        faults["@entity"] = "must set one of 'methods', 'hosts', 'headers', 'paths', 'snis'"
    for tag in body.get("tags") or ():
        if "," in tag or "/" in tag:
            faults["tags"] = f"invalid tag '{tag}': expected printable ascii (except `,` and `/`)"
    return faults
