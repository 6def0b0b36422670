"""The forms of promises: filters of the portfolio, a link, a report by mail."""

from __future__ import annotations

from typing import Any

from django import forms
from django.conf import settings
from django.utils.translation import gettext_lazy as _

from console.forms import ServiceForm
from console.models import Team, User
from deployments.rules.objectives.sla_months import RANKS
from deployments.rules.objectives.sla_sharing import FEWEST_DAYS, MOST_DAYS, USUAL_DAYS
from models_registry.models import Environment

STATES = [(state.value, state.value) for state in RANKS]


class PortfolioForm(forms.Form):
    """Filters of the list; whatever is not understood filters nothing."""

    q = forms.CharField(required=False, max_length=63)
    team = forms.CharField(required=False, max_length=64)
    environment = forms.CharField(required=False, max_length=40)
    state = forms.ChoiceField(required=False, choices=[("", ""), *STATES])


class ShareForm(ServiceForm):
    note = forms.CharField(
        label=_("For whom"),
        max_length=200,
        required=False,
        help_text=_("Kept with the link, so that others know what it is for."),
    )
    days = forms.IntegerField(
        label=_("Valid for days"),
        min_value=FEWEST_DAYS,
        max_value=MOST_DAYS,
        initial=USUAL_DAYS,
    )


class ReportForm(ServiceForm):
    """What a report is about; a promise is chosen on its own page."""

    team = forms.ChoiceField(label=_("Team"), required=False)
    environment = forms.ChoiceField(label=_("Environment"), required=False)
    language = forms.ChoiceField(label=_("Language"), required=False)

    def __init__(self, *args: Any, person: User, teams: list[Team], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        names = Environment.objects.order_by("name").values_list("name", flat=True)[:50]
        team, environment, language = (self.fields[name] for name in self.fields)
        team.choices = [("", _("All teams")), *((one.slug, one.name) for one in teams)]  # type: ignore[attr-defined]
        environment.choices = [("", _("All environments")), *((name, name) for name in names)]  # type: ignore[attr-defined]
        language.choices = list(settings.LANGUAGES)  # type: ignore[attr-defined]
        language.initial = person.language or settings.LANGUAGE_CODE
