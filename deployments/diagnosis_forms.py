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
