"""Kong's Admin API: reading all of ours, writing one entity, and what its answers mean."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

import httpx

from console.errors import Unavailable
from deployments.adapters.kong.entities import JSON, Entity
from deployments.adapters.reaching import Refused

PAGE = 500


class AdminApi:
    """One Kong's Admin API. Raises Unavailable where Kong is away, Refused where it says no."""

    def __init__(self, client: httpx.AsyncClient, gateway: str) -> None:
        self._client = client
        self._gateway = gateway

    async def about(self) -> JSON:
        """Kong's version and its own configuration."""
        return await self._json("GET", "/")

    async def all_tagged(self, kind: str, tag: str) -> list[JSON]:
        """Every entity of a kind that carries a tag, page by page."""
        return [one async for one in self._pages(f"/{kind}", {"tags": tag})]

    async def targets(self, upstream: str) -> list[JSON]:
        """All targets of an upstream."""
        return [one async for one in self._pages(f"/upstreams/{upstream}/targets", {})]

    async def check(self, entity: Entity) -> None:
        """Have Kong look at an entity without taking it. Raises Refused."""
        body = {**entity.body, "id": entity.id}
        if entity.parent:
            body["upstream"] = {"id": entity.parent}
        await self._json("POST", f"/schemas/{entity.kind}/validate", body, part=entity.kind)

    async def write(self, entity: Entity) -> None:
        """Create or replace an entity by its id; a target that is there stays as it is."""
        if entity.kind != "targets":
            await self._json("PUT", f"/{entity.kind}/{entity.id}", entity.body, part=entity.kind)
            return
        path = f"/upstreams/{entity.parent}/targets"
        reply = await self._send("POST", path, {**entity.body, "id": entity.id})
        if reply.status_code != httpx.codes.CONFLICT:
            self._read(reply, "targets")

    async def remove(self, kind: str, id: str, parent: str = "") -> None:
        """Delete an entity; one that is gone is gone."""
        path = f"/upstreams/{parent}/targets/{id}" if parent else f"/{kind}/{id}"
        reply = await self._send("DELETE", path)
        if reply.status_code != httpx.codes.NOT_FOUND:
            self._read(reply, kind)

    async def _pages(self, path: str, query: Mapping[str, str]) -> AsyncIterator[JSON]:
        params: dict[str, Any] = {**query, "size": PAGE}
        while True:
            page = await self._json("GET", path, params=params)
            for one in page["data"]:
                yield one
            if not page.get("offset"):
                return
            params["offset"] = page["offset"]

    async def _json(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        params: Mapping[str, Any] | None = None,
        part: str = "",
    ) -> JSON:
        found = self._read(await self._send(method, path, body, params), part or path)
        return found if isinstance(found, dict) else {}

    async def _send(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        params: Mapping[str, Any] | None = None,
    ) -> httpx.Response:
        try:
            return await self._client.request(method, path, json=body, params=params)
        except httpx.HTTPError as fault:
            raise self._away(repr(fault)) from fault

    def _read(self, reply: httpx.Response, part: str) -> object:
        if reply.status_code >= 500 or reply.status_code in (401, 403, 408, 429):
            raise self._away(f"it answers {reply.status_code}: {_words(reply)}")
        if reply.is_error:
            raise Refused(part, _words(reply))
        if not reply.content:
            return None
        try:
            return reply.json()
        except ValueError as fault:
            raise self._away("what answers there is not Kong's Admin API") from fault

    def _away(self, why: str) -> Unavailable:
        return Unavailable(
            f"Kong's Admin API of {self._gateway} cannot be used: {why}.",
            code="gateway_unreachable",
            hint="Check its address, its token, and that Kong runs.",
        )


def _words(reply: httpx.Response) -> str:
    """Kong's own words: `message`, or the whole answer where it has none."""
    try:
        said = reply.json()
    except ValueError:
        return reply.text[:500]
    return str(said.get("message") or said) if isinstance(said, dict) else str(said)
