"""One Kong, reached by its Admin API: what differs is written, make before break.

Kong has no transaction over several entities. So everything that changes is checked by Kong first
(it refuses before anything is written); then what requests will need, then what leads there, then
what nobody needs any more goes.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping, Sized
from dataclasses import dataclass
from typing import Any

from deployments.adapters.kong.admin import AdminApi
from deployments.adapters.kong.entities import JSON, KINDS, Entity, Site, entities
from deployments.adapters.reaching import Line, Refused
from deployments.rules.gateways.snapshots import Snapshot

Removal = tuple[str, str, str]
"""Kind, id, and for a target its upstream."""

_STEPS = {"upstreams": 0, "targets": 1, "services": 2, "routes": 3, "plugins": 4}
_LAST = {"routes": 0, "plugins": 1, "services": 2, "targets": 3, "upstreams": 4}
_LEADING = ("routes", "plugins")


@dataclass(frozen=True, slots=True)
class Changes:
    """What to write and what to delete, in order; what leads somewhere apart from where it leads.

    Nobody may act on a part before the part ahead of it is known to all of Kong's workers.
    """

    backends: tuple[Entity, ...]
    leading: tuple[Entity, ...]
    not_leading: tuple[Removal, ...]
    no_backends: tuple[Removal, ...]


class KongLine(Line):
    """Reaches one Kong that keeps its configuration in a database."""

    def __init__(self, api: AdminApi, site: Site, close: Any) -> None:
        self._api = api
        self._site = site
        self._close = close
        self._settle_s = 0.0
        self._without_database = False
        self._fresh: dict[str, tuple[Entity, float]] = {}

    async def probe(self) -> str:
        """Kong's version; and how long its workers may take, by its own configuration."""
        about = await self._api.about()
        self._settle_s = settle_seconds(about.get("configuration", {}))
        self._without_database = about.get("configuration", {}).get("database") == "off"
        return str(about.get("version", ""))

    async def apply(self, snapshot: Snapshot) -> bool:
        """Write what differs, and wait until Kong's workers must have taken it up."""
        wanted = entities(snapshot, self._site)
        if self._without_database:
            raise Refused(
                "configuration",
                "This Kong runs without a database, so its Admin API takes no changes. Load the "
                "exported kong.yaml instead.",
            )
        changes = changes_between(wanted, await self._present())
        for entity in changes.backends + changes.leading:
            await self._api.check(entity)
        for entity in changes.backends:
            self._fresh[entity.id] = (entity, asyncio.get_running_loop().time() + self._settle_s)
            await self._api.write(entity)
        await self._until_known(changes.leading)
        for entity in changes.leading:
            await self._api.write(entity)
        await self._settle(changes.leading)
        await self._remove(changes.not_leading)
        await self._settle(changes.not_leading)
        await self._remove(changes.no_backends)
        return changes != Changes((), (), (), ())

    async def close(self) -> None:
        """Hang up."""
        await self._close()

    async def _remove(self, removals: Iterable[Removal]) -> None:
        for kind, id, parent in removals:
            await self._api.remove(kind, id, parent)

    async def _until_known(self, leading: Iterable[Entity]) -> None:
        """Wait until Kong's workers know the backends that these lead to, and no longer.

        What leads to backends that have been there, as a rollback does, does not wait.
        """
        now = asyncio.get_running_loop().time()
        self._fresh = {id: one for id, one in self._fresh.items() if one[1] > now}
        said = json.dumps([dict(entity.body) for entity in leading])
        waits = [
            known_at
            for id, (entity, known_at) in self._fresh.items()
            if id in said or str(entity.body.get("name") or entity.parent) in said
        ]
        if waits:
            await asyncio.sleep(max(waits) - now)

    async def _settle(self, changed: Sized) -> None:
        if changed:
            await asyncio.sleep(self._settle_s)

    async def _present(self) -> dict[tuple[str, str], JSON]:
        found: dict[tuple[str, str], JSON] = {}
        for kind in KINDS:
            if kind == "targets":
                continue
            for one in await self._api.all_tagged(kind, self._site.tag):
                found[(kind, one["id"])] = one
                if kind == "upstreams":
                    for target in await self._api.targets(one["id"]):
                        found[("targets", target["id"])] = target
        return found


def changes_between(
    wanted: Iterable[Entity], found: Mapping[tuple[str, str], Mapping[str, Any]]
) -> Changes:
    """What to write and delete so that Kong has what is wanted; nothing where it has it.

    Plugins come after the routes that are new and before those that change: so an answer of the
    gateway is complete before its route lets callers in.
    """
    wanted = tuple(wanted)
    names = {(entity.kind, entity.id) for entity in wanted}
    writes = [
        entity
        for entity in wanted
        if (entity.kind, entity.id) not in found
        or not _holds(found[(entity.kind, entity.id)], entity.body)
    ]

    def step(entity: Entity) -> int:
        changes = entity.kind == "routes" and (entity.kind, entity.id) in found
        return len(_STEPS) if changes else _STEPS[entity.kind]

    removals = [
        (kind, id, str(body.get("upstream", {}).get("id", "")) if kind == "targets" else "")
        for (kind, id), body in found.items()
        if (kind, id) not in names
    ]
    writes.sort(key=step)
    removals.sort(key=lambda removal: _LAST[removal[0]])
    return Changes(
        backends=tuple(entity for entity in writes if entity.kind not in _LEADING),
        leading=tuple(entity for entity in writes if entity.kind in _LEADING),
        not_leading=tuple(removal for removal in removals if removal[0] in _LEADING),
        no_backends=tuple(removal for removal in removals if removal[0] not in _LEADING),
    )


def settle_seconds(configuration: Mapping[str, Any]) -> float:
    """How long after a change Kong's nodes may still act as before, by Kong's own configuration.

    Other nodes look into the database each `db_update_frequency`; workers take up new routes each
    `worker_state_update_frequency` unless they are strict.
    """
    seconds = float(configuration.get("db_update_frequency", 5))
    seconds += float(configuration.get("db_update_propagation", 0))
    if configuration.get("worker_consistency", "eventual") != "strict":
        seconds += float(configuration.get("worker_state_update_frequency", 5))
    return seconds


def _holds(found: Any, wanted: Any) -> bool:
    """Whether what is there says all that is wanted; what Kong adds by itself does not count."""
    if isinstance(wanted, Mapping):
        return isinstance(found, Mapping) and all(
            _holds(found.get(key), value) for key, value in wanted.items()
        )
    if isinstance(wanted, list) and isinstance(found, list):
        # Most of Kong's lists are sets.
        return sorted(map(repr, found)) == sorted(map(repr, wanted))
    return bool(found == wanted)
