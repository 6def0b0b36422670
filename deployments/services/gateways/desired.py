"""What each gateway should serve, made of rows; and what each said about it, as rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db import connection, transaction
from django.utils import timezone

from console import live
from console.errors import CovenantError
from deployments.models import (
    Endpoint,
    Gateway,
    GatewayListener,
    SplitAck,
    SplitState,
    TrafficSplit,
)
from deployments.rules.gateways.capabilities import Support, supports
from deployments.rules.gateways.demands import check_met
from deployments.rules.gateways.snapshots import Snapshot, render
from deployments.rules.gateways.state import EndpointState, GatewayState
from deployments.selectors.access.callers import directories
from deployments.selectors.traffic.routing import endpoint_states
from deployments.services.gateways.certificate_watch import certificates_of

CHANNEL = "covenant_gateway"
"""Postgres channel that wakes the gateway control; notifications fire when their change commits."""


@dataclass(frozen=True, slots=True)
class Desired:
    """A gateway's snapshot, and the endpoints whose wanted split cannot be rendered, with why."""

    gateway: str
    snapshot: Snapshot
    refused: tuple[tuple[EndpointState, str], ...] = ()


def wake_gateways() -> None:
    """Have the gateway control look at the rows, once the caller's transaction has committed."""
    with connection.cursor() as cursor:
        cursor.execute("select pg_notify(%s, '')", [CHANNEL])


def gateway_state(gateway: Gateway) -> GatewayState:
    """All that a gateway should serve now; nine queries, however many endpoints there are."""
    listeners = list(
        gateway.listeners.select_related("environment", "gateway").order_by("environment_id")
    )
    return _state(listeners, endpoint_states([one.environment_id for one in listeners]))


def desired_snapshots(names: Iterable[str]) -> list[Desired]:
    """The snapshots of these gateways; unknown names are left out.

    One endpoint whose rows make no sense must not hold up the others: it is given as refused, and
    the snapshot holds what was applied before it, or the open circuit.
    """
    found: list[Desired] = []
    for gateway in Gateway.objects.filter(name__in=list(names)):
        state, can = gateway_state(gateway), supports(gateway.adapter, gateway.options)
        try:
            for endpoint in state.endpoints:
                check_met(endpoint, can)
            found.append(Desired(gateway.name, render(state)))
        except CovenantError:
            found.append(_render_what_can_be(gateway.name, state, can))
    return found


@transaction.atomic
def record_connected(name: str) -> bool:
    """A gateway opened its stream; False when nobody registered one of that name."""
    now = timezone.now()
    known = Gateway.objects.filter(name=name).update(connected=True, connected_at=now)
    _announce_gateway(name)
    return bool(known)


@transaction.atomic
def record_disconnected(name: str) -> None:
    """A gateway's stream ended; it serves on with what it has."""
    Gateway.objects.filter(name=name).update(connected=False)
    _announce_gateway(name)


def record_none_connected() -> None:
    """The gateway control starts: who is connected will introduce itself again."""
    Gateway.objects.filter(connected=True).update(connected=False)


@transaction.atomic
def record_ack(name: str, snapshot: Snapshot) -> list[TrafficSplit]:
    """A gateway acts on this snapshot; gives the splits that thereby became applied everywhere."""
    now = timezone.now()
    gateway = Gateway.objects.select_for_update().filter(name=name).first()
    if gateway is None:
        return []
    gateway.snapshot, gateway.acknowledged_at = snapshot.version, now
    gateway.save(update_fields=["snapshot", "acknowledged_at"])
    waiting = _waiting_splits(gateway, snapshot)
    SplitAck.objects.bulk_create(
        [SplitAck(split=split, gateway=gateway, applied=True, at=now) for split in waiting],
        ignore_conflicts=True,
    )
    applied = [split for split in waiting if _settle(split, now)]
    for split in waiting:
        _announce_split(split)
    return applied


@transaction.atomic
def record_nack(name: str, snapshot: Snapshot, reason: str) -> list[TrafficSplit]:
    """A gateway refused this snapshot: what was new in it is refused and the last good one wanted.

    A refusal does not say which endpoint it means, so every split of the snapshot that the gateway
    had not acknowledged yet is refused. Gives those.
    """
    now = timezone.now()
    gateway = Gateway.objects.select_for_update().filter(name=name).first()
    if gateway is None:
        return []
    gateway.last_refusal, gateway.last_refusal_at = reason[:4000], now
    gateway.save(update_fields=["last_refusal", "last_refusal_at"])
    refused = [s for s in _waiting_splits(gateway, snapshot) if s.state == SplitState.PENDING]
    for split in refused:
        SplitAck.objects.update_or_create(
            split=split,
            gateway=gateway,
            defaults={"applied": False, "detail": reason[:4000], "at": now},
        )
        _refuse(split)
    _announce_gateway(name)
    return refused


@transaction.atomic
def record_unrenderable(name: str, state: EndpointState, reason: str) -> None:
    """A wanted split that cannot be put into a gateway's words is refused without asking it."""
    gateway = Gateway.objects.select_for_update().filter(name=name).first()
    split = (
        TrafficSplit.objects.select_for_update(of=("self",))
        .filter(
            endpoint__model__name=state.model,
            endpoint__environment__name=state.environment,
            revision=state.revision,
            state=SplitState.PENDING,
        )
        .first()
    )
    now = timezone.now()
    if gateway is not None and gateway.last_refusal != reason:
        gateway.last_refusal, gateway.last_refusal_at = reason, now
        gateway.save(update_fields=["last_refusal", "last_refusal_at"])
        _announce_gateway(name)
    if gateway is None or split is None:
        return
    SplitAck.objects.update_or_create(
        split=split, gateway=gateway, defaults={"applied": False, "detail": reason, "at": now}
    )
    _refuse(split)


def _render_what_can_be(name: str, state: GatewayState, can: Sequence[Support]) -> Desired:
    refused: list[tuple[EndpointState, str]] = []
    kept: list[EndpointState] = []
    for endpoint in state.endpoints:
        try:
            check_met(endpoint, can)
            render(GatewayState(state.listeners, (endpoint,)))
            kept.append(endpoint)
        except CovenantError as error:
            refused.append((endpoint, error.message))
            # The open circuit is always renderable, and keeps the revision's acknowledgement away.
            kept.append(
                EndpointState(
                    environment=endpoint.environment,
                    model=endpoint.model,
                    revision=0,
                    unavailable_code=endpoint.unavailable_code,
                )
            )
    snapshot = render(replace(state, endpoints=tuple(kept)))
    return Desired(name, snapshot, tuple(refused))


def _state(listeners: list[GatewayListener], endpoints: list[EndpointState]) -> GatewayState:
    address = listeners[0].address if listeners else "127.0.0.1"
    ports = {one.environment.name: one.port for one in listeners}
    return GatewayState(
        ports,
        tuple(endpoints),
        listen_address=address,
        edge=settings.CONFIG.edge_address,
        directories=directories(
            [(one.environment_id, one.environment.name) for one in listeners], timezone.now()
        ),
        certificates=certificates_of(listeners),
    )


def _waiting_splits(gateway: Gateway, snapshot: Snapshot) -> list[TrafficSplit]:
    """Splits that the snapshot carries and that this gateway has not acknowledged, locked."""
    environments = [one.environment_id for one in gateway.listeners.all()]
    current = (
        TrafficSplit.objects.filter(
            pk__in=Endpoint.objects.filter(environment_id__in=environments).values("current_id"),
        )
        .exclude(acks__gateway=gateway)
        .select_related("endpoint__model", "endpoint__environment", "author")
        .select_for_update(of=("self",))
        .order_by("pk")
    )
    return [
        split
        for split in current
        if snapshot.revisions.get((split.endpoint.environment.name, split.endpoint.model.name))
        == split.revision
    ]


def _settle(split: TrafficSplit, now: datetime) -> bool:
    """Mark a pending split applied once every connected gateway of its environment said so."""
    if split.state != SplitState.PENDING:
        return False
    missing = (
        Gateway.objects.filter(
            connected=True, listeners__environment_id=split.endpoint.environment_id
        )
        .exclude(pk__in=split.acks.filter(applied=True).values("gateway_id"))
        .exists()
    )
    if missing:
        return False
    split.state, split.applied_at = SplitState.APPLIED, now
    split.save(update_fields=["state", "applied_at"])
    TrafficSplit.objects.filter(
        endpoint_id=split.endpoint_id,
        revision__lt=split.revision,
        state__in=[SplitState.PENDING, SplitState.APPLIED],
    ).update(state=SplitState.SUPERSEDED)
    return True


def _refuse(split: TrafficSplit) -> None:
    """Mark a split refused and want the last applied one of its endpoint again."""
    split.state = SplitState.REFUSED
    split.save(update_fields=["state"])
    endpoint = Endpoint.objects.select_for_update().get(pk=split.endpoint_id)
    if endpoint.current_id == split.pk:
        endpoint.current = endpoint.splits.filter(state=SplitState.APPLIED).first()
        endpoint.save(update_fields=["current"])
    # Whatever else was under way between the two was never acknowledged and is given up.
    endpoint.splits.filter(state=SplitState.PENDING, revision__lt=split.revision).update(
        state=SplitState.SUPERSEDED
    )
    wake_gateways()
    _announce_split(split)


def split_event(split: TrafficSplit) -> dict[str, Any]:
    """What viewers are told of a split; the slider reads revision, weights and author."""
    return {
        "revision": split.revision,
        "weights": {number: points / 100 for number, points in split.weights.items()},
        "mode": split.mode,
        "state": split.state,
        "cause": split.cause,
        "author": split.author.username,
        "reason": split.reason,
    }


def _announce_split(split: TrafficSplit) -> None:
    event = split_event(split)
    event["acknowledgements"] = [
        {
            "gateway": ack.gateway.name,
            "outcome": "applied" if ack.applied else "refused",
            "took_ms": round((ack.at - split.created_at).total_seconds() * 1000, 1),
            "reason": ack.detail,
        }
        for ack in split.acks.select_related("gateway")
    ]
    live.publish(f"endpoint:{split.endpoint}", "split.acknowledged", event)


def _announce_gateway(name: str) -> None:
    live.publish("gateways", "gateway.changed", {"gateway": name})
