"""Schedules, shifts and escalations as JSON."""

from __future__ import annotations

from datetime import time
from typing import Any

from rest_framework import serializers

from deployments.models import Covers, EscalationPolicy, OnCallSchedule, StepTarget
from deployments.rules.alerts.route_terms import LayerTerms, ScheduleTerms, StepTerms
from deployments.services.alerts import policies, schedules


class OnCallLayerSerializer(serializers.Serializer[object]):
    """A rotation: people by user name, in the order of their turns; times are local."""

    people = serializers.ListField(child=serializers.CharField(max_length=64), max_length=40)
    starts_on = serializers.DateField()
    handover = serializers.TimeField(default=time(9), format="%H:%M")
    days_each = serializers.IntegerField(min_value=1, max_value=92, default=7)
    from_time = serializers.TimeField(allow_null=True, default=None, format="%H:%M")
    until_time = serializers.TimeField(allow_null=True, default=None, format="%H:%M")
    weekdays = serializers.ListField(
        child=serializers.IntegerField(min_value=0, max_value=6), default=list, max_length=7
    )


class ScheduleTermsSerializer(serializers.Serializer[object]):
    """A schedule as people decide it; layers from the lowest up."""

    title = serializers.CharField(max_length=120, allow_blank=True, default="")
    time_zone = serializers.CharField(max_length=64, default="UTC")
    covers = serializers.ChoiceField(choices=Covers.choices, default=Covers.NAMED)
    team = serializers.CharField(max_length=64, allow_blank=True, default="")
    layers = OnCallLayerSerializer(many=True)

    def terms(self) -> ScheduleTerms:
        """What was given, for the service."""
        given = dict(self.validated_data)
        layers = tuple(
            LayerTerms(
                **{
                    **layer,
                    "people": tuple(layer["people"]),
                    "weekdays": tuple(layer["weekdays"]),
                }
            )
            for layer in given["layers"]
        )
        fields = ("title", "time_zone", "covers", "team")
        return ScheduleTerms(**{name: given[name] for name in fields}, layers=layers)


class ScheduleChangeSerializer(ScheduleTermsSerializer):
    """With `revision` only if nobody changed it since (0: it is new)."""

    revision = serializers.IntegerField(min_value=0, required=False)
    reason = serializers.CharField(max_length=500, allow_blank=True, default="")


class ScheduleSerializer(ScheduleTermsSerializer):
    """A schedule by its name."""

    name = serializers.CharField()
    revision = serializers.IntegerField()

    def to_representation(self, instance: Any) -> dict[str, Any]:
        schedule: OnCallSchedule = instance
        return {
            "name": schedule.name,
            "revision": schedule.revision,
            **schedules.facts(schedule),
        }


class ShiftSerializer(serializers.Serializer[object]):
    """A stretch of time with the same person; `person` is null where nobody is on call."""

    person = serializers.CharField(source="person.username", allow_null=True, default=None)
    by = serializers.CharField(help_text="override, layer or nobody.")
    reachable = serializers.BooleanField()
    starts_at = serializers.DateTimeField()
    ends_at = serializers.DateTimeField()


class NowOnCallSerializer(serializers.Serializer[object]):
    """A schedule with who is on call; `faults` are stretches that nobody would be reached in."""

    schedule = serializers.CharField(source="schedule.name")
    covers = serializers.CharField(source="schedule.covers")
    now = ShiftSerializer()
    next = ShiftSerializer(allow_null=True)
    faults = ShiftSerializer(many=True)


class TakeOverSerializer(serializers.Serializer[object]):
    """Be on call oneself, or put somebody on call."""

    person = serializers.CharField(max_length=64, allow_blank=True, default="")
    starts_at = serializers.DateTimeField(allow_null=True, default=None)
    ends_at = serializers.DateTimeField()
    reason = serializers.CharField(max_length=200, allow_blank=True, default="")


class OverrideSerializer(serializers.Serializer[object]):
    """Somebody who takes over."""

    id = serializers.IntegerField()
    person = serializers.CharField(source="person.username")
    starts_at = serializers.DateTimeField()
    ends_at = serializers.DateTimeField()
    reason = serializers.CharField()
    created_by = serializers.CharField(source="created_by.username")


class StepSerializer(serializers.Serializer[object]):
    """`name` is that of the schedule, person or channel; empty for the other targets."""

    after_minutes = serializers.IntegerField(min_value=1, max_value=1440)
    target = serializers.ChoiceField(choices=StepTarget.choices)
    name = serializers.CharField(max_length=64, allow_blank=True, default="")


class PolicyChangeSerializer(serializers.Serializer[object]):
    """Steps, one after the other; then all again, `repeats` times."""

    steps = StepSerializer(many=True)
    repeats = serializers.IntegerField(min_value=0, max_value=9, default=0)
    revision = serializers.IntegerField(min_value=0, required=False)
    reason = serializers.CharField(max_length=500, allow_blank=True, default="")

    def steps_given(self) -> list[StepTerms]:
        """The steps, for the service."""
        return [StepTerms(**one) for one in self.validated_data["steps"]]


class PolicySerializer(serializers.Serializer[object]):
    """An escalation by its name."""

    name = serializers.CharField()
    revision = serializers.IntegerField()
    repeats = serializers.IntegerField()
    steps = StepSerializer(many=True)

    def to_representation(self, instance: Any) -> dict[str, Any]:
        policy: EscalationPolicy = instance
        return {"name": policy.name, "revision": policy.revision, **policies.facts(policy)}
