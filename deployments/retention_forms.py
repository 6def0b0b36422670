"""The form that says how long counts are kept."""

from __future__ import annotations

from django import forms
from django.utils.translation import gettext_lazy as _

from console.forms import ServiceForm
from deployments.rules.statistics.retention import FIELDS, LONGEST_DAYS

LABELS = {
    "minutes_days": _("Requests, minute by minute"),
    "hours_days": _("Requests, hour by hour"),
    "days_days": _("Requests, day by day"),
    "series_minutes_days": _("Measurements, minute by minute"),
    "series_hours_days": _("Measurements, hour by hour"),
    "mirrors_days": _("Copies that mirrors answered"),
    "comparisons_days": _("Compared answers of two versions"),
    "outcomes_days": _("Outcomes that callers reported"),
    "gaps_days": _("When gateways were not read"),
}
MEANINGS = {
    "minutes_days": _("Charts, error budgets in minutes, and the edges of every window."),
    "hours_days": _("Promises over weeks and months."),
    "days_days": _("Promises over years; a day of an endpoint takes about a kilobyte."),
    "series_minutes_days": _("GPUs, machines, drift and whatever is sent by OTLP."),
    "series_hours_days": _("The same over months."),
    "mirrors_days": _("No promise rests on them."),
    "comparisons_days": _("Two versions are compared over a week at most."),
    "outcomes_days": _("Each for itself; what an experiment counted of them stays."),
    "gaps_days": _("Whoever reads a promise should see what was not observed."),
}


class RetentionForm(ServiceForm):
    """Days of each kind; 0 is for ever."""

    reason = forms.CharField(
        label=_("Reason"), required=False, max_length=500, widget=forms.TextInput()
    )

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]
        for name in FIELDS:
            self.fields[name] = forms.IntegerField(
                label=LABELS[name], help_text=MEANINGS[name], min_value=0, max_value=LONGEST_DAYS
            )

    def days(self) -> dict[str, int]:
        """What was typed, for the service."""
        return {name: self.cleaned_data[name] for name in FIELDS}
