"""The forms of an endpoint's telemetry."""

from __future__ import annotations

from django import forms
from django.utils.translation import gettext_lazy as _

from console.forms import ServiceForm


class TelemetryForm(ServiceForm):
    """What is measured, and of how many requests."""

    measured = forms.BooleanField(
        label=_("Measure it even where no contract promises it"),
        required=False,
        help_text=_("What the contract in force promises is measured in any case."),
    )
    percent = forms.FloatField(
        label=_("Requests that are looked at, %"),
        min_value=0.01,
        max_value=100,
        help_text=_(
            "So many are copied, and a model is asked again by at most three of them a second."
        ),
    )
    reason = forms.CharField(label=_("Reason"), max_length=500, required=False)


class ReferenceSampleForm(ServiceForm):
    """What a version was trained on."""

    version = forms.IntegerField(label=_("Version"), min_value=1, max_value=2**31 - 1)
    file = forms.FileField(
        label=_("Rows of the training data"),
        help_text=_(
            "CSV with a line of names, or a v2 request as JSON: 100 rows or more, 16 MiB at most. "
            "Each feature is kept by itself and in order of size, so that no row can be read again."
        ),
        widget=forms.ClearableFileInput(attrs={"accept": ".csv,.json,text/csv,application/json"}),
    )
    note = forms.CharField(label=_("Where it comes from"), max_length=500, required=False)

    def offer(self, numbers: list[int]) -> None:
        """Let one of these versions be chosen."""
        choices = [(number, f"v{number}") for number in numbers]
        self.fields["version"].widget = forms.Select(choices=choices)
