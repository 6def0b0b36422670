"""Panels that pages of models, versions and releases ask for by address."""

from __future__ import annotations

import uuid

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from console.actors import allowed
from console.api.authentication import actor_of, user_of
from console.errors import NotFound
from deployments.models import Deployment
from deployments.selectors.traffic.endpoints import endpoint_list, versions_running
from models_registry.models import ReleaseState
from models_registry.selectors.catalog import find_model
from models_registry.selectors.release_policies import verdict_of
from models_registry.selectors.releases import find_release
from models_registry.selectors.versions import find_version
from models_registry.views.release_words import preview_words


@require_safe
def model_panel(request: HttpRequest, name: str) -> HttpResponse:
    """A model's endpoints with their traffic."""
    context = {
        "rows": endpoint_list(
            model=find_model(name, user=user_of(request)).name, user=user_of(request)
        )
    }
    return render(request, "deployments/panels/model.html", context)


@require_safe
def version_panel(request: HttpRequest, name: str, number: int) -> HttpResponse:
    """Where a version runs and with how much of the traffic."""
    version = find_version(name, number, user=user_of(request))
    running = versions_running(version.model).get(number, [])
    context = {"running": running, "name": name, "number": number}
    return render(request, "deployments/panels/version.html", context)


@require_safe
def release_panel(request: HttpRequest, release_id: uuid.UUID) -> HttpResponse:
    """Whether a release is deployed, and the button that deploys it."""
    try:
        release = find_release(release_id, user=user_of(request))
    except NotFound as error:
        raise Http404 from error
    deployments = Deployment.objects.filter(release=release).select_related("requested_by")[:20]
    context = {
        "release": release,
        "deployments": deployments,
        "runs": any(d.removed_at is None for d in deployments),
        "missing": preview_words(verdict_of(release, timezone.now()).unmet),
        "may_deploy": release.state == ReleaseState.APPROVED
        and allowed(actor_of(request), "deployment.create", release.version.model.team_id),
    }
    return render(request, "deployments/panels/release.html", context)
