"""Deployments with where they stand."""

from __future__ import annotations

import uuid

from django.db.models import Prefetch, QuerySet

from console.errors import NotFound
from console.models import User
from deployments.models import Deployment, Placement


def deployment_list(
    *, user: User, model: str = "", environment: str = "", version: str = "", removed: bool = False
) -> QuerySet[Deployment]:
    """Deployments with release, version and placements loaded; those removed only when wanted."""
    found = (
        Deployment.objects.visible_to(user)
        .select_related(
            "release__version__model",
            "release__environment",
            "release__break_glass__person",
            "generation",
            "requested_by",
        )
        .prefetch_related(
            Prefetch("placements", Placement.objects.select_related("node").order_by("node__name"))
        )
        .order_by("-created_at", "-pk")
    )
    if not removed:
        found = found.filter(removed_at__isnull=True)
    if model:
        found = found.filter(release__version__model__name=model)
    if environment:
        found = found.filter(release__environment__name=environment)
    if version.isascii() and version.isdecimal() and len(version) < 10:
        found = found.filter(release__version__number=int(version))
    return found


def find_deployment(deployment_id: uuid.UUID, *, user: User) -> Deployment:
    """One deployment, removed or not. Raises NotFound."""
    found = deployment_list(user=user, removed=True).filter(pk=deployment_id).first()
    if found is None:
        raise NotFound("There is no such deployment.", hint="Look at the list of deployments.")
    return found


def find_signed_placement(deployment: Deployment, node: str) -> Placement:
    """The deployment's placement on a node, with its folder's signature. Raises NotFound."""
    for placement in deployment.placements.all():
        if placement.node.name == node and placement.folder_signature is not None:
            return placement
    raise NotFound(
        f"There is no signed folder of this deployment on {node[:40]}.",
        hint="A folder is signed when it is placed, if the installation has a signing key.",
    )
