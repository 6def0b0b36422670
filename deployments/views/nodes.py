"""Nodes: what is loaded against what should be, and the acts upon a node."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from console.actors import allowed, require
from console.api.authentication import actor_of, user_of
from console.errors import CovenantError, NotAllowed, NotFound
from deployments.models import Node
from deployments.node_forms import NodeForm, initial_of
from deployments.selectors.fleet.machine_pages import hottest, machine_now
from deployments.selectors.fleet.nodes import find_node, node_list, node_page, served_on
from deployments.services.fleet.live_checks import verify_node
from deployments.services.fleet.nodes import (
    cordon_node,
    reconcile_node,
    register_node,
    uncordon_node,
)
from deployments.views import machine_words


@require_http_methods(["GET", "POST"])
def index(request: HttpRequest) -> HttpResponse:
    """All nodes; the cards alone when htmx asks. POST registers one."""
    form = NodeForm(request.POST or None)
    if request.method == "POST":
        require(actor_of(request), "node.register")
        if (node := _register(request, form)) is not None:
            return redirect("deployments:node-detail", node.name)
    fragment = bool(request.headers.get("HX-Request"))
    template = "deployments/nodes/_list.html" if fragment else "deployments/nodes/list.html"
    rows = node_list()
    figures = machine_words.of_nodes(hottest(row.name for row in rows))
    context = {
        "rows": [(row, figures.get(row.name, [])) for row in rows],
        "form": form,
        "may_register": allowed(actor_of(request), "node.register"),
    }
    return render(request, template, context, status=422 if request.method == "POST" else 200)


@require_safe
def detail(request: HttpRequest, name: str) -> HttpResponse:
    """One node in full; the changing part alone when htmx asks."""
    fragment = bool(request.headers.get("HX-Request"))
    template = "deployments/nodes/_node.html" if fragment else "deployments/nodes/detail.html"
    return render(request, template, _page(request, name, fragment=fragment))


@require_POST
def change(request: HttpRequest, name: str) -> HttpResponse:
    """Change how a node is reached and where its numbers are read."""
    node = find_node(name)
    require(actor_of(request), "node.register")
    data = request.POST.copy()
    data["name"] = node.name
    form = NodeForm(data, initial=initial_of(node))
    if _register(request, form) is not None:
        messages.success(request, _("The registration is changed."))
        return redirect("deployments:node-detail", name)
    context = _page(request, name, form=form)
    return render(request, "deployments/nodes/detail.html", context, status=422)


@require_safe
def gpu_fields(request: HttpRequest) -> HttpResponse:
    """What is measured of GPUs, what it means, and from when on somebody should look."""
    return render(
        request, "deployments/nodes/gpu_fields.html", {"groups": machine_words.field_groups()}
    )


def _register(request: HttpRequest, form: NodeForm) -> Node | None:
    """The node as registered; None when the form says what is wrong."""
    if not form.is_valid():
        return None
    try:
        return register_node(actor=actor_of(request), **form.cleaned_data)
    except (NotFound, NotAllowed):
        raise
    except CovenantError as error:
        form.add_refusal(error)
    return None


def _page(
    request: HttpRequest, name: str, *, fragment: bool = False, form: NodeForm | None = None
) -> dict[str, Any]:
    user = user_of(request)
    page = node_page(name, user=user)
    machine = machine_now(name, served=served_on(page.node, user=user))
    context = {
        "page": page,
        "machine": machine_words.of_machine(machine),
        "may_cordon": allowed(actor_of(request), "node.cordon"),
    }
    if fragment:
        return context
    window = request.GET.get("window", "")
    window = window if window in machine_words.WINDOWS else machine_words.WINDOWS[0]
    form = form or NodeForm(initial=initial_of(page.node))
    form.fields["name"].disabled = True
    return context | {
        "charts": machine_words.charts_of(name, window, machine),
        "windows": machine_words.WINDOWS,
        "window": window,
        "form": form,
        "may_register": allowed(actor_of(request), "node.register"),
    }


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
