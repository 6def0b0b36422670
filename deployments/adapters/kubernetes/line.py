"""One Gateway of Kubernetes: objects are applied, and the controller's word on them is read back.

The API server takes objects one by one. So all that changes is tried first (a dry run, which
refuses before anything is written); then Services and their addresses, then the routes; and only
when the controller has accepted those does what nobody needs any more go.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from console.errors import Unavailable
from deployments.adapters.kubernetes.api import KubernetesApi
from deployments.adapters.kubernetes.objects import JSON, Site, objects
from deployments.adapters.reaching import Line, NotYet, Refused
from deployments.rules.gateways.snapshots import Cluster, Snapshot
from deployments.rules.gateways.state import NodeAddress

STATUS_WITHIN_S = 5.0
LOOK_EVERY_S = 0.1
KINDS = ("HTTPRoute", "EndpointSlice", "Service")
"""In the order in which they may go: a route before what it leads to."""


class KubernetesLine(Line):
    """Reaches one Gateway by the API of its cluster."""

    def __init__(
        self, api: KubernetesApi, site: Site, close: Callable[[], Awaitable[None]]
    ) -> None:
        self._api = api
        self._site = site
        self._close = close

    async def probe(self) -> str:
        """The API server's version."""
        return await self._api.version()

    async def apply(self, snapshot: Snapshot) -> bool:
        """Apply what differs, wait for the controller's word, then delete what is left over."""
        wanted = objects(await with_addresses(snapshot), self._site)
        there = await self._present()
        changed = [one for one in wanted.backends + wanted.routes if _differs(one, there)]
        for one in changed:
            await self._api.apply(one, dry=True)
        for one in changed:
            await self._api.apply(one)
        await self._accepted({one["metadata"]["name"] for one in wanted.routes})
        names = {_name(one) for one in wanted.backends + wanted.routes}
        # The routes that nobody needs go before what they lead to.
        gone = [name for name in there if name not in names]
        for kind, name in sorted(gone, key=lambda one: KINDS.index(one[0])):
            await self._api.remove(kind, name)
        return bool(changed or gone)

    async def close(self) -> None:
        """Hang up."""
        await self._close()

    async def _present(self) -> dict[tuple[str, str], JSON]:
        found: dict[tuple[str, str], JSON] = {}
        for kind in KINDS:
            for one in await self._api.list(kind, self._site.selector):
                found[(kind, str(one["metadata"]["name"]))] = one
        return found

    async def _accepted(self, names: set[str]) -> None:
        """Wait until the controller has accepted these routes. Raises Refused, NotYet."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + STATUS_WITHIN_S
        while True:
            routes = await self._api.list("HTTPRoute", self._site.selector)
            silent = [
                one["metadata"]["name"]
                for one in routes
                if one["metadata"]["name"] in names and not is_accepted(one, self._site)
            ]
            if not silent:
                return
            if loop.time() >= deadline:
                raise NotYet(
                    f"no controller has said anything on {len(silent)} routes ({silent[0]}): does "
                    f"one run for the Gateway {self._site.parent}?"
                )
            await asyncio.sleep(LOOK_EVERY_S)


def is_accepted(route: Mapping[str, Any], site: Site) -> bool:
    """Whether the Gateway's controller acts on this very generation; False while it is silent.

    Raises Refused with the controller's words where a condition says no.
    """
    metadata = route["metadata"]
    said: dict[str, Mapping[str, Any]] = {}
    for parent in (route.get("status") or {}).get("parents", ()):
        if parent["parentRef"].get("name") != site.parent:
            continue
        for condition in parent.get("conditions", ()):
            if condition.get("observedGeneration", 0) >= metadata.get("generation", 0):
                said[condition["type"]] = condition
    for kind in ("Accepted", "ResolvedRefs"):
        condition = said.get(kind, {})
        # Pending is not a no: the controller has not come to it.
        if condition.get("status") == "False" and condition.get("reason") != "Pending":
            raise Refused(
                "HTTPRoute",
                f"{metadata['name']}: {kind} is False ({condition.get('reason', '')}): "
                f"{condition.get('message', '')}".strip(),
            )
    partly = said.get("PartiallyInvalid", {})
    if partly.get("status") == "True":
        raise Refused("HTTPRoute", f"{metadata['name']}: {partly.get('message', '')}")
    return all(said.get(k, {}).get("status") == "True" for k in ("Accepted", "ResolvedRefs"))


async def with_addresses(snapshot: Snapshot) -> Snapshot:
    """The snapshot with every node's host name looked up: EndpointSlices hold addresses.

    Raises Unavailable for a name that leads nowhere.
    """
    found: dict[str, str] = {}
    loop = asyncio.get_running_loop()
    for cluster in snapshot.clusters:
        for node in cluster.target.nodes if cluster.target else ():
            if node.host in found:
                continue
            try:
                looked = await loop.getaddrinfo(node.host, None, type=socket.SOCK_STREAM)
            except OSError as fault:
                raise Unavailable(
                    f"The node {node.node} is registered as {node.host}, which has no address: "
                    f"{fault}.",
                    code="node_without_address",
                ) from fault
            found[node.host] = str(looked[0][4][0])
    return replace(
        snapshot, clusters=tuple(_at_addresses(cluster, found) for cluster in snapshot.clusters)
    )


def _at_addresses(cluster: Cluster, found: Mapping[str, str]) -> Cluster:
    if cluster.target is None:
        return cluster
    nodes: Iterable[NodeAddress] = (
        replace(node, host=found[node.host]) for node in cluster.target.nodes
    )
    return replace(cluster, target=replace(cluster.target, nodes=tuple(nodes)))


def _name(one: Mapping[str, Any]) -> tuple[str, str]:
    return one["kind"], one["metadata"]["name"]


def _differs(wanted: JSON, there: Mapping[tuple[str, str], JSON]) -> bool:
    # What a list answers says its kind once, not for each object.
    asked = {key: value for key, value in wanted.items() if key not in ("kind", "apiVersion")}
    found = there.get(_name(wanted))
    return found is None or not _holds(found, asked)


def _holds(found: Any, wanted: Any) -> bool:
    """Whether what is there says all that is wanted; defaults that the server adds do not count."""
    if isinstance(wanted, Mapping):
        return isinstance(found, Mapping) and all(
            _holds(found.get(key), value) for key, value in wanted.items()
        )
    if isinstance(wanted, list) and isinstance(found, list):
        return len(wanted) == len(found) and all(map(_holds, found, wanted))
    return bool(found == wanted)
