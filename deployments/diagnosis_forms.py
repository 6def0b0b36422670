"""Forms of the pages of diagnosis."""

from __future__ import annotations

from django import forms
from django.utils.translation import gettext_lazy as _

from deployments.models import DiagnosisState


class DiagnosisFilterForm(forms.Form):
    """What to list; what cannot be read filters nothing."""

    state = forms.ChoiceField(
        choices=[("", _("All states")), *DiagnosisState.choices], required=False
    )
    node = forms.CharField(max_length=40, required=False)
    q = forms.CharField(max_length=80, required=False)


class SlowFilterForm(forms.Form):
    """Which requests; what cannot be read filters nothing."""

    version = forms.IntegerField(min_value=0, max_value=2**31 - 1, required=False)
    status = forms.IntegerField(min_value=100, max_value=599, required=False)
    caller = forms.CharField(max_length=80, required=False)
    x_request_id = forms.CharField(max_length=200, required=False)
