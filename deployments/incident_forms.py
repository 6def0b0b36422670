"""The forms of incidents and of rollback policies."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from console.forms import ServiceForm
from deployments.models import IncidentSeverity, IncidentState
from deployments.rules.incidents.rollback_policies import WHOLE_NUMBERS, RollbackPolicy, policy_json


class IncidentFilterForm(forms.Form):
    """Filters of the list; whatever is not understood filters nothing."""

    q = forms.CharField(required=False, max_length=200)
    state = forms.ChoiceField(
        required=False,
        choices=[("", _("Any state")), ("unresolved", _("Unresolved")), *IncidentState.choices],
    )
    severity = forms.ChoiceField(
        required=False, choices=[("", _("Any severity")), *IncidentSeverity.choices]
    )
    environment = forms.CharField(required=False, max_length=40)


class ResolveForm(forms.Form):
    summary = forms.CharField(
        label=_("What it was and what was done"),
        max_length=4000,
        widget=forms.Textarea(attrs={"rows": 4, "data-autofocus": True}),
    )


class CommentForm(forms.Form):
    text = forms.CharField(
        label=_("Write into the timeline"),
        max_length=4000,
        widget=forms.Textarea(attrs={"rows": 2}),
    )


def _number(name: str, label: Any, help_text: Any) -> forms.IntegerField:
    low, high = WHOLE_NUMBERS[name]
    return forms.IntegerField(label=label, help_text=help_text, min_value=low, max_value=high)


class RollbackPolicyForm(ServiceForm):
    """A rollback policy in plain words; each field is one of the document's."""

    automatic = forms.BooleanField(
        label=_("Go down the levels by itself"),
        required=False,
        help_text=_("Otherwise people alone roll back and switch the mode."),
    )
    window_s = _number("window_s", _("Look at the last seconds"), _("Faults and P99 are theirs."))
    min_requests = _number(
        "min_requests", _("From so many requests on"), _("Fewer say nothing of a version.")
    )
    fault_percent = forms.FloatField(
        label=_("Unhealthy from this share of faults on, %"),
        min_value=0.01,
        max_value=100,
        help_text=_("Faults of ours (5xx, time-outs), never a caller’s."),
    )
    p99_ms = forms.FloatField(
        label=_("Unhealthy above this P99, ms"),
        required=False,
        min_value=0.01,
        max_value=600_000,
        help_text=_("Empty: latency moves nothing."),
    )
    no_node_s = _number(
        "no_node_s",
        _("Unhealthy after so many seconds without a node"),
        _("A node counts as lost three seconds after its last answer."),
    )
    highest_level = forms.TypedChoiceField(
        label=_("Go no further than"),
        coerce=int,
        choices=[
            (1, _("Level 1: the last good version")),
            (2, _("Level 2: the contract’s fallback")),
            (3, _("Level 3: the open circuit")),
        ],
    )
    redeploy = forms.BooleanField(
        label=_("Deploy the last good version again where it is gone"), required=False
    )
    hold_s = _number(
        "hold_s",
        _("Hold a level for seconds"),
        _("Before the first return; doubled with each return that fails."),
    )
    longest_hold_s = _number("longest_hold_s", _("Hold it at most for seconds"), "")
    probes_percent = forms.CharField(
        label=_("Return in steps of, %"),
        max_length=80,
        help_text=_("Shares of the callers that try the version, as in 1, 10, 50, 100."),
    )
    probe_s = _number("probe_s", _("Each step for seconds"), "")
    probe_requests = _number(
        "probe_requests",
        _("Each step with requests"),
        _("Where fewer come, the version is asked by its recorded sample."),
    )
    moves_per_hour = _number(
        "moves_per_hour",
        _("At most so many moves in an hour"),
        _("Then it stays as it is, and those on call are told."),
    )
    reason = forms.CharField(label=_("Reason"), max_length=500, required=False)

    def document(self) -> dict[str, Any]:
        """The policy's document; what cannot be read is left for the rule to refuse."""
        fields = policy_json(RollbackPolicy())
        found = {name: self.cleaned_data[name] for name in fields if name != "probes_percent"}
        return {**found, "probes_percent": _shares(self.cleaned_data["probes_percent"])}


def policy_initial(policy: RollbackPolicy) -> dict[str, Any]:
    """What the form starts with."""
    shares = ", ".join(f"{share:g}" for share in policy.probes_percent)
    return {**policy_json(policy), "probes_percent": shares}


def _shares(text: str) -> object:
    try:
        return [float(part) for part in text.replace("%", "").split(",") if part.strip()]
    except ValueError:
        return text
