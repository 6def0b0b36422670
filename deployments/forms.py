"""The forms of this storey's pages."""

from __future__ import annotations

from typing import Any

from django import forms
from django.conf import settings
from django.utils.translation import gettext_lazy as _

from console.forms import ServiceForm
from models_registry.models import LoadPattern
from models_registry.rules.load_tests import MAX_SECONDS, MIN_SECONDS


class LoadTestForm(ServiceForm):
    """What load to send, where, and for how long; the environments are those that could be."""

    environment = forms.ChoiceField(label=_("Environment"))
    pattern = forms.ChoiceField(
        label=_("Pattern"), choices=LoadPattern.choices, initial=LoadPattern.STEP
    )
    rate = forms.IntegerField(label=_("Peak, requests/s"), min_value=1, initial=40)
    seconds = forms.IntegerField(
        label=_("Seconds"), min_value=MIN_SECONDS, max_value=MAX_SECONDS, initial=15
    )

    def __init__(self, *args: Any, environments: list[str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        choice, rate = self.fields["environment"], self.fields["rate"]
        if isinstance(choice, forms.ChoiceField):
            choice.choices = [(name, name) for name in environments]
        if isinstance(rate, forms.IntegerField):
            rate.max_value = settings.CONFIG.load_test_max_rate
            rate.widget.attrs["max"] = rate.max_value
