"""Who goes where besides the weights: header rules, testers, sticky header, mirror."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from console.actors import allowed
from console.api.authentication import actor_of, user_of
from console.errors import CovenantError
from deployments.routing_forms import HeaderRuleForms, RoutingForm, TesterForms
from deployments.rules.gateways.capabilities import Capability
from deployments.selectors.gateways.words import lacking_words
from deployments.selectors.traffic.endpoint_pages import endpoint_page
from deployments.selectors.traffic.endpoint_types import EndpointPage
from deployments.services.traffic.splits import set_split


@require_http_methods(["GET", "HEAD", "POST"])
def detail(request: HttpRequest, environment: str, model: str) -> HttpResponse:
    """The rules as a form; sent, they are a new revision of the split with the same weights."""
    page = endpoint_page(environment, model, now=timezone.now(), user=user_of(request))
    forms = _forms(request, page)
    if request.method == "POST" and all(one.is_valid() for one in forms.values()):
        try:
            split = _save(request, page, forms)
        except CovenantError as error:
            forms["form"].add_refusal(error)
        else:
            messages.success(
                request,
                _("The routing rules are written as revision %(revision)s.")
                % {"revision": split.revision},
            )
            return redirect("deployments:endpoint-routing", environment, model)
    context = {
        "page": page,
        "may_change": allowed(actor_of(request), "split.change", page.endpoint.model.team_id),
        **forms,
    }
    refused = request.method == "POST"
    return render(
        request, "deployments/endpoints/routing.html", context, status=422 if refused else 200
    )


def _forms(request: HttpRequest, page: EndpointPage) -> dict[str, Any]:
    split, data = page.split, request.POST if request.method == "POST" else None
    numbers = sorted({line.number for line in page.versions})
    mirror = (split.mirror if split else None) or {}
    form = RoutingForm(
        data,
        versions=numbers,
        initial={
            "sticky_header": split.sticky_header if split else "x-user-id",
            "mirror_version": mirror.get("version", ""),
            "mirror_percent": mirror.get("percent", 100),
            "revision": split.revision if split else 0,
        },
    )
    if lacking_words(page.environment, [Capability.MIRROR]):
        for name in ("mirror_version", "mirror_percent"):
            form.fields[name].disabled = True
    return {
        "form": form,
        "rules": HeaderRuleForms(
            data,
            prefix="rule",
            initial=split.header_rules if split else [],
            form_kwargs={"versions": numbers},
        ),
        "testers": TesterForms(
            data,
            prefix="tester",
            initial=split.testers if split else [],
            form_kwargs={"versions": numbers},
        ),
    }


def _save(request: HttpRequest, page: EndpointPage, forms: dict[str, Any]) -> Any:
    wanted = forms["form"].cleaned_data
    version = wanted["mirror_version"]
    return set_split(
        environment=page.environment,
        model=page.model,
        weights=page.weights,
        expected_revision=wanted["revision"],
        reason=wanted["reason"],
        actor=actor_of(request),
        sticky_header=wanted["sticky_header"],
        header_rules=_rows(forms["rules"]),
        testers=_rows(forms["testers"]),
        mirror={
            "version": version or 0,
            "percent": wanted["mirror_percent"] if version else 0,
        },
    )


def _rows(formset: Any) -> list[dict[str, Any]]:
    kept = [one.cleaned_data for one in formset if one.has_changed()]
    return [row for row in kept if not row.get("DELETE")]
