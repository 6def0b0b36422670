"""Nodes: what is loaded against what should be, and the acts upon a node."""

from __future__ import annotations

from collections.abc import Callable

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from console.actors import allowed
from console.api.authentication import actor_of, user_of
from console.errors import CovenantError
from deployments.selectors.fleet.nodes import find_node, node_list, node_page
from deployments.services.fleet.live_checks import verify_node
from deployments.services.fleet.nodes import cordon_node, reconcile_node, uncordon_node


@require_safe
def index(request: HttpRequest) -> HttpResponse:
    """All nodes; the cards alone when htmx asks."""
    fragment = bool(request.headers.get("HX-Request"))
    template = "deployments/nodes/_list.html" if fragment else "deployments/nodes/list.html"
    return render(request, template, {"rows": node_list()})


@require_safe
def detail(request: HttpRequest, name: str) -> HttpResponse:
    """One node in full; the changing part alone when htmx asks."""
    fragment = bool(request.headers.get("HX-Request"))
    template = "deployments/nodes/_node.html" if fragment else "deployments/nodes/detail.html"
    context = {
        "page": node_page(name, user=user_of(request)),
        "may_cordon": allowed(actor_of(request), "node.cordon"),
    }
    return render(request, template, context)


@require_POST
def cordon(request: HttpRequest, name: str) -> HttpResponse:
    """Take no new placements; what serves goes on."""
    reason = request.POST.get("reason", "").strip()
    return _act(
        request,
        name,
        lambda: cordon_node(node=find_node(name), reason=reason, actor=actor_of(request)),
        _("The node takes no new placements."),
    )


@require_POST
def uncordon(request: HttpRequest, name: str) -> HttpResponse:
    """Take placements again."""
    return _act(
        request,
        name,
        lambda: uncordon_node(node=find_node(name), actor=actor_of(request)),
        _("The node takes placements again."),
    )


@require_POST
def reconcile(request: HttpRequest, name: str) -> HttpResponse:
    """Load what should be there, remove what should not."""
    return _act(
        request,
        name,
        lambda: reconcile_node(node=find_node(name), actor=actor_of(request)),
        _("The node is being reconciled; see its jobs."),
    )


@require_POST
def verify(request: HttpRequest, name: str) -> HttpResponse:
    """Compare what is live with what was signed."""
    return _act(
        request,
        name,
        lambda: verify_node(node=find_node(name), actor=actor_of(request)),
        _("The node is being verified; see its jobs."),
    )


def _act(request: HttpRequest, name: str, act: Callable[[], object], done: str) -> HttpResponse:
    try:
        act()
    except CovenantError as error:
        messages.error(request, f"{error.message} {error.hint}".strip())
    else:
        messages.success(request, done)
    return redirect("deployments:node-detail", name)
