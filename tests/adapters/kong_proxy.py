"""The half of the Kong stand-in that takes callers: routes, plugins and targets as in Kong.

It knows the plugins that Covenant uses. The function of pre-function runs for real, in LuaJIT, with
stand-ins for the parts of Kong's plugin development kit that it calls; what it may not call in
Kong's sandbox is not there.
"""

from __future__ import annotations

import random
import re
import threading
import zlib
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException
from typing import Any

from lupa.luajit21 import LuaRuntime

from tests.adapters.http_double import Answer, Asked, HttpDouble

JSON = dict[str, Any]
Stored = Mapping[str, Mapping[str, JSON]]


class KongProxy:
    """Answers callers by the entities that are stored at this moment."""

    def __init__(self, stored: Stored, lock: threading.RLock) -> None:
        self._stored = stored
        self._lock = lock
        self._turns: dict[str, int] = {}
        self._functions: dict[str, Any] = {}
        self._server = HttpDouble(self.answer)
        self.port = self._server.port

    def stop(self) -> None:
        self._server.go_away()

    def answer(self, asked: Asked) -> Answer:
        with self._lock:
            found = self._match(asked)
            if found is None:
                return Answer(404, {"message": "no Route matched with those values"})
            route, rest = found
            service = self._stored["services"].get((route["service"] or {}).get("id", ""))
            plugins = self._plugins(route, service)
            sending = _Sending(asked.headers, service, rest)
            if function := plugins.get("pre-function"):
                for text in function["config"]["access"]:
                    self._run(text, sending)
            if stop := plugins.get("request-termination"):
                config = stop["config"]
                headers = {"content-type": config["content_type"], **sending.response}
                said = Answer(config["status_code"], config["body"].encode(), headers)
                return _transformed(said, plugins.get("response-transformer"))
            if service is None:
                return Answer(503, {"message": "no Service found with those values"})
            targets = self._targets(sending.upstream)
        said = _forward(asked, targets, sending)
        return _transformed(said, plugins.get("response-transformer"))

    def _match(self, asked: Asked) -> tuple[JSON, str] | None:
        found = []
        for route in self._stored["routes"].values():
            rest = _path_rest(route["paths"], asked.path)
            if rest is None or not _fits(route, asked):
                continue
            asks = sum(bool(route[f]) for f in ("methods", "hosts", "headers", "paths"))
            rank = (asks, len(route["headers"] or ()), route["regex_priority"], -len(rest))
            found.append((rank, route["name"], route, rest))
        if not found:
            return None
        _, _, route, rest = max(found, key=lambda one: one[:2])
        return route, rest

    def _plugins(self, route: JSON, service: JSON | None) -> dict[str, JSON]:
        """A route's plugin goes before its service's plugin of the same name."""
        chosen: dict[str, JSON] = {}
        for one in self._stored["plugins"].values():
            if one["service"] and service and one["service"]["id"] == service["id"]:
                chosen.setdefault(one["name"], one)
        for one in self._stored["plugins"].values():
            if one["route"] and one["route"]["id"] == route["id"]:
                chosen[one["name"]] = one
        return chosen

    def _targets(self, upstream: str) -> list[str]:
        """The targets to ask, in order: in turns, as by a ring of equal weights."""
        for one in self._stored["upstreams"].values():
            if one["name"] == upstream:
                targets = sorted(
                    target["target"]
                    for target in self._stored["targets"].values()
                    if target["upstream"]["id"] == one["id"] and target["weight"] > 0
                )
                turn = self._turns[upstream] = self._turns.get(upstream, -1) + 1
                start = turn % len(targets) if targets else 0
                return targets[start:] + targets[:start]
        return [upstream]

    def _run(self, text: str, sending: _Sending) -> None:
        if text not in self._functions:
            lua = LuaRuntime(unpack_returned_tuples=True, register_eval=False)
            lua.globals().python = None
            made = lua.execute(text)
            self._functions[text] = (lua, made)
        lua, function = self._functions[text]
        lua.globals().kong = sending.kit(
            lua, {u["name"] for u in self._stored["upstreams"].values()}
        )
        lua.globals().ngx = lua.table(crc32_long=lambda value: zlib.crc32(value.encode()))
        lua.globals().math.random = lambda low, high: random.randint(low, high)
        function()


class _Sending:
    """Where one request goes, and what the answer will say, as functions may change it."""

    def __init__(self, headers: Mapping[str, str], service: JSON | None, rest: str) -> None:
        self._headers = headers
        self.upstream = service["host"] if service else ""
        self.path = (service["path"] or "") + rest if service else ""
        self.response: dict[str, str] = {}

    def kit(self, lua: Any, upstreams: set[str]) -> Any:
        """The parts of Kong's plugin development kit that are used."""

        def set_upstream(name: str) -> Any:
            if name not in upstreams:
                return None
            self.upstream = name
            return True

        def set_path(path: str) -> None:
            self.path = path

        def set_header(name: str, value: str) -> None:
            self.response[name.lower()] = value

        return lua.table(
            request=lua.table(get_header=lambda name: self._headers.get(name.lower())),
            service=lua.table(set_upstream=set_upstream, request=lua.table(set_path=set_path)),
            response=lua.table(set_header=set_header),
        )


def _fits(route: JSON, asked: Asked) -> bool:
    if route["methods"] and asked.method not in route["methods"]:
        return False
    host = asked.headers.get("host", "").split(":")[0]
    if route["hosts"] and host not in route["hosts"]:
        return False
    # Kong compares values of headers without regard to case.
    return all(
        asked.headers.get(name.lower(), "").lower() in [value.lower() for value in values]
        for name, values in (route["headers"] or {}).items()
    )


def _path_rest(paths: list[str] | None, path: str) -> str | None:
    """What of the path is left after the part that a route strips; None where no path fits."""
    for wanted in paths or ["/"]:
        if wanted.startswith("~"):
            if found := re.match(wanted[1:], path):
                return path[found.end() :]
        elif path.startswith(wanted):
            return path[len(wanted) :]
    return None


def _forward(asked: Asked, targets: list[str], sending: _Sending) -> Answer:
    for target in targets:
        connection = HTTPConnection(target, timeout=5)
        try:
            connection.request(asked.method, sending.path, asked.body)
            reply = connection.getresponse()
            body = reply.read()
        except (OSError, HTTPException):
            continue
        finally:
            connection.close()
        passed = {k.lower(): v for k, v in reply.getheaders() if k.lower() != "content-length"}
        return Answer(reply.status, body, {**passed, **sending.response})
    return Answer(503, {"message": "failure to get a peer from the ring-balancer"})


def _transformed(said: Answer, plugin: JSON | None) -> Answer:
    if plugin is None:
        return said
    headers = {name.lower(): value for name, value in said.headers.items()}
    config = plugin["config"]
    for name in config.get("remove", {}).get("headers", ()):
        headers.pop(name.lower(), None)
    for one in config.get("add", {}).get("headers", ()):
        name, _, value = one.partition(":")
        headers.setdefault(name.lower(), value)
    return Answer(said.status, said.body, headers)
