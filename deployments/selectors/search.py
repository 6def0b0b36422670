"""Search over models, versions, endpoints, nodes and jobs, by name."""

from __future__ import annotations

import re
from dataclasses import dataclass

from django.db.models import Q
from django.urls import reverse
from django.utils.translation import gettext as _

from console.models import Job
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


def search(query: str) -> list[HitGroup]:
    """Groups that have a hit, at most six hits each; one query for each group."""
    text = query.strip()[:80]
    if not text:
        return []
    groups = [
        HitGroup(_("Models"), _models(text)),
        HitGroup(_("Versions"), _versions(text)),
        HitGroup(_("Endpoints"), _endpoints(text)),
        HitGroup(_("Nodes"), _nodes(text)),
        HitGroup(_("Jobs"), _jobs(text)),
    ]
    return [group for group in groups if group.items]


def _models(text: str) -> list[Hit]:
    found = RegisteredModel.objects.filter(
        Q(name__icontains=text) | Q(tags__contains=[text])
    ).order_by("name")[:MOST]
    return [
        Hit(
            model.name,
            model.description[:80],
            reverse("models_registry:model-detail", args=[model.name]),
            "models",
        )
        for model in found
    ]


def _versions(text: str) -> list[Hit]:
    wanted = _VERSION.match(text.lower())
    if not wanted:
        return []
    found = (
        ModelVersion.objects.filter(
            number=int(wanted["number"]), model__name__icontains=wanted["model"].strip()
        )
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


def _endpoints(text: str) -> list[Hit]:
    environment, _slash, model = text.rpartition("/")
    found = Endpoint.objects.filter(model__name__icontains=model)
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


def _jobs(text: str) -> list[Hit]:
    found = Job.objects.filter(subject__icontains=text).order_by("-created_at")[:MOST]
    return [
        Hit(
            f"{job.kind} {job.subject}",
            job.get_state_display(),
            reverse("console:job-detail", args=[job.pk]),
            "jobs",
        )
        for job in found
    ]
