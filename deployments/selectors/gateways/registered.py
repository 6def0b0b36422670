"""Gateways: what each is, what it said last, and what it can do of what Covenant asks."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.urls import reverse
from django.utils.translation import gettext

from console.errors import NotFound
from deployments.adapters.gateway import Registration
from deployments.models import Gateway
from deployments.rules.gateways.capabilities import PRODUCT_NAMES, Support, supports
from deployments.selectors.gateways.words import capability_name

MOST_SHOWN = 200


@dataclass(frozen=True, slots=True)
class ListenerRow:
    """Where a gateway takes calls for one environment."""

    environment: str
    address: str
    port: int
    public_url: str


@dataclass(frozen=True, slots=True)
class CapabilityRow:
    """One capability in the reader's words; `level` is full, part or none."""

    key: str
    name: str
    level: str
    words: str


@dataclass(frozen=True, slots=True)
class GatewayRow:
    """A gateway as lists and its page show it."""

    name: str
    url: str
    product: str
    product_name: str
    admin_url: str
    options: dict[str, Any]
    connected: bool
    connected_at: datetime | None
    acknowledged_at: datetime | None
    last_refusal: str
    last_refusal_at: datetime | None
    listeners: tuple[ListenerRow, ...]
    capabilities: tuple[CapabilityRow, ...]

    @property
    def environments(self) -> list[str]:
        return [one.environment for one in self.listeners]

    @property
    def lacking(self) -> list[CapabilityRow]:
        """What it cannot do at all."""
        return [one for one in self.capabilities if one.level == "none"]

    @property
    def refuses_now(self) -> bool:
        """Whether the last thing that it said was no."""
        if self.last_refusal_at is None:
            return False
        return self.acknowledged_at is None or self.last_refusal_at > self.acknowledged_at


def find_gateway(name: str) -> Gateway:
    """The gateway of that name. Raises NotFound."""
    gateway = Gateway.objects.filter(name=name).first()
    if gateway is None:
        raise NotFound(f"There is no gateway {name}.", hint="List them: covenant gateways list")
    return gateway


def registrations() -> list[Registration]:
    """Every gateway as it is registered; one query."""
    return [registration_of(gateway) for gateway in Gateway.objects.all()]


def registration_of(gateway: Gateway) -> Registration:
    """What an adapter has to know of a gateway."""
    return Registration(gateway.name, gateway.adapter, gateway.admin_url, gateway.options)


def gateway_rows() -> list[GatewayRow]:
    """Every gateway by name; two queries."""
    rows = Gateway.objects.prefetch_related("listeners__environment").order_by("name")
    return [gateway_row(gateway) for gateway in rows[:MOST_SHOWN]]


def gateway_row(gateway: Gateway) -> GatewayRow:
    """One gateway in full."""
    return GatewayRow(
        name=gateway.name,
        url=reverse("deployments:gateway-detail", args=[gateway.name]),
        product=gateway.adapter,
        product_name=PRODUCT_NAMES[gateway.adapter],
        admin_url=gateway.admin_url,
        options=gateway.options,
        connected=gateway.connected,
        connected_at=gateway.connected_at,
        acknowledged_at=gateway.acknowledged_at,
        last_refusal=gateway.last_refusal,
        last_refusal_at=gateway.last_refusal_at,
        listeners=tuple(
            ListenerRow(one.environment.name, one.address, one.port, one.public_url)
            for one in gateway.listeners.all()
        ),
        capabilities=tuple(map(_capability, supports(gateway.adapter, gateway.options))),
    )


def _capability(support: Support) -> CapabilityRow:
    key = support.capability.value
    words = gettext(support.words) if support.words else ""
    return CapabilityRow(key, capability_name(key), support.level.value, words)
