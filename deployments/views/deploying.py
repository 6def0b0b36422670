"""Deploying an approved release, and taking it off again."""

from __future__ import annotations

import uuid

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from console.actors import allowed
from console.api.authentication import actor_of, user_of
from console.errors import CovenantError
from deployments.selectors.diagnosis.diagnoses import with_diagnoses
from deployments.selectors.fleet.deployments import find_deployment
from deployments.services.fleet.deploys import deploy_release, remove_deployment


@require_POST
def create(request: HttpRequest) -> HttpResponse:
    """Deploy the release named in the form to its environment's nodes."""
    try:
        release_id = uuid.UUID(request.POST.get("release", ""))
    except ValueError as error:
        raise Http404 from error
    try:
        deployment = deploy_release(release_id=release_id, actor=actor_of(request))
    except CovenantError as error:
        messages.error(request, f"{error.message} {error.hint}".strip())
        return redirect("models_registry:release-detail", release_id)
    return redirect("deployments:deployment-detail", deployment.pk)


@require_safe
def detail(request: HttpRequest, deployment_id: uuid.UUID) -> HttpResponse:
    """One deployment with its placements; the changing part alone when htmx asks."""
    deployment = find_deployment(deployment_id, user=user_of(request))
    placements = with_diagnoses(
        deployment.placements.select_related("node", "job", "deployment__release").order_by(
            "node__name"
        )[:200]
    )
    context = {
        "deployment": deployment,
        "release": deployment.release,
        "placements": placements,
        "may_remove": allowed(
            actor_of(request), "deployment.remove", deployment.release.version.model.team_id
        )
        and deployment.removal_requested_at is None,
        "may_diagnose": allowed(
            actor_of(request), "diagnosis.run", deployment.release.version.model.team_id
        ),
    }
    fragment = bool(request.headers.get("HX-Request"))
    template = (
        "deployments/deployments/_placements.html"
        if fragment
        else "deployments/deployments/detail.html"
    )
    return render(request, template, context)


@require_POST
def remove(request: HttpRequest, deployment_id: uuid.UUID) -> HttpResponse:
    """Drain and unload it from every node."""
    try:
        remove_deployment(
            deployment=find_deployment(deployment_id, user=user_of(request)),
            reason=request.POST.get("reason", "").strip(),
            actor=actor_of(request),
        )
    except CovenantError as error:
        messages.error(request, f"{error.message} {error.hint}".strip())
    else:
        messages.success(request, _("The version is being drained and unloaded."))
    return redirect("deployments:deployment-detail", deployment_id)
