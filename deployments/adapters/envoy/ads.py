"""The control plane of Envoy gateways: aggregated discovery (ADS), state of the world, by gRPC.

Each Envoy keeps one stream open; `set_snapshot` says what it should have, and the callbacks say
what became of it. With this server gone, gateways go on serving what they have.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import grpc
from envoy.service.discovery.v3 import ads_pb2_grpc, discovery_pb2

from deployments.adapters.envoy.ordering import Delivery, Kind, Memory, Message
from deployments.adapters.envoy.resources import ResourceSet, build
from deployments.adapters.gateway import (
    Acked,
    Connected,
    Disconnected,
    GatewayAdapter,
    Nacked,
    Registration,
)
from deployments.rules.gateways.snapshots import Snapshot

__all__ = ["Acked", "AdsServer", "Connected", "Disconnected", "Nacked"]

_TYPE_URLS = {
    Kind.CLUSTERS: "type.googleapis.com/envoy.config.cluster.v3.Cluster",
    Kind.LISTENERS: "type.googleapis.com/envoy.config.listener.v3.Listener",
    Kind.SECRETS: "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret",
    Kind.FILTERS: "type.googleapis.com/envoy.config.core.v3.TypedExtensionConfig",
    Kind.ROUTES: "type.googleapis.com/envoy.config.route.v3.RouteConfiguration",
}
_KINDS = {url: kind for kind, url in _TYPE_URLS.items()}
LINGER_S = 2.0
"""How long a cluster stays after its last route is gone: longer than a request is on its way."""
_MOST_BYTES = 64 * 1024 * 1024


@dataclass(slots=True)
class _Node:
    """What is known of one gateway, also while it is not connected."""

    snapshot: Snapshot | None = None
    resources: ResourceSet | None = None
    set_at: float = 0.0
    reported: str = ""
    memory: Memory | None = None
    streams: list[_Stream] = field(default_factory=list)


class _Stream:
    """One open stream: requests and wake-ups go in, messages come out."""

    def __init__(self, node: _Node, node_id: str) -> None:
        self.node = node
        self.node_id = node_id
        loop = asyncio.get_running_loop()
        self.delivery = Delivery(node.memory, linger_s=LINGER_S, clock=loop.time)
        self._looks_again: asyncio.TimerHandle | None = None
        self.inbox: asyncio.Queue[Any] = asyncio.Queue()
        self.aimed: Snapshot | None = None

    def wake(self) -> None:
        self.inbox.put_nowait(_WAKE)

    def look_again_for_what_lingers(self) -> None:
        """Wake up once what lingers may go; one timer at a time."""
        if self.delivery.lingers() and self._looks_again is None:
            loop = asyncio.get_running_loop()
            self._looks_again = loop.call_later(LINGER_S, self._look_again)

    def _look_again(self) -> None:
        self._looks_again = None
        self.wake()

    def take_aim(self) -> None:
        if self.node.resources is not None and self.aimed is not self.node.snapshot:
            self.delivery.aim(self.node.resources)
            self.aimed = self.node.snapshot


_WAKE = object()
_END = object()


class AdsServer(
    ads_pb2_grpc.AggregatedDiscoveryServiceServicer,  # type: ignore[misc] # it has no stubs
    GatewayAdapter,
):
    """Serves any number of gateways, told apart by their node id.

    The callbacks run in the event loop and must not block.
    """

    def __init__(
        self,
        *,
        on_connect: Callable[[Connected], None],
        on_disconnect: Callable[[Disconnected], None],
        on_ack: Callable[[Acked], None],
        on_nack: Callable[[Nacked], None],
    ) -> None:
        self._on_connect = on_connect
        self._on_disconnect = on_disconnect
        self._on_ack = on_ack
        self._on_nack = on_nack
        self._nodes: dict[str, _Node] = {}
        self._server: Any = None

    async def start(self, address: str) -> int:
        """Listen on "host:port" (port 0 chooses a free one) and return the port.

        Raises RuntimeError when the address cannot be taken.
        """
        self._server = grpc.aio.server(
            options=[
                ("grpc.max_receive_message_length", _MOST_BYTES),
                ("grpc.max_send_message_length", _MOST_BYTES),
                ("grpc.so_reuseport", 0),
                # Envoy's own keep-alive pings each few seconds are welcome, also when idle.
                ("grpc.http2.min_ping_interval_without_data_ms", 1000),
                ("grpc.keepalive_time_ms", 5000),
                ("grpc.keepalive_timeout_ms", 3000),
                ("grpc.keepalive_permit_without_calls", 1),
            ]
        )
        ads_pb2_grpc.add_AggregatedDiscoveryServiceServicer_to_server(self, self._server)
        port = self._server.add_insecure_port(address)
        if not port:
            raise RuntimeError(f"The address {address} of the gateway control is taken.")
        await self._server.start()
        return int(port)

    async def stop(self) -> None:
        """End every stream and stop listening."""
        if self._server is not None:
            await self._server.stop(grace=None)
            self._server = None

    def register(self, gateways: Iterable[Registration]) -> None:
        """Nothing to do: an Envoy comes by itself, and says who it is."""

    def set_snapshot(self, node_id: str, snapshot: Snapshot) -> None:
        """Tell a gateway what it should have, now if it is connected or when it comes.

        Call it in the event loop. A snapshot whose contents a gateway has already is acknowledged
        at once.
        """
        node = self._nodes.setdefault(node_id, _Node())
        if node.snapshot is not None and node.snapshot.version == snapshot.version:
            return
        node.set_at = asyncio.get_running_loop().time()
        node.resources = build(snapshot)
        node.snapshot = snapshot
        node.reported = ""
        for stream in node.streams:
            stream.wake()

    def connected(self) -> frozenset[str]:
        """Node ids of the gateways that have a stream open."""
        return frozenset(node_id for node_id, node in self._nodes.items() if node.streams)

    async def StreamAggregatedResources(
        self, requests: AsyncIterator[Any], context: Any
    ) -> AsyncIterator[Any]:
        """One gateway's stream; ends when it hangs up."""
        first = await anext(aiter(requests), None)
        if first is None:
            return
        if not first.node.id:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "The node has no id.")
        stream = self._open(first, context.peer())
        stream.inbox.put_nowait(first)
        reader = asyncio.create_task(_read(requests, stream.inbox))
        try:
            while (item := await stream.inbox.get()) is not _END:
                stream.take_aim()
                if item is not _WAKE:
                    self._receive(stream, item)
                for message in stream.delivery.messages():
                    yield _response(message)
                stream.look_again_for_what_lingers()
                self._report(stream)
        finally:
            reader.cancel()
            self._close(stream)

    def _open(self, first: Any, peer: str) -> _Stream:
        node = self._nodes.setdefault(first.node.id, _Node())
        stream = _Stream(node, first.node.id)
        node.streams.append(stream)
        node.reported = ""
        node.set_at = asyncio.get_running_loop().time()
        version = first.node.user_agent_build_version.version
        number = f"{version.major_number}.{version.minor_number}.{version.patch}"
        self._on_connect(Connected(stream.node_id, peer, number))
        return stream

    def _close(self, stream: _Stream) -> None:
        node = stream.node
        node.memory = stream.delivery.memory()
        node.streams.remove(stream)
        if not node.streams:
            self._on_disconnect(Disconnected(stream.node_id))

    def _receive(self, stream: _Stream, request: Any) -> None:
        kind = _KINDS.get(request.type_url)
        if kind is None:
            return
        delivery = stream.delivery
        if request.response_nonce:
            if not delivery.is_current(kind, request.response_nonce):
                return
            if request.HasField("error_detail"):
                delivery.refuse(kind, request.error_detail.message)
                self._refused(stream, kind, request.error_detail.message)
            else:
                delivery.accept(kind)
        delivery.subscribe(kind, request.resource_names, request.version_info)

    def _refused(self, stream: _Stream, kind: Kind, reason: str) -> None:
        if stream.aimed is not None:
            self._on_nack(Nacked(stream.node_id, stream.aimed, kind.value, reason.strip()))

    def _report(self, stream: _Stream) -> None:
        node, snapshot = stream.node, stream.aimed
        if snapshot is None or snapshot is not node.snapshot or stream is not node.streams[-1]:
            return
        if node.reported == snapshot.version or not stream.delivery.in_effect():
            return
        node.reported = snapshot.version
        took = asyncio.get_running_loop().time() - node.set_at
        self._on_ack(Acked(stream.node_id, snapshot, round(took * 1000, 3)))


async def _read(requests: AsyncIterator[Any], inbox: asyncio.Queue[Any]) -> None:
    try:
        async for request in requests:
            inbox.put_nowait(request)
    finally:
        inbox.put_nowait(_END)


def _response(message: Message) -> Any:
    return discovery_pb2.DiscoveryResponse(
        version_info=message.version,
        type_url=_TYPE_URLS[message.kind],
        nonce=message.nonce,
        resources=[resource.body for resource in message.resources],
    )
