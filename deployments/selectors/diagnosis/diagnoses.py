"""Diagnoses as lists and pages show them."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass

from django.db.models import Q, QuerySet

from console.errors import FieldError, Invalid, NotFound
from console.models import User
from deployments.models import Diagnosis, Node, Placement, PlacementState
from models_registry.models import ModelVersion

MOST_NODES = 100


@dataclass(frozen=True, slots=True)
class DiagnosisFilter:
    """What to list; an empty value filters nothing."""

    state: str = ""
    node: str = ""
    q: str = ""

    @property
    def is_empty(self) -> bool:
        return not (self.state or self.node or self.q)


def diagnosis_list(wanted: DiagnosisFilter, *, user: User) -> QuerySet[Diagnosis]:
    """Diagnoses that match, newest first, with version, node and person (one query)."""
    found = (
        Diagnosis.objects.visible_to(user)
        .select_related("version__model", "node", "requested_by", "job")
        .order_by("-requested_at", "-pk")
    )
    if wanted.state:
        found = found.filter(state=wanted.state)
    if wanted.node:
        found = found.filter(node__name=wanted.node)
    if wanted.q:
        found = found.filter(
            Q(version__model__name__icontains=wanted.q) | Q(cause__icontains=wanted.q)
        )
    return found


def find_diagnosis(diagnosis_id: uuid.UUID, *, user: User) -> Diagnosis:
    """One diagnosis (one query). Raises NotFound, also for what is not to be seen."""
    found = (
        Diagnosis.objects.visible_to(user)
        .select_related("version__model", "node", "requested_by", "job", "failed_job", "deployment")
        .filter(pk=diagnosis_id)
        .first()
    )
    if found is None:
        raise NotFound("There is no such diagnosis.", hint="Look at the list of diagnoses.")
    return found


def newest_of(placements: Iterable[Placement]) -> dict[int, Diagnosis]:
    """Placement → the newest diagnosis of its version on its node (one query).

    The placements must have come with `deployment__release`.
    """
    pairs = {
        (placement.deployment.release.version_id, placement.node_id): placement.pk
        for placement in placements
    }
    if not pairs:
        return {}
    wanted = Q()
    for version, node in pairs:
        wanted |= Q(version_id=version, node_id=node)
    newest = (
        Diagnosis.objects.filter(wanted)
        .order_by("version_id", "node_id", "-requested_at")
        .distinct("version_id", "node_id")
    )
    return {pairs[one.version_id, one.node_id]: one for one in newest}


def with_diagnoses(placements: Iterable[Placement]) -> list[Placement]:
    """The placements, each with the newest look into it as `diagnosis`, or None (two queries)."""
    rows = list(placements)
    newest = newest_of(rows)
    for row in rows:
        row.diagnosis = newest.get(row.pk)  # type: ignore[attr-defined]
    return rows


def node_for(version: ModelVersion, name: str = "") -> Node:
    """The node of this name; without one, where the version last failed or lies (two queries).

    Raises NotFound for a name that is no node's, Invalid `node_needed` where none is to be guessed.
    """
    if name:
        node = Node.objects.filter(name=name).first()
        if node is None:
            raise NotFound(
                f"There is no node {name[:40]}.", hint="Look for it in the list of nodes."
            )
        return node
    placed = list(
        Placement.objects.filter(deployment__release__version=version)
        .select_related("node")
        .order_by("-changed_at")[:MOST_NODES]
    )
    failed = [one for one in placed if one.state == PlacementState.FAILED]
    if failed or placed:
        return (failed or placed)[0].node
    nodes = list(Node.objects.order_by("name")[:2])
    if len(nodes) == 1:
        return nodes[0]
    raise Invalid(
        f"{version} was never placed on a node, so it is not known where to look.",
        code="node_needed",
        hint="Name the node.",
        errors=(FieldError("/node", "This is needed."),),
    )
