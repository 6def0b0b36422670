"""Nodes: registering them, taking them out of use, and what the watch found."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

from django.db import transaction
from django.utils import timezone

from console import live
from console.actors import Actor, require
from console.env import Config
from console.errors import FieldError, Invalid
from console.models import Job, JobState
from console.services import audit, jobs
from deployments.models import Node, NodeState
from deployments.services.gateways.desired import wake_gateways
from deployments.services.gateways.registrations import register_gateway
from deployments.services.traffic.splits import need_reason
from models_registry.models import Environment
from models_registry.services.environments import set_environment

_NAME = re.compile(r"[a-z][a-z0-9-]{0,39}\Z")
_ADDRESS = re.compile(r"(?P<host>[A-Za-z0-9._-]+|\[[0-9a-fA-F:]+\]):(?P<port>\d{1,5})\Z")


def register_node(
    *,
    name: str,
    http_address: str,
    grpc_address: str,
    repository: str,
    environments: Sequence[str],
    actor: Actor,
    metrics_address: str = "",
    dcgm_address: str = "",
    host_metrics_address: str = "",
    gpus: Sequence[int] = (),
    labels: dict[str, str] | None = None,
) -> Node:
    """Register a Triton, or change the registration of the one with this name.

    Addresses are `host:port`; `repository` is the model repository's absolute path as the worker
    of the queue `node.<name>` sees it. `metrics_address` is Triton's `/metrics`, `dcgm_address`
    that of a DCGM exporter, `host_metrics_address` that of a node exporter; "" where there is
    none. Raises Invalid.
    """
    require(actor, "node.register")
    faults = _faults(name, {"http_address": http_address, "grpc_address": grpc_address})
    measured = {
        "metrics_address": metrics_address,
        "dcgm_address": dcgm_address,
        "host_metrics_address": host_metrics_address,
    }
    faults += _faults(name, {field: address for field, address in measured.items() if address})
    if not repository.startswith("/"):
        faults.append(FieldError("/repository", "Use an absolute path."))
    if faults:
        raise Invalid(
            f"The node {name!r} cannot be registered.",
            code="invalid_node",
            errors=tuple(dict.fromkeys(faults)),
        )
    values: dict[str, Any] = {
        "http_address": http_address,
        "grpc_address": grpc_address,
        **measured,
        "repository": repository,
        "gpus": sorted(gpus),
        "labels": labels or {},
    }
    with transaction.atomic():
        places = _environments(environments)
        node = Node.objects.select_for_update().filter(name=name).first()
        before = _described(node) if node else None
        if node is None:
            node = Node.objects.create(name=name, **values)
        else:
            Node.objects.filter(pk=node.pk).update(**values)
            node.refresh_from_db()
        node.environments.set(places)
        after = _described(node)
        if before != after:
            audit.record(
                actor=actor,
                action="node.register",
                subject=f"node {name}",
                subject_url=f"/nodes/{name}/",
                before=before,
                after=after,
            )
            _tell(node)
    return node


def cordon_node(*, node: Node, reason: str, actor: Actor) -> Node:
    """Place nothing new on a node; what it serves goes on. Cordoning twice is one cordon."""
    require(actor, "node.cordon")
    need_reason(reason)
    with transaction.atomic():
        node = Node.objects.select_for_update().get(pk=node.pk)
        if node.cordon_reason:
            return node
        before = node.state
        node.cordon_reason = reason.strip()[:300]
        if node.state == NodeState.READY:
            node.state = NodeState.CORDONED
        node.save(update_fields=["state", "cordon_reason"])
        audit.record(
            actor=actor,
            action="node.cordon",
            subject=f"node {node.name}",
            reason=reason,
            subject_url=f"/nodes/{node.name}/",
            before={"state": before},
            after={"state": node.state},
        )
        _tell(node)
    return node


def uncordon_node(*, node: Node, actor: Actor, reason: str = "") -> Node:
    """Let a node take placements again."""
    require(actor, "node.cordon")
    with transaction.atomic():
        node = Node.objects.select_for_update().get(pk=node.pk)
        if not node.cordon_reason:
            return node
        before = node.state
        node.cordon_reason = ""
        if node.state == NodeState.CORDONED:
            node.state = NodeState.READY
        node.save(update_fields=["state", "cordon_reason"])
        audit.record(
            actor=actor,
            action="node.uncordon",
            subject=f"node {node.name}",
            reason=reason,
            subject_url=f"/nodes/{node.name}/",
            before={"state": before},
            after={"state": node.state},
        )
        _tell(node)
    return node


def reconcile_node(*, node: Node, actor: Actor, remove_extra: bool = False) -> Job:
    """Ask the node's worker to load what should be loaded (and, if wanted, remove what should not).

    While one such job is under way it is given instead of another.
    """
    require(actor, "node.cordon")
    with transaction.atomic():
        node = Node.objects.select_for_update().get(pk=node.pk)
        running = Job.objects.filter(
            kind="reconcile",
            queue=node.queue,
            state__in=[JobState.QUEUED, JobState.RUNNING],
            arguments__remove_extra=remove_extra,
        ).first()
        if running is not None:
            return running
        return jobs.enqueue(
            kind="reconcile",
            queue=node.queue,
            subject=f"node {node.name}",
            subject_url=f"/nodes/{node.name}/",
            actor=actor,
            arguments={"node": node.name, "remove_extra": remove_extra},
        )


def node_seen(name: str, *, at: datetime, triton_version: str) -> None:
    """The watch reached a node; written at most each few seconds by the watch."""
    Node.objects.filter(name=name).update(last_seen_at=at, triton_version=triton_version[:40])


def node_lost(name: str) -> bool:
    """The watch reaches a node no longer: its addresses leave the gateways. True when it is new."""
    with transaction.atomic():
        node = Node.objects.select_for_update().filter(name=name).first()
        if node is None or node.state == NodeState.LOST:
            return False
        before = node.state
        node.state = NodeState.LOST
        node.save(update_fields=["state"])
        audit.record(
            actor=Actor.system("node watch"),
            action="node.lost",
            subject=f"node {name}",
            subject_url=f"/nodes/{name}/",
            before={"state": before},
            after={"state": node.state},
        )
        _tell(node)
    return True


def node_restored(name: str) -> None:
    """What should be loaded on a node is loaded: it serves again."""
    with transaction.atomic():
        node = Node.objects.select_for_update().filter(name=name, state=NodeState.LOST).first()
        if node is None:
            return
        node.state = NodeState.CORDONED if node.cordon_reason else NodeState.READY
        node.last_seen_at = timezone.now()
        node.save(update_fields=["state", "last_seen_at"])
        audit.record(
            actor=Actor.system("node watch"),
            action="node.restored",
            subject=f"node {name}",
            subject_url=f"/nodes/{name}/",
            before={"state": NodeState.LOST},
            after={"state": node.state},
        )
        _tell(node)


def bootstrap_embedded(config: Config, actor: Actor) -> None:
    """Make rows of what the environment variables name: two environments, nodes, the gateway.

    Existing environments keep their policies. May run at each start.
    """
    if not Environment.objects.filter(name="staging").exists():
        set_environment(
            name="staging",
            description="Where versions are tried",
            requires_contract=False,
            approver_roles=(),
            author_may_approve=True,
            actor=actor,
        )
    if not Environment.objects.filter(name="production").exists():
        set_environment(
            name="production",
            description="What the business relies on",
            requires_contract=True,
            approver_roles=("sre",),
            author_may_approve=False,
            production=True,
            requires_load_test=True,
            actor=actor,
        )
    places = ("staging", "production")
    if config.embedded_triton:
        ports = config.ports
        known = Node.objects.filter(name="local").first() or Node()
        register_node(
            name="local",
            http_address=f"127.0.0.1:{ports.triton_http}",
            grpc_address=f"127.0.0.1:{ports.triton_grpc}",
            metrics_address=f"127.0.0.1:{ports.triton_metrics}",
            repository=str(config.triton_repository),
            environments=places,
            # What people have said of the node since stays as they said it.
            dcgm_address=known.dcgm_address,
            host_metrics_address=known.host_metrics_address,
            gpus=known.gpus,
            labels=known.labels,
            actor=actor,
        )
    else:
        for index, address in enumerate(config.triton, start=1):
            _register_given(f"node-{index}", address, places, actor)
    if config.embedded_gateway:
        register_gateway(
            name="embedded",
            admin_url=f"http://127.0.0.1:{config.ports.gateway_admin}",
            listeners={
                "production": ("127.0.0.1", config.ports.gateway_production),
                "staging": ("127.0.0.1", config.ports.gateway_staging),
            },
            actor=actor,
        )


def _register_given(name: str, grpc_address: str, places: Sequence[str], actor: Actor) -> None:
    """A node of which only the gRPC address is known: its other ports lie beside it, as usual."""
    if Node.objects.filter(name=name).exists():
        return
    host, _, port = grpc_address.rpartition(":")
    register_node(
        name=name,
        http_address=f"{host}:{int(port) - 1}",
        grpc_address=grpc_address,
        metrics_address=f"{host}:{int(port) + 1}",
        repository="/models",
        environments=places,
        actor=actor,
    )


def _environments(names: Collection[str]) -> list[Environment]:
    places = list(Environment.objects.filter(name__in=names))
    if missing := sorted(set(names) - {place.name for place in places}):
        raise Invalid(
            f"There is no environment {missing[0]}.",
            code="unknown_environment",
            errors=(FieldError("/environments", f"{missing[0]} is not known."),),
        )
    if not places:
        raise Invalid(
            "At least one environment is needed.",
            code="environment_missing",
            errors=(FieldError("/environments", "Name at least one."),),
        )
    return places


def _faults(name: str, addresses: dict[str, str]) -> list[FieldError]:
    faults = []
    if not _NAME.match(name):
        faults.append(FieldError("/name", "Use lower-case letters, digits and dashes, at most 40."))
    for field, address in addresses.items():
        found = _ADDRESS.match(address)
        if not found or not 0 < int(found["port"]) < 65536:
            faults.append(FieldError(f"/{field}", "Use host:port."))
    return faults


def _described(node: Node) -> dict[str, Any]:
    return {
        "http_address": node.http_address,
        "grpc_address": node.grpc_address,
        "metrics_address": node.metrics_address,
        "dcgm_address": node.dcgm_address,
        "host_metrics_address": node.host_metrics_address,
        "repository": node.repository,
        "gpus": node.gpus,
        "labels": node.labels,
        "environments": sorted(node.environments.values_list("name", flat=True)),
    }


def _tell(node: Node) -> None:
    wake_gateways()
    live.publish(f"node:{node.name}", "node.changed", {"node": node.name, "state": node.state})
