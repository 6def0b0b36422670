"""The forms that propose to set time aside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from console.forms import ServiceForm
from deployments.models import Incident


def _moment(label: Any, help_text: Any = "") -> forms.DateTimeField:
    widget = forms.DateTimeInput(attrs={"type": "datetime-local"}, format="%Y-%m-%dT%H:%M")
    return forms.DateTimeField(label=label, help_text=help_text, widget=widget)


class MaintenanceForm(ServiceForm):
    """When work is done, and what."""

    prefix = "maintenance"

    starts_at = _moment(_("From, UTC"))
    ends_at = _moment(_("To, UTC"), _("At most 12 hours, and 12 hours in a month."))
    reason = forms.CharField(
        label=_("What is done"),
        max_length=2000,
        widget=forms.Textarea(attrs={"rows": 2}),
        help_text=_("Those who agree to it read this, and so does the business."),
    )


class ExclusionForm(ServiceForm):
    """Which time should not count, why, and what shows it."""

    prefix = "exclusion"

    starts_at = _moment(_("From, UTC"))
    ends_at = _moment(_("To, UTC"), _("Over already, and at most 92 days ago."))
    reason = forms.CharField(
        label=_("Why it should not count"),
        max_length=2000,
        widget=forms.Textarea(attrs={"rows": 2}),
    )
    evidence = forms.CharField(
        label=_("What shows it"),
        max_length=2000,
        widget=forms.Textarea(attrs={"rows": 2}),
        help_text=_("A report, a ticket, an address: something that others can read."),
    )
    incident = forms.UUIDField(label=_("Incident"), required=False)

    def __init__(self, *args: Any, incidents: Sequence[Incident], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        choices = [("", _("none")), *((str(one.pk), _named(one)) for one in incidents)]
        self.fields["incident"].widget = forms.Select(choices=choices)


class WithdrawForm(ServiceForm):
    reason = forms.CharField(max_length=2000, required=False)


def _named(incident: Incident) -> str:
    return f"{incident.started_at:%Y-%m-%d %H:%M} · {incident.title}"
