"""The panel of a version's TensorRT plans."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from console.actors import allowed
from console.api.authentication import actor_of, user_of
from console.errors import Conflict, Invalid
from deployments.rules.fleet import tensorrt
from deployments.selectors.fleet.plans import SHOWN, gpu_nodes, plan_list, plan_row
from deployments.services.fleet.plans import request_plan
from models_registry.models import VersionState
from models_registry.selectors.versions import find_version


@require_http_methods(["GET", "HEAD", "POST"])
def plans_panel(request: HttpRequest, name: str, number: int) -> HttpResponse:
    """The panel; a POST asks for a plan and leads back to the version."""
    version = find_version(name, number, user=user_of(request))
    if request.method == "POST":
        workspace = request.POST.get("workspace_mib", "")
        try:
            plan = request_plan(
                version=version,
                precision=request.POST.get("precision", tensorrt.FP16),
                workspace_mib=int(workspace)
                if workspace.isdecimal() and len(workspace) < 10
                else 0,
                node=request.POST.get("node", ""),
                actor=actor_of(request),
            )
        except (Invalid, Conflict) as error:
            messages.error(request, f"{error.message} {error.hint}".strip())
        else:
            messages.success(
                request,
                _("The plan is being built.")
                if plan.job_id
                else _("The command is written down; building it needs a GPU node."),
            )
        return redirect("models_registry:version-detail", name, number)
    validated = version.state == VersionState.VALIDATED
    context = {
        "name": name,
        "number": number,
        "rows": [plan_row(plan) for plan in plan_list(version)[:SHOWN]],
        "nodes": gpu_nodes(),
        "precisions": tensorrt.PRECISIONS,
        "workspace": tensorrt.DEFAULT_WORKSPACE_MIB,
        "may_plan": validated and allowed(actor_of(request), "plan.build", version.model.team_id),
        "validated": validated,
    }
    return render(request, "deployments/panels/plans.html", context)
