"""The forms of on-call schedules, takeovers and escalations."""

from __future__ import annotations

import re
from datetime import UTC, datetime, time
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

from django import forms
from django.utils.translation import gettext_lazy as _

from console.forms import ServiceForm
from console.models import Team
from deployments.models import Covers, EscalationPolicy, OnCallSchedule, StepTarget
from deployments.rules.alerts.route_terms import LayerTerms, ScheduleTerms, StepTerms
from deployments.services.alerts import policies, schedules

LAYERS, STEPS = 3, 5
DAYS = [
    (0, _("Monday")),
    (1, _("Tuesday")),
    (2, _("Wednesday")),
    (3, _("Thursday")),
    (4, _("Friday")),
    (5, _("Saturday")),
    (6, _("Sunday")),
]


class LayerForm(forms.Form):
    """One rotation; without people it is none."""

    people = forms.CharField(
        label=_("People in turn"),
        max_length=1000,
        required=False,
        help_text=_("User names in the order of their turns, with commas between."),
    )
    starts_on = forms.DateField(
        label=_("First turn begins on"),
        required=False,
        widget=forms.DateInput(attrs={"type": "date"}, format="%Y-%m-%d"),
    )
    handover = forms.TimeField(
        label=_("Handover at"),
        required=False,
        initial=time(9),
        widget=forms.TimeInput(attrs={"type": "time"}, format="%H:%M"),
    )
    days_each = forms.IntegerField(
        label=_("Days each"), required=False, initial=7, min_value=1, max_value=92
    )
    from_time = forms.TimeField(
        label=_("Only from"),
        required=False,
        widget=forms.TimeInput(attrs={"type": "time"}, format="%H:%M"),
        help_text=_("Empty: all day."),
    )
    until_time = forms.TimeField(
        label=_("until"),
        required=False,
        widget=forms.TimeInput(attrs={"type": "time"}, format="%H:%M"),
        help_text=_("Before “from”: over midnight."),
    )
    weekdays = forms.TypedMultipleChoiceField(
        label=_("Only on"),
        required=False,
        coerce=int,
        choices=DAYS,
        widget=forms.CheckboxSelectMultiple,
        help_text=_("None chosen: every day."),
    )

    def clean(self) -> dict[str, Any]:
        found = super().clean() or {}
        if found.get("people") and not found.get("starts_on"):
            self.add_error("starts_on", _("A rotation begins on a day."))
        return found

    def terms(self) -> LayerTerms | None:
        """The rotation, None where nobody is named."""
        found = self.cleaned_data
        people = tuple(part for part in re.split(r"[,;\s]+", found["people"]) if part)
        if not people:
            return None
        return LayerTerms(
            people=people,
            starts_on=found["starts_on"],
            handover=found["handover"] or time(9),
            days_each=found["days_each"] or 7,
            from_time=found["from_time"],
            until_time=found["until_time"],
            weekdays=tuple(found["weekdays"]),
        )


class ScheduleForm(ServiceForm):
    """A schedule; its layers are forms of their own beneath it."""

    name = forms.SlugField(
        label=_("Name"), max_length=40, help_text=_("Letters, digits, hyphen, underscore.")
    )
    title = forms.CharField(label=_("Title"), max_length=120, required=False)
    time_zone = forms.CharField(
        label=_("Time zone"),
        max_length=64,
        initial="UTC",
        help_text=_("As in Europe/Berlin: handovers are at its local times."),
        widget=forms.TextInput(attrs={"list": "time-zones", "autocomplete": "off"}),
    )
    covers = forms.ChoiceField(
        label=_("Holds for"),
        choices=Covers.choices,
        initial=Covers.EVERYTHING,
        widget=forms.RadioSelect,
    )
    team = forms.ModelChoiceField(
        label=_("Team"),
        required=False,
        to_field_name="slug",
        queryset=Team.objects.none(),
        empty_label=_("No team"),
    )
    revision = forms.IntegerField(required=False, widget=forms.HiddenInput)

    def __init__(self, data: Any = None, *, changed: OnCallSchedule | None = None) -> None:
        facts = schedules.facts(changed) if changed else {}
        initial = {**facts, "revision": changed.revision} if changed else None
        super().__init__(data, initial=initial)
        self.fields["team"].queryset = Team.objects.order_by("slug")  # type: ignore[attr-defined]
        if changed is not None:
            del self.fields["name"]
        listed = facts.get("layers", [])
        self.layers = [
            LayerForm(
                data,
                prefix=f"layer{number}",
                initial=_layer(listed[number]) if number < len(listed) else None,
            )
            for number in range(max(LAYERS, len(listed)))
        ]

    def is_valid(self) -> bool:
        return all([super().is_valid(), *(one.is_valid() for one in self.layers)])

    def terms(self) -> ScheduleTerms:
        """What was given, by names."""
        found = self.cleaned_data
        layers = (one.terms() for one in self.layers)
        return ScheduleTerms(
            title=found["title"],
            time_zone=found["time_zone"],
            covers=found["covers"],
            team=found["team"].slug if found["team"] else "",
            layers=tuple(one for one in layers if one is not None),
        )

    def add_refusal(self, error: Any) -> None:
        """A fault of a layer stands at the layer's field."""
        for fault in error.errors:
            _first, kind, *rest = fault.pointer.split("/")
            if kind == "layers" and len(rest) == 2 and rest[1] in LayerForm.base_fields:
                self.layers[int(rest[0])].add_error(rest[1], fault.detail)
                return
        super().add_refusal(error)

    @staticmethod
    def zones() -> list[str]:
        """The names that the field proposes."""
        return sorted(available_timezones())


class TakeOverForm(ServiceForm):
    """Who takes over, from when until when; times are UTC."""

    person = forms.CharField(
        label=_("Who"), max_length=64, required=False, help_text=_("Left empty: you yourself.")
    )
    starts_at = forms.DateTimeField(
        label=_("From"),
        required=False,
        widget=forms.DateTimeInput(attrs={"type": "datetime-local"}, format="%Y-%m-%dT%H:%M"),
        help_text=_("Left empty: from now on."),
    )
    ends_at = forms.DateTimeField(
        label=_("Until"),
        widget=forms.DateTimeInput(attrs={"type": "datetime-local"}, format="%Y-%m-%dT%H:%M"),
    )
    reason = forms.CharField(label=_("Reason"), max_length=200, required=False)

    def __init__(self, data: Any = None, *, zone: str = "UTC") -> None:
        super().__init__(data)
        self._zone = ZoneInfo(zone)

    def given(self) -> dict[str, Any]:
        """What the service takes; what was typed is a local time of the schedule."""
        found = dict(self.cleaned_data)
        for name in ("starts_at", "ends_at"):
            found[name] = self._moment(found[name])
        return found

    def _moment(self, typed: datetime | None) -> datetime | None:
        if typed is None:
            return None
        return typed.replace(tzinfo=self._zone).astimezone(UTC)


class StepForm(forms.Form):
    """One step; without a target it is none."""

    after_minutes = forms.IntegerField(
        label=_("After minutes"), required=False, min_value=1, max_value=1440
    )
    target = forms.ChoiceField(
        label=_("Tell"), required=False, choices=[("", "—"), *StepTarget.choices]
    )
    name = forms.CharField(
        label=_("Which"),
        max_length=64,
        required=False,
        help_text=_("The name of the schedule, person or channel."),
    )

    def clean(self) -> dict[str, Any]:
        found = super().clean() or {}
        if found.get("target") and not found.get("after_minutes"):
            self.add_error("after_minutes", _("After how many minutes?"))
        return found


class PolicyForm(ServiceForm):
    """An escalation; its steps are forms of their own beneath it."""

    name = forms.SlugField(
        label=_("Name"), max_length=40, help_text=_("Letters, digits, hyphen, underscore.")
    )
    repeats = forms.IntegerField(
        label=_("Then all again, times"), min_value=0, max_value=9, initial=0
    )
    revision = forms.IntegerField(required=False, widget=forms.HiddenInput)

    def __init__(self, data: Any = None, *, changed: EscalationPolicy | None = None) -> None:
        facts = policies.facts(changed) if changed else {}
        initial = {**facts, "revision": changed.revision} if changed else None
        super().__init__(data, initial=initial)
        if changed is not None:
            del self.fields["name"]
        listed = facts.get("steps", [])
        self.steps = [
            StepForm(
                data,
                prefix=f"step{number}",
                initial=listed[number] if number < len(listed) else None,
            )
            for number in range(max(STEPS, len(listed) + 1))
        ]

    def is_valid(self) -> bool:
        return all([super().is_valid(), *(one.is_valid() for one in self.steps)])

    def terms(self) -> list[StepTerms]:
        """The steps that were given."""
        return [
            StepTerms(**{name: one.cleaned_data[name] for name in StepForm.base_fields})
            for one in self.steps
            if one.cleaned_data["target"]
        ]


def _layer(facts: dict[str, Any]) -> dict[str, Any]:
    return {**facts, "people": ", ".join(facts["people"])}
