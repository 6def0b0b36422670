"""Envoy's log of answers by gRPC: who answered which request id."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import grpc
from envoy.service.accesslog.v3 import als_pb2, als_pb2_grpc

from deployments.adapters.envoy.observing import EXPERIMENT_HEADER

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LoggedAnswer:
    """A request that was answered with 200 by a version; `at` is when it came, in epoch seconds."""

    endpoint: str
    request_id: str
    version: int
    at: float


class AnswersLog(als_pb2_grpc.AccessLogServiceServicer):  # type: ignore[misc] # it has no stubs
    """Takes the log of any number of gateways and hands each batch of answers to `hear`."""

    def __init__(self, hear: Callable[[str, Sequence[LoggedAnswer]], Awaitable[None]]) -> None:
        self._hear = hear

    async def serve(self, address: str) -> None:
        """Listen on "host:port" until cancelled. Raises RuntimeError when it is taken."""
        server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
        als_pb2_grpc.add_AccessLogServiceServicer_to_server(self, server)
        if not server.add_insecure_port(address):
            raise RuntimeError(f"The address {address} of the log of answers is taken.")
        await server.start()
        try:
            await asyncio.Event().wait()
        finally:
            await server.stop(grace=None)

    async def StreamAccessLogs(self, requests: AsyncIterator[Any], context: Any) -> Any:
        """One gateway's stream; its environment stands in the first message alone."""
        environment = ""
        async for message in requests:
            environment = message.identifier.log_name or environment
            answers = [
                answer
                for entry in message.http_logs.log_entry
                if (answer := read_entry(entry)) is not None
            ]
            if answers:
                await self._hear(environment, answers)
        return als_pb2.StreamAccessLogsResponse()


def read_entry(entry: Any) -> LoggedAnswer | None:
    """An entry as an answer; None where no version answered, or not with 200."""
    version = entry.response.response_headers.get("x-model-version", "")
    if entry.response.response_code.value != 200 or not version.isdecimal():
        return None
    started = entry.common_properties.start_time
    return LoggedAnswer(
        entry.request.request_headers.get(EXPERIMENT_HEADER, ""),
        entry.request.request_id,
        int(version),
        started.seconds + started.nanos / 1e9,
    )
