"""The Kubernetes API of one cluster: server-side apply, lists in pages, and what answers mean."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

import httpx

from console.errors import Unavailable
from deployments.adapters.kubernetes.objects import JSON, MANAGER
from deployments.adapters.reaching import Refused

PAGE = 500

COLLECTIONS = {
    "Service": ("/api/v1", "services"),
    "EndpointSlice": ("/apis/discovery.k8s.io/v1", "endpointslices"),
    "HTTPRoute": ("/apis/gateway.networking.k8s.io/v1", "httproutes"),
}
"""Kind -> where its API group lies, and its plural."""


class KubernetesApi:
    """One namespace of a cluster. Raises Unavailable where it is away, Refused where it says no."""

    def __init__(self, client: httpx.AsyncClient, gateway: str, namespace: str) -> None:
        self._client = client
        self._gateway = gateway
        self._namespace = namespace

    async def version(self) -> str:
        """The API server's version."""
        return str((await self._read("GET", "/version")).get("gitVersion", ""))

    async def list(self, kind: str, selector: str) -> list[JSON]:
        """Every object of a kind that carries our labels, page by page."""
        return [one async for one in self._pages(kind, selector)]

    async def apply(self, wanted: JSON, *, dry: bool = False) -> JSON:
        """Server-side apply: create the object, or make our fields of it what they should be.

        Fields that another manager took over are taken back where the object is ours by its
        labels; an object of the same name that is not ours is refused.
        """
        try:
            return await self._apply(wanted, dry=dry, force=False)
        except _Conflict as conflict:
            metadata = wanted["metadata"]
            path = self._path(wanted["kind"], metadata["name"])
            there = await self._read("GET", path, part=wanted["kind"])
            labels = there["metadata"].get("labels") or {}
            if any(labels.get(name) != value for name, value in metadata["labels"].items()):
                raise Refused(wanted["kind"], str(conflict)) from conflict
        return await self._apply(wanted, dry=dry, force=True)

    async def remove(self, kind: str, name: str) -> None:
        """Delete an object; one that is gone is gone."""
        reply = await self._send("DELETE", self._path(kind, name))
        if reply.status_code != httpx.codes.NOT_FOUND:
            self._check(reply, kind)

    async def _apply(self, wanted: JSON, *, dry: bool, force: bool) -> JSON:
        query = {"fieldManager": MANAGER, "force": str(force).lower()}
        if dry:
            query["dryRun"] = "All"
        path = self._path(wanted["kind"], wanted["metadata"]["name"])
        # JSON is YAML, which is what the API takes for an apply.
        headers = {"content-type": "application/apply-patch+yaml"}
        reply = await self._send("PATCH", path, query, json.dumps(wanted), headers)
        if reply.status_code == httpx.codes.CONFLICT:
            raise _Conflict(_words(reply))
        return self._check(reply, wanted["kind"])

    async def _pages(self, kind: str, selector: str) -> AsyncIterator[JSON]:
        query: dict[str, Any] = {"labelSelector": selector, "limit": PAGE}
        while True:
            page = await self._read("GET", self._path(kind), query, part=kind)
            for one in page["items"]:
                yield one
            if not (token := page["metadata"].get("continue")):
                return
            query["continue"] = token

    def _path(self, kind: str, name: str = "") -> str:
        group, plural = COLLECTIONS[kind]
        return f"{group}/namespaces/{self._namespace}/{plural}" + (f"/{name}" if name else "")

    async def _read(
        self, method: str, path: str, query: Mapping[str, Any] | None = None, part: str = ""
    ) -> JSON:
        return self._check(await self._send(method, path, query), part or path)

    async def _send(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any] | None = None,
        content: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        try:
            return await self._client.request(
                method, path, params=query, content=content, headers=headers
            )
        except httpx.HTTPError as fault:
            raise self._away(repr(fault)) from fault

    def _check(self, reply: httpx.Response, part: str) -> JSON:
        # 401: a token that ran out; 410: a list too old to go on with. Both pass by themselves.
        if reply.status_code >= 500 or reply.status_code in (401, 408, 410, 429):
            raise self._away(f"it answers {reply.status_code}: {_words(reply)}")
        if reply.is_error:
            raise Refused(part, _words(reply))
        try:
            found = reply.json()
        except ValueError as fault:
            raise self._away("what answers there is not the Kubernetes API") from fault
        return found if isinstance(found, dict) else {}

    def _away(self, why: str) -> Unavailable:
        return Unavailable(
            f"The Kubernetes API of {self._gateway} cannot be used: {why}.",
            code="gateway_unreachable",
            hint="Check its address, its token and its certificate authority.",
        )


class _Conflict(Exception):
    """Another manager owns a field that we would change."""


def _words(reply: httpx.Response) -> str:
    """The `message` of the Status that Kubernetes answers with."""
    try:
        said = reply.json()
    except ValueError:
        return reply.text[:500]
    return str(said.get("message") or said) if isinstance(said, dict) else str(said)
