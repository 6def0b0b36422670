"""Nodes: what each has loaded against what it should."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.urls import reverse

from console.errors import NotFound
from console.models import Job, User
from console.selectors.visibility import jobs_shown_to
from deployments.adapters import live_store
from deployments.models import Node, NodeState, Placement, PlacementState, ServingGeneration
from deployments.selectors.statistics.live_numbers import VersionNumbers, latest

HOLDING = (
    PlacementState.PENDING,
    PlacementState.PLACING,
    PlacementState.LOADING,
    PlacementState.READY,
    PlacementState.DRAINING,
)
LIVE = (PlacementState.READY, PlacementState.DRAINING)
Slot = tuple[str, int]
"""A model's name in Triton and the version's number: what a node holds once."""


@dataclass(frozen=True, slots=True)
class NodeRow:
    """A node in a list; `loaded` is None when nobody has looked within the last minute.

    `wanted` counts what the node has to hold, once however many environments share it; `loaded`
    how much of that it holds.
    """

    name: str
    url: str
    state: str
    cordon_reason: str
    environments: list[str]
    triton_version: str
    last_seen_at: datetime | None
    wanted: int
    loaded: int | None
    failed: int
    drifted: int


@dataclass(frozen=True, slots=True)
class LoadedRow:
    """A version on a node: `wanted` names who wants it, `drift` is "", "missing" or "extra"."""

    triton_model: str
    version: int
    wanted: list[str]
    state: str
    reason: str
    drift: str


@dataclass(frozen=True, slots=True)
class ServedHere:
    """A placement on the node with its endpoint's numbers for that version."""

    placement: Placement
    endpoint: str
    url: str
    live: VersionNumbers | None


@dataclass(frozen=True, slots=True)
class NodePage:
    """Everything that the page of one node shows; `looked_at` is None without a fresh look."""

    node: Node
    row: NodeRow
    rows: list[LoadedRow]
    placements: list[ServedHere]
    hidden: int
    jobs: list[Job]
    looked_at: datetime | None

    @property
    def has_drift(self) -> bool:
        return any(row.drift for row in self.rows)


def node_list() -> list[NodeRow]:
    """All nodes by name; four queries."""
    nodes = list(Node.objects.prefetch_related("environments"))
    ready: dict[int, set[Slot]] = {}
    failed: Counter[int] = Counter()
    placed = Placement.objects.filter(
        deployment__removed_at__isnull=True,
        state__in=[PlacementState.READY, PlacementState.FAILED],
    ).values_list(
        "node_id",
        "state",
        "deployment__generation__triton_model",
        "deployment__release__version__number",
    )
    for node_id, state, triton_model, number in placed:
        if state == PlacementState.READY:
            ready.setdefault(node_id, set()).add((triton_model, number))
        else:
            failed[node_id] += 1
    facts = live_store.nodes(node.name for node in nodes)
    drifted = Counter(
        Placement.objects.filter(state__in=LIVE)
        .exclude(verification_faults=[])
        .values_list("node_id", flat=True)
    )
    return [
        _row(
            node,
            facts.get(node.name),
            ready.get(node.pk, set()),
            failed[node.pk],
            drifted[node.pk],
        )
        for node in nodes
    ]


def find_node(name: str) -> Node:
    """Raises NotFound."""
    node = Node.objects.filter(name=name).first()
    if node is None:
        raise NotFound(f"There is no node {name}.", hint="Look at the list of nodes.")
    return node


def node_page(name: str, *, user: User) -> NodePage:
    """One node in full, but for the models that the user may not see. Raises NotFound.

    The counts are of the whole node, whose capacity is everybody's; `hidden` placements are
    not shown.
    """
    node = find_node(name)
    placements = list(
        Placement.objects.filter(node=node, deployment__removed_at__isnull=True)
        .select_related(
            "job",
            "deployment__generation",
            "deployment__release__environment",
            "deployment__release__version__model",
        )
        .order_by("deployment__release__version__model__name", "deployment_id")
    )
    whole = len(placements)
    facts = live_store.nodes([name]).get(name)
    rows = _loaded_rows(placements, facts)
    ready = {_slot(one) for one in placements if one.state == PlacementState.READY}
    failed = sum(placement.state == PlacementState.FAILED for placement in placements)
    drifted = sum(
        bool(placement.verification_faults) and placement.state in LIVE for placement in placements
    )
    if not user.sees_all_models:
        unseen = _unseen(user)
        rows = [row for row in rows if row.triton_model not in unseen]
        placements = [
            one for one in placements if one.deployment.generation.triton_model not in unseen
        ]
    live = latest({_endpoint(placement) for placement in placements})
    served = []
    for placement in placements:
        key = _endpoint(placement)
        numbers = live.get(key)
        number = placement.deployment.release.version.number
        served.append(
            ServedHere(
                placement,
                key,
                reverse("deployments:endpoint-detail", args=key.split("/")),
                numbers.versions.get(number) if numbers else None,
            )
        )
    return NodePage(
        node=node,
        row=_row(node, facts, ready, failed, drifted),
        rows=rows,
        placements=served,
        hidden=whole - len(placements),
        jobs=list(
            jobs_shown_to(Job.objects.filter(queue=node.queue), user).order_by("-created_at")[:10]
        ),
        looked_at=datetime.fromtimestamp(facts["at"], UTC) if facts else None,
    )


def served_on(node: Node, *, user: User) -> dict[Slot, tuple[str, ...]]:
    """What each version on a node serves ("production/fraud v7"), as far as the user may see it.

    One query.
    """
    rows = (
        Placement.objects.visible_to(user)
        .filter(node=node, state__in=LIVE, deployment__removed_at__isnull=True)
        .select_related(
            "deployment__generation",
            "deployment__release__environment",
            "deployment__release__version__model",
        )
    )
    found: dict[Slot, set[str]] = {}
    for row in rows:
        words = f"{_endpoint(row)} v{row.deployment.release.version.number}"
        found.setdefault(_slot(row), set()).add(words)
    return {slot: tuple(sorted(words)) for slot, words in found.items()}


def _unseen(user: User) -> set[str]:
    """The names in Triton of models that do not exist for the user (one query)."""
    generations = ServingGeneration.objects.exclude(
        pk__in=ServingGeneration.objects.visible_to(user).values("pk")
    )
    return set(generations.values_list("triton_model", flat=True))


def nodes_in_trouble() -> list[NodeRow]:
    """Nodes that are lost, cordoned, lack something, or hold what nobody signed."""
    return [
        row
        for row in node_list()
        if row.state != NodeState.READY
        or row.failed
        or row.drifted
        or (row.loaded is not None and row.loaded < row.wanted)
    ]


def _row(
    node: Node, facts: dict[str, Any] | None, ready: set[Slot], failed: int, drifted: int
) -> NodeRow:
    up = {
        (one["model"], str(one["version"]))
        for one in (facts or {}).get("loaded", [])
        if one["state"] == "READY"
    }
    return NodeRow(
        name=node.name,
        url=reverse("deployments:node-detail", args=[node.name]),
        state=node.state,
        cordon_reason=node.cordon_reason,
        environments=sorted(place.name for place in node.environments.all()),
        triton_version=node.triton_version,
        last_seen_at=node.last_seen_at,
        wanted=len(ready),
        loaded=sum((model, str(number)) in up for model, number in ready) if facts else None,
        failed=failed,
        drifted=drifted,
    )


def _loaded_rows(placements: list[Placement], facts: dict[str, Any] | None) -> list[LoadedRow]:
    wanted: dict[Slot, list[str]] = {}
    for placement in placements:
        if placement.state in HOLDING:
            release = placement.deployment.release
            words = f"{release.environment.name}/{release.version}"
            wanted.setdefault(_slot(placement), []).append(words)
    seen: dict[tuple[str, int], dict[str, Any]] = {}
    for one in (facts or {}).get("loaded", []):
        if str(one["version"]).isdecimal() and one["state"]:
            seen[(one["model"], int(one["version"]))] = one
    rows = []
    for slot in sorted({*wanted, *seen}):
        found = seen.get(slot, {})
        loaded = found.get("state") == "READY"
        drift = ""
        if facts is not None and slot in wanted and not loaded:
            drift = "missing"
        elif slot not in wanted and loaded:
            drift = "extra"
        rows.append(
            LoadedRow(
                *slot, wanted.get(slot, []), found.get("state", ""), found.get("reason", ""), drift
            )
        )
    return rows


def _slot(placement: Placement) -> Slot:
    deployment = placement.deployment
    return deployment.generation.triton_model, deployment.release.version.number


def _endpoint(placement: Placement) -> str:
    release = placement.deployment.release
    return f"{release.environment.name}/{release.version.model.name}"
