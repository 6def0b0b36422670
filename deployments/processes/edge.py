"""The edge process: the ASGI application with all its parts, under uvicorn."""

from __future__ import annotations

import uvicorn

from deployments.edge.app import EdgeApp
from deployments.edge.comparisons import Comparisons
from deployments.edge.http import Part
from deployments.edge.model_telemetry import ModelTelemetry
from deployments.edge.outcomes import Outcomes
from deployments.edge.rules import Rules

GRACE_S = 3


def parts(log_address: str) -> tuple[Part, ...]:
    """Everything that the edge does; gateways send their log of answers to `log_address`."""
    # Rules first: what they answer carries a header, and the rest goes on to the others.
    telemetry = ModelTelemetry()
    return (Rules(), Comparisons(telemetry), telemetry, Outcomes(log_address))


def server(host: str, port: int) -> uvicorn.Server:
    """A server that stops gracefully on SIGTERM: no new request, those under way are ended."""
    return uvicorn.Server(
        uvicorn.Config(
            EdgeApp(parts(f"{host}:{port + 1}")),
            host=host,
            port=port,
            loop="uvloop",
            http="httptools",
            ws="none",
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
            # Longer than the gateway keeps an idle connection: who closes it first is the gateway,
            # and no request meets a connection that is just going away.
            timeout_keep_alive=75,
            timeout_graceful_shutdown=GRACE_S,
        )
    )
