"""Gateways: what each said, what it can do, and its registration."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from console.actors import allowed, require
from console.api.authentication import actor_of
from console.errors import CovenantError, NotAllowed, NotFound
from deployments.gateway_forms import GatewayForm, initial_of
from deployments.selectors.gateways.registered import find_gateway, gateway_row, gateway_rows
from deployments.services.gateways.exports import export_gateway
from deployments.services.gateways.registrations import (
    change_gateway,
    register_gateway,
    remove_gateway,
)


@require_http_methods(["GET", "POST"])
def index(request: HttpRequest) -> HttpResponse:
    """All gateways; the table alone when htmx asks. POST registers one."""
    form = GatewayForm(request.POST or None)
    if request.method == "POST":
        require(actor_of(request), "gateway.register")
        if form.is_valid():
            try:
                gateway = register_gateway(actor=actor_of(request), **form.cleaned_data)
            except (NotFound, NotAllowed):
                raise
            except CovenantError as error:
                form.add_refusal(error)
            else:
                return redirect("deployments:gateway-detail", gateway.name)
    fragment = bool(request.headers.get("HX-Request"))
    template = "deployments/gateways/_list.html" if fragment else "deployments/gateways/list.html"
    context = {"rows": gateway_rows(), "form": form, "may_register": _may(request)}
    return render(request, template, context, status=422 if request.method == "POST" else 200)


@require_safe
def detail(request: HttpRequest, gateway: str) -> HttpResponse:
    """One gateway in full; the changing part alone when htmx asks."""
    found = find_gateway(gateway)
    form = GatewayForm(initial=initial_of(found))
    fragment = bool(request.headers.get("HX-Request"))
    template = (
        "deployments/gateways/_gateway.html" if fragment else "deployments/gateways/detail.html"
    )
    return render(request, template, _page(request, gateway, form))


@require_POST
def change(request: HttpRequest, gateway: str) -> HttpResponse:
    """Change how a gateway is reached and where it listens."""
    found = find_gateway(gateway)
    require(actor_of(request), "gateway.register")
    fixed = {"name": found.name, "adapter": found.adapter}
    form = GatewayForm({**request.POST.dict(), **fixed})
    if form.is_valid():
        wanted = {key: value for key, value in form.cleaned_data.items() if key not in fixed}
        try:
            change_gateway(name=gateway, actor=actor_of(request), **wanted)
        except (NotFound, NotAllowed):
            raise
        except CovenantError as error:
            form.add_refusal(error)
        else:
            messages.success(request, _("The registration is changed."))
            return redirect("deployments:gateway-detail", gateway)
    context = _page(request, gateway, form)
    return render(request, "deployments/gateways/detail.html", context, status=422)


@require_POST
def remove(request: HttpRequest, gateway: str) -> HttpResponse:
    """Forget a gateway."""
    try:
        remove_gateway(name=gateway, reason=request.POST.get("reason", ""), actor=actor_of(request))
    except (NotFound, NotAllowed):
        raise
    except CovenantError as error:
        messages.error(request, f"{error.message} {error.hint}".strip())
        return redirect("deployments:gateway-detail", gateway)
    messages.success(request, _("The gateway is forgotten; it serves on with what it has."))
    return redirect("deployments:gateway-list")


@require_safe
def export(request: HttpRequest, gateway: str) -> HttpResponse:
    """What a gateway should have, as the file that its own tools take."""
    made = export_gateway(name=gateway, actor=actor_of(request))
    answer = HttpResponse(made.text, content_type="application/yaml; charset=utf-8")
    answer["Content-Disposition"] = f'attachment; filename="{made.filename}"'
    return answer


def _page(request: HttpRequest, gateway: str, form: GatewayForm) -> dict[str, Any]:
    row = gateway_row(find_gateway(gateway))
    for fixed in ("name", "adapter"):
        form.fields[fixed].disabled = True
    return {
        "row": row,
        "form": form,
        "may_register": _may(request),
        "can_export": row.product != "envoy",
    }


def _may(request: HttpRequest) -> bool:
    return allowed(actor_of(request), "gateway.register")
