"""Search over models, versions, endpoints, nodes and jobs, by name."""

from __future__ import annotations

import re
from dataclasses import dataclass

from django.db.models import Q
from django.urls import reverse
from django.utils.translation import gettext as _

from console.models import Job, User
from console.selectors.visibility import shown_to
from deployments.models import Endpoint, Node
from models_registry.models import ModelVersion, RegisteredModel

MOST = 6
_VERSION = re.compile(r"(?P<model>[a-z0-9_]*)\s*v(?P<number>\d{1,6})\Z")


@dataclass(frozen=True, slots=True)
class Hit:
    title: str
    detail: str
    url: str
    icon: str


@dataclass(frozen=True, slots=True)
class HitGroup:
    label: str
    items: list[Hit]


def search(query: str, *, user: User) -> list[HitGroup]:
    """Groups that have a hit among what the user may see, at most six hits in each.

    One query for each group.
    """
    text = query.strip()[:80]
    if not text:
        return []
    groups = [
        HitGroup(_("Models"), _models(text, user)),
        HitGroup(_("Versions"), _versions(text, user)),
        HitGroup(_("Endpoints"), _endpoints(text, user)),
        HitGroup(_("Nodes"), _nodes(text)),
        HitGroup(_("Jobs"), _jobs(text, user)),
    ]
    return [group for group in groups if group.items]


def _models(text: str, user: User) -> list[Hit]:
    found = (
        RegisteredModel.objects.visible_to(user)
        .filter(Q(name__icontains=text) | Q(tags__contains=[text]))
        .order_by("name")[:MOST]
    )
    return [
        Hit(
            model.name,
            model.description[:80],
            reverse("models_registry:model-detail", args=[model.name]),
            "models",
        )
        for model in found
    ]


def _versions(text: str, user: User) -> list[Hit]:
    wanted = _VERSION.match(text.lower())
    if not wanted:
        return []
    found = (
        ModelVersion.objects.visible_to(user)
        .filter(number=int(wanted["number"]), model__name__icontains=wanted["model"].strip())
        .select_related("model")
        .order_by("model__name")[:MOST]
    )
    return [
        Hit(
            str(version),
            version.get_state_display(),
            reverse("models_registry:version-detail", args=[version.model.name, version.number]),
            "file",
        )
        for version in found
    ]


def _endpoints(text: str, user: User) -> list[Hit]:
    environment, _slash, model = text.rpartition("/")
    found = Endpoint.objects.visible_to(user).filter(model__name__icontains=model)
    if environment:
        found = found.filter(environment__name__icontains=environment)
    return [
        Hit(
            str(endpoint),
            "",
            reverse(
                "deployments:endpoint-detail", args=[endpoint.environment.name, endpoint.model.name]
            ),
            "endpoints",
        )
        for endpoint in found.select_related("model", "environment")[:MOST]
    ]


def _nodes(text: str) -> list[Hit]:
    return [
        Hit(
            node.name,
            node.get_state_display(),
            reverse("deployments:node-detail", args=[node.name]),
            "nodes",
        )
        for node in Node.objects.filter(name__icontains=text)[:MOST]
    ]


def _jobs(text: str, user: User) -> list[Hit]:
    jobs = Job.objects.filter(subject__icontains=text).order_by("-created_at")
    found = shown_to(jobs, user)[:MOST]
    return [
        Hit(
            f"{job.kind} {job.subject}",
            job.get_state_display(),
            reverse("console:job-detail", args=[job.pk]),
            "jobs",
        )
        for job in found
    ]
