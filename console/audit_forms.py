"""Forms of the audit trail's pages."""

from __future__ import annotations

from typing import Any, ClassVar

from django import forms
from django.utils.translation import gettext_lazy as _

from console.forms import ServiceForm
from console.models import SinkKind


class AuditFilterForm(forms.Form):
    """Filters of the audit trail; whatever is not understood filters nothing."""

    OUTCOMES: ClassVar[list[tuple[str, Any]]] = [("", _("Everything")), ("denied", _("Denied"))]

    actor = forms.CharField(required=False, max_length=64)
    action = forms.CharField(required=False, max_length=64)
    subject = forms.CharField(required=False, max_length=200)
    outcome = forms.ChoiceField(required=False, choices=OUTCOMES)
    request_id = forms.CharField(required=False, max_length=64)
    since = forms.DateField(required=False, widget=forms.DateInput(attrs={"type": "date"}))
    until = forms.DateField(required=False, widget=forms.DateInput(attrs={"type": "date"}))


class SinkForm(ServiceForm):
    name = forms.SlugField(
        label=_("Name"), max_length=40, help_text=_("Letters, digits, hyphen, underscore.")
    )
    kind = forms.ChoiceField(
        label=_("Kind"), choices=SinkKind.choices, widget=forms.RadioSelect, initial="syslog"
    )
    address = forms.CharField(
        label=_("Address"),
        max_length=300,
        help_text=_(
            "Syslog: tls://host:6514, tcp://host:601 or udp://host:514. Webhook: https://host/path."
        ),
    )
    from_start = forms.BooleanField(
        label=_("Send all that is kept, not only what is written from now on"), required=False
    )


class SinkAddressForm(ServiceForm):
    address = forms.CharField(label=_("Address"), max_length=300, required=False)
