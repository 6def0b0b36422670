"""Promises, links to them and reports by mail as JSON."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from rest_framework import serializers

from deployments.models import SlaShare, SlaSubscription
from deployments.rules.objectives.sla_sharing import FEWEST_DAYS, MOST_DAYS, USUAL_DAYS
from deployments.services.objectives.sla_shares import state_of

SHARE_STATES = ("open", "expired", "revoked")


class SlaObjectiveSerializer(serializers.Serializer[Any]):
    """An objective over a span; `attained` in percent, the budget in requests."""

    name = serializers.CharField()
    sentence = serializers.CharField()
    target = serializers.FloatField()
    threshold_ms = serializers.FloatField(allow_null=True)
    attained = serializers.FloatField(allow_null=True)
    good = serializers.FloatField()
    valid = serializers.IntegerField()
    budget_total = serializers.FloatField()
    budget_left = serializers.FloatField()
    budget_left_share = serializers.FloatField(allow_null=True)
    burn_rate = serializers.FloatField(allow_null=True)
    state = serializers.CharField()
    exact = serializers.BooleanField()


class SlaDaySerializer(serializers.Serializer[Any]):
    date = serializers.DateField()
    state = serializers.CharField()
    requests = serializers.IntegerField()
    attained = serializers.DictField(child=serializers.FloatField())


class SlaMonthSerializer(serializers.Serializer[Any]):
    """A month of the trend."""

    month = serializers.DateField(source="first")
    state = serializers.CharField()
    requests = serializers.IntegerField()
    budget_left_share = serializers.FloatField(allow_null=True)


class SlaLeftOutSerializer(serializers.Serializer[Any]):
    """Time that the three seats took, or are about to take, out of the count."""

    kind = serializers.CharField()
    start = serializers.DateTimeField(source="span.start")
    end = serializers.DateTimeField(source="span.end")
    reason = serializers.CharField()
    evidence = serializers.CharField()
    seats = serializers.ListField(child=serializers.CharField())
    state = serializers.CharField()


class SlaSpanSerializer(serializers.Serializer[Any]):
    start = serializers.DateTimeField()
    end = serializers.DateTimeField()


class SlaChangeSerializer(serializers.Serializer[Any]):
    """What changed: a release, a move of traffic, a rollout …"""

    at = serializers.DateTimeField()
    kind = serializers.CharField()
    version = serializers.IntegerField()
    data = serializers.DictField()  # type: ignore[assignment]


class SlaSerializer(serializers.Serializer[Any]):
    """One promise over a month.

    `objectives` leave out what the seats excluded, `with_everything` does not (empty where nothing
    was excluded); `now` holds them over the contract's own windows.
    """

    environment = serializers.CharField()
    model = serializers.CharField()
    month = serializers.CharField()
    is_over = serializers.BooleanField()
    contract = serializers.IntegerField(source="contract.revision", default=None, allow_null=True)
    state = serializers.CharField()
    requests = serializers.IntegerField()
    statuses = serializers.DictField(child=serializers.IntegerField())
    objectives = SlaObjectiveSerializer(many=True)
    with_everything = SlaObjectiveSerializer(many=True)
    now = SlaObjectiveSerializer(many=True)
    days = SlaDaySerializer(many=True)
    months = SlaMonthSerializer(many=True)
    changes = SlaChangeSerializer(many=True)
    left_out = SlaLeftOutSerializer(many=True)
    unobserved = SlaSpanSerializer(many=True)


class SlaRowSerializer(serializers.Serializer[Any]):
    """A promise in the list, over its objectives' own windows."""

    environment = serializers.CharField()
    model = serializers.CharField()
    team = serializers.CharField(allow_blank=True)
    state = serializers.CharField()
    budget_left_share = serializers.FloatField(allow_null=True)
    objectives = SlaObjectiveSerializer(many=True)
    months = SlaMonthSerializer(many=True)


class SlaShareRequestSerializer(serializers.Serializer[Any]):
    note = serializers.CharField(max_length=200, default="", allow_blank=True)
    days = serializers.IntegerField(min_value=FEWEST_DAYS, max_value=MOST_DAYS, default=USUAL_DAYS)


class SlaShareSerializer(serializers.ModelSerializer[SlaShare]):
    """A link: its secret is told once, when it is made."""

    state = serializers.SerializerMethodField()
    created_by = serializers.SlugRelatedField("username", read_only=True)  # type: ignore[var-annotated]
    revoked_by = serializers.SlugRelatedField("username", read_only=True, allow_null=True)  # type: ignore[var-annotated]

    class Meta:
        model = SlaShare
        fields = (
            "id",
            "note",
            "state",
            "created_by",
            "created_at",
            "expires_at",
            "revoked_by",
            "revoked_at",
            "last_used_at",
            "uses",
        )

    def get_state(self, share: SlaShare) -> str:
        return state_of(share)


class SlaSharedSerializer(SlaShareSerializer):
    """A new link with its address."""

    link = serializers.CharField()

    class Meta(SlaShareSerializer.Meta):
        fields = (*SlaShareSerializer.Meta.fields, "link")  # type: ignore[assignment]


class SlaShareRevokeSerializer(serializers.Serializer[Any]):
    reason = serializers.CharField(max_length=300, default="", allow_blank=True)


class SlaSubscriptionRequestSerializer(serializers.Serializer[Any]):
    """With `model` (and `environment`) one promise; else the portfolio, narrowed where given."""

    environment = serializers.CharField(max_length=40, default="", allow_blank=True)
    model = serializers.CharField(max_length=63, default="", allow_blank=True)
    team = serializers.CharField(max_length=64, default="", allow_blank=True)
    language = serializers.ChoiceField(
        choices=["", *(code for code, _ in settings.LANGUAGES)], default="", allow_blank=True
    )


class SlaSubscriptionSerializer(serializers.ModelSerializer[SlaSubscription]):
    model = serializers.CharField(source="endpoint.model.name", default="")
    environment = serializers.SerializerMethodField()
    team = serializers.CharField(source="team.slug", default="")
    last_month = serializers.DateField(source="newest.month", default=None, allow_null=True)
    last_sent_at = serializers.DateTimeField(source="newest.sent_at", default=None, allow_null=True)

    class Meta:
        model = SlaSubscription
        fields = (
            "id",
            "environment",
            "model",
            "team",
            "language",
            "created_at",
            "last_month",
            "last_sent_at",
        )

    def get_environment(self, one: SlaSubscription) -> str:
        if one.endpoint is not None:
            return one.endpoint.environment.name
        return one.environment.name if one.environment else ""
