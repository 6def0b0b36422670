"""The forms of alerts: filters, silences, rules."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from console.forms import ServiceForm
from deployments.documents.alert_words import SIGNALS, SOURCES, signal_title
from deployments.models import AlertRule, AlertSeverity, Node
from deployments.rules.alerts.catalogue import SIGNALS as FIXED
from deployments.rules.alerts.documents import (
    OPERATORS,
    WHOLE_NUMBERS,
    RuleDocument,
    parse_rule,
)
from models_registry.models import Environment

FORM_CONDITIONS = 2
MOST_CHOICES = 200


class AlertFilterForm(forms.Form):
    """Filters of the list; whatever is not understood filters nothing."""

    q = forms.CharField(required=False, max_length=200)
    state = forms.ChoiceField(
        required=False,
        choices=[
            ("", _("Any state")),
            ("unresolved", _("Unresolved")),
            ("unacknowledged", _("Nobody sees to it")),
            ("firing", _("Firing")),
            ("pending", _("Pending")),
            ("silenced", _("Kept quiet")),
            ("resolved", _("Resolved")),
        ],
    )
    severity = forms.ChoiceField(
        required=False, choices=[("", _("Any severity")), *AlertSeverity.choices]
    )
    environment = forms.CharField(required=False, max_length=40)
    model = forms.CharField(required=False, max_length=63)
    node = forms.CharField(required=False, max_length=40)
    rule = forms.CharField(required=False, max_length=80)


class AcknowledgeForm(forms.Form):
    note = forms.CharField(
        label=_("What others should know"),
        required=False,
        max_length=2000,
        widget=forms.Textarea(attrs={"rows": 2, "data-autofocus": True}),
    )


class AlertCommentForm(forms.Form):
    text = forms.CharField(
        label=_("Write into the timeline"),
        max_length=2000,
        widget=forms.Textarea(attrs={"rows": 2}),
    )


class SilenceForm(ServiceForm):
    """Which alerts are kept quiet, for how long, and why."""

    rule = forms.CharField(label=_("Rule"), required=False, max_length=80)
    severity = forms.ChoiceField(
        label=_("Severity"), required=False, choices=[("", _("Any")), *AlertSeverity.choices]
    )
    environment = forms.ChoiceField(label=_("Environment"), required=False)
    model = forms.CharField(label=_("Model"), required=False, max_length=63)
    node = forms.ChoiceField(label=_("Node"), required=False)
    label = forms.CharField(
        label=_("Label"),
        required=False,
        max_length=120,
        help_text=_("Of one series alone: a feature, an objective."),
    )
    lasts = forms.TypedChoiceField(
        label=_("For"),
        coerce=int,
        choices=[
            (30, _("30 minutes")),
            (60, _("1 hour")),
            (120, _("2 hours")),
            (480, _("8 hours")),
            (1440, _("1 day")),
            (10080, _("7 days")),
        ],
        initial=60,
    )
    reason = forms.CharField(label=_("Reason"), max_length=500)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        _offer_places(self)

    def values(self, now: datetime) -> dict[str, Any]:
        """What the service takes."""
        given = {
            name: self.cleaned_data[name]
            for name in ("rule", "severity", "environment", "model", "node", "label", "reason")
        }
        return {**given, "ends_at": now + timedelta(minutes=self.cleaned_data["lasts"])}


def _seconds(name: str, label: Any, help_text: Any = "") -> forms.IntegerField:
    low, high = WHOLE_NUMBERS[name]
    return forms.IntegerField(label=label, help_text=help_text, min_value=low, max_value=high)


class AlertRuleForm(ServiceForm):
    """A rule in plain words; what the form cannot say (more conditions) is kept as it is."""

    name = forms.CharField(
        label=_("Name"),
        max_length=80,
        help_text=_("Small letters, digits and hyphens; it stays."),
    )
    title = forms.CharField(
        label=_("What is wrong when it fires"), max_length=200, help_text=_("In a few words.")
    )
    severity = forms.ChoiceField(
        label=_("Severity"),
        choices=[
            ("P1", _("P1: somebody is called at once")),
            ("P2", _("P2: today")),
            ("P3", _("P3: to be seen to")),
        ],
        initial="P2",
    )
    enabled = forms.BooleanField(label=_("Switched on"), required=False, initial=True)
    signal = forms.CharField(
        label=_("Signal"),
        max_length=80,
        help_text=_("One of the list, or the name of a measured series."),
        widget=forms.TextInput(attrs={"list": "signals", "autocomplete": "off"}),
    )
    op = forms.ChoiceField(label=_("Is"), choices=[(one, one) for one in OPERATORS])
    threshold = forms.FloatField(label=_("Limit"))
    aggregate = forms.ChoiceField(
        label=_("Of a series take"),
        choices=[
            ("mean", _("the mean")),
            ("max", _("the greatest")),
            ("min", _("the least")),
            ("newest", _("the newest")),
        ],
    )
    label = forms.CharField(
        label=_("Label of the series"),
        max_length=120,
        required=False,
        help_text=_("Empty: of every label."),
    )
    own_limit = forms.BooleanField(
        label=_("The contract’s own limit counts where there is one"), required=False
    )
    signal_2 = forms.CharField(
        label=_("And signal"),
        max_length=80,
        required=False,
        help_text=_("Both have to hold, of the same thing."),
        widget=forms.TextInput(attrs={"list": "signals", "autocomplete": "off"}),
    )
    op_2 = forms.ChoiceField(
        label=_("Is"), required=False, choices=[(one, one) for one in OPERATORS]
    )
    threshold_2 = forms.FloatField(label=_("Limit"), required=False)
    window_s = _seconds("window_s", _("Over the last seconds"))
    for_s = _seconds("for_s", _("Fires when it has held for seconds"))
    keep_firing_s = _seconds("keep_firing_s", _("Over when well for seconds"))
    missing_s = _seconds(
        "missing_s",
        _("Over when not measured for seconds"),
        _("Nothing measured is not well."),
    )
    min_requests = _seconds(
        "min_requests", _("From so many valid requests on"), _("Fewer say nothing.")
    )
    min_faults = _seconds("min_faults", _("And so many failed ones"))
    each = forms.ChoiceField(
        label=_("Count requests of"),
        choices=[("endpoint", _("each endpoint")), ("version", _("each version"))],
    )
    environment = forms.ChoiceField(label=_("Environment"), required=False)
    model = forms.CharField(label=_("Model"), required=False, max_length=63)
    node = forms.ChoiceField(label=_("Node"), required=False)
    runbook = forms.CharField(
        label=_("Page of help"),
        required=False,
        max_length=60,
        help_text=_("The code of a page under Help."),
    )
    reason = forms.CharField(label=_("Reason"), max_length=500, required=False)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        _offer_places(self)

    def document(self, kept: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The rule's document; conditions beyond the form's are those of `kept`."""
        data = self.cleaned_data
        conditions = [
            {
                "signal": data["signal"],
                "op": data["op"],
                "threshold": data["threshold"],
                "aggregate": data["aggregate"],
                "own_limit": data["own_limit"],
                "label": _label(data["label"], kept),
            }
        ]
        earlier = list((kept or {}).get("conditions", ()))
        if data["signal_2"]:
            before = earlier[1] if len(earlier) > 1 else {}
            conditions.append(
                {
                    **before,
                    "signal": data["signal_2"],
                    "op": data["op_2"] or ">",
                    "threshold": data["threshold_2"],
                }
            )
            conditions += earlier[FORM_CONDITIONS:]
        names = (*WHOLE_NUMBERS, "each", "runbook")
        return {"conditions": conditions, **{name: data[name] for name in names}}

    def values(self) -> dict[str, Any]:
        """What the service takes beside the document."""
        names = ("title", "severity", "enabled", "environment", "model", "node", "reason")
        return {name: self.cleaned_data[name] for name in names}


def rule_initial(row: AlertRule) -> dict[str, Any]:
    """What the form starts with for a rule; the defaults where it cannot be read."""
    place = {
        "environment": row.environment.name if row.environment else "",
        "model": row.model.name if row.model else "",
        "node": row.node.name if row.node else "",
    }
    found = {
        "name": row.name,
        "title": row.title,
        "severity": row.severity,
        "enabled": row.enabled,
        **place,
    }
    return {**found, **document_initial(parse_rule(row.document))}


def document_initial(rule: RuleDocument) -> dict[str, Any]:
    """The form's fields of a document."""
    first = rule.conditions[0]
    found: dict[str, Any] = {name: getattr(rule, name) for name in WHOLE_NUMBERS}
    found |= {"each": rule.each, "runbook": rule.runbook}
    found |= {
        "signal": first.signal,
        "op": first.op,
        "threshold": first.threshold,
        "aggregate": first.aggregate,
        "label": first.label or "",
        "own_limit": first.own_limit,
    }
    if len(rule.conditions) > 1:
        second = rule.conditions[1]
        found |= {
            "signal_2": second.signal,
            "op_2": second.op,
            "threshold_2": second.threshold,
        }
    return found


def signal_choices(series: list[str]) -> list[tuple[str, str, str]]:
    """(Name, words, where it comes from) of everything that can be watched."""
    fixed = [(key, signal_title(key), str(SOURCES[one.source])) for key, one in FIXED.items()]
    named = [name for name in SIGNALS if name not in FIXED]
    every = sorted({*series, *named})
    return fixed + [(name, signal_title(name), "") for name in every]


def _label(given: str, kept: Mapping[str, Any] | None) -> str | None:
    """ "" is of a series without a label, which the form cannot say: it stays as it is."""
    earlier = list((kept or {}).get("conditions", ()))
    if not given and earlier and earlier[0].get("label") == "":
        return ""
    return given or None


def _offer_places(form: forms.Form) -> None:
    every = [("", _("Any"))]
    environments = Environment.objects.order_by("name").values_list("name", flat=True)
    nodes = Node.objects.order_by("name").values_list("name", flat=True)
    for name, values in (("environment", environments), ("node", nodes)):
        field = form.fields[name]
        if isinstance(field, forms.ChoiceField):
            field.choices = [*every, *((one, one) for one in values[:MOST_CHOICES])]
