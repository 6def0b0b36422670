"""TLS on a gateway's listener: which files its certificate lies in, and until when it holds."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from console.actors import allowed, require
from console.api.authentication import actor_of
from console.errors import CovenantError, NotAllowed, NotFound
from deployments.access_forms import CertificateForm
from deployments.rules.gateways.certificates import warning_due
from deployments.selectors.gateways.certificates import find_listener
from deployments.services.gateways.certificates import set_certificate


@require_http_methods(["GET", "POST"])
def detail(request: HttpRequest, gateway: str, environment: str) -> HttpResponse:
    """The certificate of one listener; POST names other files."""
    listener = find_listener(gateway, environment)
    form = CertificateForm(
        request.POST or None,
        initial={"certificate_file": listener.certificate_file, "key_file": listener.key_file},
    )
    if request.method == "POST":
        require(actor_of(request), "gateway.register")
        if form.is_valid():
            try:
                set_certificate(
                    gateway=gateway,
                    environment=environment,
                    actor=actor_of(request),
                    **form.cleaned_data,
                )
            except (NotFound, NotAllowed):
                raise
            except CovenantError as error:
                form.add_refusal(error)
            else:
                messages.success(request, _("The gateway control reads the files now."))
                return redirect("deployments:gateway-certificate", gateway, environment)
    not_after = listener.certificate_not_after
    context = {
        "listener": listener,
        "form": form,
        "due": warning_due(not_after, timezone.now()) if not_after else None,
        "may_change": allowed(actor_of(request), "gateway.register"),
        "nav_section": "settings",
    }
    status = 422 if request.method == "POST" else 200
    return render(request, "deployments/gateways/certificate.html", context, status=status)
