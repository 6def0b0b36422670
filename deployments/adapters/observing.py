"""What gateways counted, whatever product they are; and which products do not tell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import httpx

from deployments.adapters.envoy import stats as envoy_stats
from deployments.adapters.gateway import GatewaySample, Registration

GAUGES = envoy_stats.GAUGES
"""Names in a `ClusterSample` whose value is a state and no count."""


class Observer(Protocol):
    """Reads one gateway of a product."""

    async def __call__(
        self, client: httpx.AsyncClient, admin_url: str, *, gateway: str
    ) -> GatewaySample: ...


_OBSERVERS: Mapping[str, Observer] = {"envoy": envoy_stats.scrape}


def observes(product: str) -> bool:
    """Whether a product's gateways say which version answered how often, how fast, how well."""
    return product in _OBSERVERS


async def observe(client: httpx.AsyncClient, gateway: Registration) -> GatewaySample:
    """One reading of a gateway of a product that is observed; the client's own time-out holds.

    Raises Unavailable (retryable) when it cannot be reached or says something else.
    """
    return await _OBSERVERS[gateway.product](client, gateway.admin_url, gateway=gateway.name)
