"""Alerts, silences and alert rules as JSON."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from deployments.models import Alert, AlertRule, AlertSeverity, AlertState, Silence


class AlertSerializer(serializers.ModelSerializer[Alert]):
    """One alert as a list tells of it; `version` 0 is the endpoint as a whole."""

    environment = serializers.SerializerMethodField()
    model = serializers.SerializerMethodField()
    node = serializers.SlugRelatedField("name", read_only=True, allow_null=True)  # type: ignore[var-annotated]
    severity = serializers.ChoiceField(choices=AlertSeverity.choices)
    state = serializers.ChoiceField(choices=AlertState.choices)
    acknowledged_by = serializers.SlugRelatedField("username", read_only=True, allow_null=True)  # type: ignore[var-annotated]
    silence = serializers.UUIDField(source="silenced_by_id", allow_null=True)
    incident = serializers.UUIDField(source="incident_id", allow_null=True)
    rule = serializers.CharField(source="rule_name")

    class Meta:
        model = Alert
        fields = (
            "id",
            "rule",
            "title",
            "severity",
            "state",
            "environment",
            "model",
            "version",
            "node",
            "device",
            "label",
            "signal",
            "value",
            "threshold",
            "unit",
            "started_at",
            "fired_at",
            "resolved_at",
            "seen_at",
            "quiet_since",
            "acknowledged_by",
            "acknowledged_at",
            "silence",
            "suppressed",
            "told_at",
            "incident",
            "runbook",
        )

    def get_environment(self, alert: Alert) -> str:
        return alert.endpoint.environment.name if alert.endpoint else ""

    def get_model(self, alert: Alert) -> str:
        return alert.endpoint.model.name if alert.endpoint else ""


class AlertLineSerializer(serializers.Serializer[object]):
    """A line of the timeline; `data` is what was measured, or who was called."""

    at = serializers.DateTimeField()
    kind = serializers.CharField()
    actor = serializers.CharField(source="actor.username", default="", allow_blank=True)
    message = serializers.CharField(allow_blank=True)
    data = serializers.DictField()  # type: ignore[assignment] # a field's own name


class AlertDetailSerializer(AlertSerializer):
    """An alert with its evidence and the newest 200 lines of its timeline, oldest first."""

    evidence = serializers.DictField()
    timeline = AlertLineSerializer(many=True)
    times_before = serializers.IntegerField(help_text="The same, in the last 30 days.")

    class Meta:
        model = Alert
        fields = (*AlertSerializer.Meta.fields, "evidence", "timeline", "times_before")


class AlertAcknowledgeSerializer(serializers.Serializer[object]):
    note = serializers.CharField(
        required=False, default="", allow_blank=True, max_length=2000, help_text="For others."
    )


class AlertCommentSerializer(serializers.Serializer[object]):
    text = serializers.CharField(max_length=2000)


class SilenceSerializer(serializers.ModelSerializer[Silence]):
    """What is empty matches everything; `ended_at` is when a person ended it before its time."""

    rule = serializers.CharField(source="rule_name", allow_blank=True)
    severity = serializers.CharField(allow_blank=True)
    environment = serializers.SlugRelatedField("name", read_only=True, allow_null=True)  # type: ignore[var-annotated]
    model = serializers.SlugRelatedField("name", read_only=True, allow_null=True)  # type: ignore[var-annotated]
    node = serializers.SlugRelatedField("name", read_only=True, allow_null=True)  # type: ignore[var-annotated]
    author = serializers.SlugRelatedField("username", read_only=True)  # type: ignore[var-annotated]
    ended_by = serializers.SlugRelatedField("username", read_only=True, allow_null=True)  # type: ignore[var-annotated]

    class Meta:
        model = Silence
        fields = (
            "id",
            "rule",
            "severity",
            "environment",
            "model",
            "node",
            "label",
            "starts_at",
            "ends_at",
            "reason",
            "author",
            "ended_at",
            "ended_by",
        )


class SilenceRequestSerializer(serializers.Serializer[object]):
    """Alerts that match all that is named are told to nobody until `ends_at`, 30 days at most."""

    rule = serializers.CharField(required=False, default="", allow_blank=True, max_length=80)
    severity = serializers.CharField(
        required=False, default="", allow_blank=True, max_length=2, help_text="P1, P2 or P3."
    )
    environment = serializers.CharField(required=False, default="", allow_blank=True, max_length=40)
    model = serializers.CharField(required=False, default="", allow_blank=True, max_length=63)
    node = serializers.CharField(required=False, default="", allow_blank=True, max_length=40)
    label = serializers.CharField(  # type: ignore[assignment] # a field's own name
        required=False, default="", allow_blank=True, max_length=120
    )
    starts_at = serializers.DateTimeField(required=False, allow_null=True, default=None)
    ends_at = serializers.DateTimeField()
    reason = serializers.CharField(max_length=500)


class AlertRuleSerializer(serializers.ModelSerializer[AlertRule]):
    """A rule; `document` says every field. `fault` says why it cannot be judged, if so."""

    severity = serializers.ChoiceField(choices=AlertSeverity.choices)
    environment = serializers.SerializerMethodField()
    model = serializers.SerializerMethodField()
    node = serializers.SerializerMethodField()
    document = serializers.DictField()
    changed_by = serializers.SlugRelatedField("username", read_only=True, allow_null=True)  # type: ignore[var-annotated]

    class Meta:
        model = AlertRule
        fields = (
            "name",
            "title",
            "severity",
            "enabled",
            "environment",
            "model",
            "node",
            "document",
            "built_in",
            "revision",
            "fault",
            "changed_by",
            "changed_at",
        )

    def get_environment(self, rule: AlertRule) -> str:
        return rule.environment.name if rule.environment else ""

    def get_model(self, rule: AlertRule) -> str:
        return rule.model.name if rule.model else ""

    def get_node(self, rule: AlertRule) -> str:
        return rule.node.name if rule.node else ""


class AlertRuleScopeSerializer(serializers.Serializer[object]):
    """What a rule is about; "" is everything."""

    environment = serializers.CharField(required=False, default="", allow_blank=True, max_length=40)
    model = serializers.CharField(required=False, default="", allow_blank=True, max_length=63)
    node = serializers.CharField(required=False, default="", allow_blank=True, max_length=40)


class AlertRuleRequestSerializer(AlertRuleScopeSerializer):
    """What is left out of `document` has its default; `conditions` is needed."""

    title = serializers.CharField(max_length=200)
    severity = serializers.ChoiceField(choices=AlertSeverity.choices)
    enabled = serializers.BooleanField(required=False, default=True)
    document = serializers.DictField()
    reason = serializers.CharField(required=False, default="", allow_blank=True, max_length=500)


class AlertRuleRestoreSerializer(serializers.Serializer[object]):
    reason = serializers.CharField(required=False, default="", allow_blank=True, max_length=500)


class AlertRulePreviewRequestSerializer(AlertRuleScopeSerializer):
    document = serializers.DictField()


class WouldHaveFiredSerializer(serializers.Serializer[object]):
    """One alert that the rule would have raised; `worst` is the first condition's worst value."""

    of = serializers.CharField()
    fired_at = serializers.DateTimeField()
    resolved_at = serializers.DateTimeField(allow_null=True)
    worst = serializers.FloatField()


class AlertRulePreviewSerializer(serializers.Serializer[object]):
    """The last 24 hours. `why_not` (state, burn, leak, seconds): minutes cannot tell."""

    start = serializers.DateTimeField()
    end = serializers.DateTimeField()
    looked_at = serializers.IntegerField()
    there_are = serializers.IntegerField()
    why_not = serializers.CharField(allow_blank=True)
    fired = WouldHaveFiredSerializer(many=True)


class AlertSignalSerializer(serializers.Serializer[object]):
    """What a rule can watch; every measured series is a signal by its name."""

    name = serializers.CharField()
    source = serializers.CharField()  # type: ignore[assignment] # a field's own name
    unit = serializers.CharField(allow_blank=True)


def preview_json(found: Any) -> dict[str, Any]:
    """A preview as it is answered."""
    return {
        "start": found.start,
        "end": found.end,
        "looked_at": found.looked_at,
        "there_are": found.there_are,
        "why_not": found.why_not,
        "fired": [
            {
                "of": found.names.get(one.target, ""),
                "fired_at": one.fired_at,
                "resolved_at": one.resolved_at,
                "worst": one.worst,
            }
            for one in found.fired
        ],
    }
