"""The form that starts an experiment."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from console.forms import ServiceForm


class ExperimentForm(ServiceForm):
    """Two versions that are ready here, what counts as an outcome, and when worse is too bad."""

    name = forms.CharField(label=_("Name"), max_length=80)
    outcome = forms.CharField(
        label=_("Outcome"),
        max_length=60,
        help_text=_("The name that callers report, such as purchase."),
    )
    baseline = forms.TypedChoiceField(label=_("Baseline"), coerce=int)
    candidate = forms.TypedChoiceField(label=_("Candidate"), coerce=int)
    margin = forms.FloatField(
        label=_("Margin, percentage points"),
        min_value=0.1,
        max_value=50,
        initial=1.0,
        help_text=_("By how much less the candidate may convert: 1 is from 12 to 11 percent."),
    )
    confidence = forms.FloatField(
        label=_("Confidence, percent"), min_value=80, max_value=99.9, initial=95
    )
    window = forms.CharField(
        label=_("An outcome counts within"),
        max_length=10,
        initial="10m",
        help_text=_("Of its answer: 30s, 10m or 24h at most. An answer counts once that is over."),
    )
    take_off = forms.BooleanField(
        label=_("Take the candidate off when it is shown to be worse"), required=False, initial=True
    )

    def __init__(self, *args: Any, versions: list[int], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name, first in (("baseline", 0), ("candidate", -1)):
            field = self.fields[name]
            if isinstance(field, forms.ChoiceField):
                field.choices = [(number, f"v{number}") for number in versions]
            field.initial = versions[first] if versions else None
