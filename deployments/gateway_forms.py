"""Forms of the pages of gateways."""

from __future__ import annotations

import json
from typing import Any

from django import forms
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from console.errors import CovenantError
from console.forms import ServiceForm
from deployments.models import Gateway, GatewayProduct


class GatewayForm(ServiceForm):
    """How a gateway is reached and where it listens; name and product stay once it is there."""

    name = forms.SlugField(label=gettext_lazy("Name"), max_length=40)
    adapter = forms.ChoiceField(label=gettext_lazy("Product"), choices=GatewayProduct.choices)
    admin_url = forms.CharField(
        label=gettext_lazy("Address"),
        max_length=200,
        help_text=gettext_lazy(
            "Envoy’s admin address, Kong’s Admin API, or the API server of Kubernetes."
        ),
    )
    listeners = forms.CharField(
        label=gettext_lazy("Listens for"),
        widget=forms.Textarea(attrs={"rows": 3, "spellcheck": "false"}),
        help_text=gettext_lazy(
            "One line for each environment: its name, host:port, and how callers reach that if it "
            "differs."
        ),
    )
    options = forms.CharField(
        label=gettext_lazy("Options"),
        required=False,
        widget=forms.Textarea(attrs={"rows": 5, "spellcheck": "false"}),
        help_text=gettext_lazy(
            "JSON: what its product needs besides. A token is named by file or variable, never "
            "written here."
        ),
    )

    def clean_listeners(self) -> dict[str, Any]:
        """Listeners and public addresses, as the service takes them."""
        places: dict[str, tuple[str, int]] = {}
        urls: dict[str, str] = {}
        for line in filter(None, map(str.split, self.cleaned_data["listeners"].splitlines())):
            environment, place = line[0], line[1] if len(line) > 1 else ""
            address, _colon, port = place.rpartition(":")
            if not address or not port.isdecimal() or len(line) > 3:
                raise forms.ValidationError(
                    _("“%(line)s” is not: environment host:port [address for callers].")
                    % {"line": " ".join(line)}
                )
            places[environment] = (address.strip("[]"), int(port))
            if len(line) == 3:
                urls[environment] = line[2]
        return {"listeners": places, "public_urls": urls}

    def clean_options(self) -> Any:
        """The options as an object."""
        text = self.cleaned_data["options"].strip()
        try:
            return json.loads(text) if text else {}
        except ValueError as error:
            raise forms.ValidationError(_("This is no JSON: %(why)s") % {"why": error}) from error

    def clean(self) -> dict[str, Any]:
        """Everything in the form in which the service takes it."""
        found = super().clean() or {}
        return {**found, **found.pop("listeners", {})}

    def add_refusal(self, error: CovenantError) -> None:
        """A refusal of the service, at the field that each fault is about."""
        for fault in error.errors:
            field, _slash, inside = fault.pointer.strip("/").partition("/")
            words = f"{inside}: {fault.detail}" if inside else fault.detail
            self.add_error(field if field in self.fields else None, words)
        if not error.errors:
            super().add_refusal(error)


def initial_of(gateway: Gateway) -> dict[str, str]:
    """A gateway's registration as the form shows it."""
    lines = []
    for one in gateway.listeners.select_related("environment"):
        place = f"{one.address}:{one.port}"
        url = "" if one.public_url == f"http://{place}" else f" {one.public_url}"
        lines.append(f"{one.environment.name} {place}{url}")
    return {
        "name": gateway.name,
        "adapter": gateway.adapter,
        "admin_url": gateway.admin_url,
        "listeners": "\n".join(lines),
        "options": json.dumps(gateway.options, indent=2) if gateway.options else "",
    }
