"""The reading side of live events: one Redis reader per web process, a bounded queue per viewer.

A viewer that is too slow, or whose last event is no longer kept, is told to `resync`: it reads
the state anew instead of being sent what it missed.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

import redis.asyncio as async_redis
from django.conf import settings
from redis import RedisError

from console.live import STREAM

QUEUE_SIZE = 256
BLOCK_MS = 5_000
RECONNECT_SECONDS = 0.3
REPLAY_LIMIT = 2_000

# As redis-py gives them with decode_responses: (entry id, its fields).
Entries = list[tuple[str, dict[str, str]]]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LiveEvent:
    """One event with its place in the stream; `text` is the JSON that a viewer gets."""

    id: str
    topic: str
    text: str


@dataclass(frozen=True, slots=True)
class Place:
    """Where a stream begins: after an event, at a time (milliseconds since 1970), or now."""

    event_id: str = ""
    since_ms: int | None = None


# Everything a viewer shows may be out of date: read it anew.
RESYNC = LiveEvent(id="", topic="*", text=json.dumps({"topic": "*", "type": "resync"}))


class Subscription:
    """One viewer's place: the topics it listens to and what it has not been sent yet."""

    def __init__(self, topics: Collection[str], position: str) -> None:
        self.topics = frozenset(topics)
        self.position = position
        self._queue: asyncio.Queue[LiveEvent] = asyncio.Queue(QUEUE_SIZE)

    def offer(self, event: LiveEvent) -> None:
        """Queue the event when it is for this viewer; a full queue becomes one resync."""
        if event is not RESYNC and event.topic not in self.topics:
            return
        try:
            self._queue.put_nowait(event)
        except asyncio.QueueFull:
            while not self._queue.empty():
                self._queue.get_nowait()
            self._queue.put_nowait(RESYNC)

    def put_before(self, missed: Collection[LiveEvent]) -> None:
        """Queue what came earlier in front of what came meanwhile."""
        later = []
        while not self._queue.empty():
            later.append(self._queue.get_nowait())
        for event in (*missed, *later):
            self.offer(event)

    async def next(self, seconds: float) -> LiveEvent | None:
        """The next event, or None when there is none for so long."""
        with suppress(TimeoutError):
            return await asyncio.wait_for(self._queue.get(), seconds)
        return None


class Feed:
    """The one reader of this process; it starts with the first viewer and ends with the last."""

    def __init__(self) -> None:
        self._subscriptions: set[Subscription] = set()
        self._reader: asyncio.Task[None] | None = None
        self._ready = asyncio.Event()
        self._position = "0-0"

    @asynccontextmanager
    async def subscribe(self, topics: Collection[str], place: Place) -> AsyncIterator[Subscription]:
        """Listen to `topics`, from `place` on as far as what came since is still kept.

        Without Redis a viewer is connected all the same: it gets a resync when Redis is back.
        """
        if self._reader is None:
            self._reader = asyncio.create_task(self._read_forever(), name="live-feed")
        with suppress(TimeoutError):
            await asyncio.wait_for(self._ready.wait(), 1.0)
        subscription = Subscription(topics, self._position)
        self._subscriptions.add(subscription)
        try:
            if place.event_id or place.since_ms is not None:
                await self._replay(subscription, place)
            yield subscription
        finally:
            self._subscriptions.discard(subscription)
            if not self._subscriptions and self._reader is not None:
                self._reader.cancel()
                self._reader = None
                self._ready = asyncio.Event()

    async def _replay(self, subscription: Subscription, place: Place) -> None:
        """Queue what came after `place` up to where the reader stands."""
        start = f"({place.event_id}" if place.event_id else f"{place.since_ms}-0"
        try:
            async with _client() as client:
                first: Entries = await client.xrange(STREAM, count=1)
                missed: Entries = await client.xrange(
                    STREAM, start, subscription.position, count=REPLAY_LIMIT
                )
        except RedisError:
            subscription.offer(RESYNC)
            return
        lost = place.event_id and (not first or _order(first[0][0]) > _order(place.event_id))
        if lost or len(missed) >= REPLAY_LIMIT:
            subscription.offer(RESYNC)
            return
        subscription.put_before([_event(entry_id, fields) for entry_id, fields in missed])

    async def _read_forever(self) -> None:
        was_lost = False
        while True:
            try:
                async with _client() as client:
                    self._position = await _tail(client)
                    self._ready.set()
                    if was_lost:
                        self._tell(RESYNC)
                        was_lost = False
                    await self._read(client)
            except (RedisError, OSError) as error:
                if not was_lost:
                    log.warning("live events are interrupted: %s", error)
                was_lost = True
                await asyncio.sleep(RECONNECT_SECONDS)

    async def _read(self, client: Any) -> None:
        while True:
            answer: list[tuple[str, Entries]] = await client.xread(
                {STREAM: self._position}, count=500, block=BLOCK_MS
            )
            for _, entries in answer or ():
                for entry_id, fields in entries:
                    self._position = entry_id
                    self._tell(_event(entry_id, fields))

    def _tell(self, event: LiveEvent) -> None:
        for subscription in self._subscriptions:
            subscription.offer(event)


_feeds: dict[int, Feed] = {}


def feed() -> Feed:
    """The feed of the running event loop (a web process has one)."""
    return _feeds.setdefault(id(asyncio.get_running_loop()), Feed())


@asynccontextmanager
async def _client() -> AsyncIterator[Any]:
    client = async_redis.Redis.from_url(
        settings.REDIS_URL,
        socket_connect_timeout=1.0,
        # Above the longest block, so that silence is no fault and a dead peer is one.
        socket_timeout=BLOCK_MS / 1000 + 3,
        decode_responses=True,
        protocol=2,
    )
    try:
        yield client
    finally:
        await client.aclose()


async def _tail(client: Any) -> str:
    """The id of the newest event; 0-0 when there is none."""
    newest = await client.xrevrange(STREAM, count=1)
    return str(newest[0][0]) if newest else "0-0"


def _event(entry_id: str, fields: dict[str, str]) -> LiveEvent:
    try:
        data: dict[str, Any] = json.loads(fields["data"])
        text = json.dumps({**data, "topic": fields["topic"], "type": fields["event"]})
    except (KeyError, ValueError, TypeError) as error:
        # Somebody else wrote into the stream: that must not end the reading for all.
        log.warning("entry %s of the live events cannot be read: %r", entry_id, error)
        return RESYNC
    return LiveEvent(entry_id, fields["topic"], text)


def _order(entry_id: str) -> tuple[int, int]:
    milliseconds, _, sequence = entry_id.partition("-")
    return int(milliseconds), int(sequence or 0)
