"""A team's models, as a fragment of the team's page."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from console.api.authentication import actor_of
from models_registry.models import RegisteredModel

SHOWN = 50


@require_safe
def panel(request: HttpRequest, slug: str) -> HttpResponse:
    """Models of the team that exist for the viewer, with their seats."""
    models = (
        RegisteredModel.objects.visible_to(actor_of(request).user)
        .filter(team__slug=slug)
        .select_related("owner")
        .prefetch_related("seats__user")
        .order_by("name")[: SHOWN + 1]
    )
    found = list(models)
    context = {"models": found[:SHOWN], "more": len(found) > SHOWN, "slug": slug}
    return render(request, "models_registry/models/_team_models.html", context)
