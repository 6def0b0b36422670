"""Channels, routes and messages of alerts as JSON."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from deployments.models import (
    AlertChannel,
    AlertDelivery,
    AlertRoute,
    AlertSeverity,
    ChannelKind,
    DeliveryReason,
    DeliveryState,
    TellPeople,
)
from deployments.services.alerts.routes import facts


class ChannelSerializer(serializers.ModelSerializer[AlertChannel]):
    """A channel; `address` is what may be seen of it, and its key is never shown."""

    kind = serializers.ChoiceField(choices=ChannelKind.choices)
    address = serializers.CharField(source="shown")
    options = serializers.DictField()

    class Meta:
        model = AlertChannel
        fields = (
            "name",
            "kind",
            "address",
            "options",
            "language",
            "enabled",
            "revision",
            "failures",
            "last_error",
            "last_sent_at",
            "created_at",
            "changed_at",
        )


class MadeChannelSerializer(ChannelSerializer):
    """A new channel; a webhook's `secret` is shown this once."""

    secret = serializers.CharField(allow_blank=True)

    class Meta(ChannelSerializer.Meta):
        fields = (*ChannelSerializer.Meta.fields, "secret")  # type: ignore[assignment]


class NewChannelSerializer(serializers.Serializer[object]):
    """What a channel is made of; docs/on-call.md says what each kind takes."""

    name = serializers.SlugField(max_length=40)
    kind = serializers.ChoiceField(choices=ChannelKind.choices)
    address = serializers.CharField(max_length=1000, allow_blank=True, default="")
    secret = serializers.CharField(max_length=300, allow_blank=True, default="")
    options = serializers.DictField(default=dict)
    language = serializers.CharField(max_length=12, allow_blank=True, default="")


class ChannelChangeSerializer(serializers.Serializer[object]):
    """What is to be changed; what is left out stays."""

    address = serializers.CharField(max_length=1000, required=False)
    secret = serializers.CharField(max_length=300, required=False)
    options = serializers.DictField(required=False)
    language = serializers.CharField(max_length=12, allow_blank=True, required=False)
    enabled = serializers.BooleanField(required=False)
    revision = serializers.IntegerField(min_value=1, required=False)
    reason = serializers.CharField(max_length=500, allow_blank=True, required=False)


class DeliverySerializer(serializers.ModelSerializer[AlertDelivery]):
    """One message and what came of it."""

    channel = serializers.SlugRelatedField("name", read_only=True, allow_null=True)  # type: ignore[var-annotated]
    person = serializers.SlugRelatedField("username", read_only=True, allow_null=True)  # type: ignore[var-annotated]
    kind = serializers.ChoiceField(choices=ChannelKind.choices)
    why = serializers.ChoiceField(choices=DeliveryReason.choices)
    state = serializers.ChoiceField(choices=DeliveryState.choices)
    job = serializers.UUIDField(source="job_id", allow_null=True)

    class Meta:
        model = AlertDelivery
        fields = (
            "id",
            "receiver",
            "kind",
            "channel",
            "person",
            "why",
            "severity",
            "subject",
            "state",
            "attempts",
            "answer",
            "error",
            "hint",
            "job",
            "request_id",
            "created_at",
            "sent_at",
        )


class RouteTermsSerializer(serializers.Serializer[object]):
    """What a route takes and where it leads; what is empty takes everything."""

    position = serializers.IntegerField(min_value=0, max_value=32767, default=50)
    enabled = serializers.BooleanField(default=True)
    severities = serializers.ListField(
        child=serializers.ChoiceField(choices=AlertSeverity.choices), default=list
    )
    environment = serializers.CharField(max_length=40, allow_blank=True, default="")
    model = serializers.CharField(max_length=63, allow_blank=True, default="")
    team = serializers.CharField(max_length=64, allow_blank=True, default="")
    rule_name = serializers.CharField(max_length=80, allow_blank=True, default="")
    label = serializers.CharField(max_length=120, allow_blank=True, default="")  # type: ignore[assignment]
    channels = serializers.ListField(
        child=serializers.CharField(max_length=40), default=list, max_length=20
    )
    people = serializers.ChoiceField(choices=TellPeople.choices, default=TellPeople.INBOX)
    schedule = serializers.CharField(max_length=40, allow_blank=True, default="")
    policy = serializers.CharField(max_length=40, allow_blank=True, default="")
    goes_on = serializers.BooleanField(default=False)


class RouteChangeSerializer(RouteTermsSerializer):
    """A route as it is to be; with `revision` only if nobody changed it since (0: it is new)."""

    revision = serializers.IntegerField(min_value=0, required=False)
    reason = serializers.CharField(max_length=500, allow_blank=True, default="")


class RouteSerializer(RouteTermsSerializer):
    """A route by its name."""

    name = serializers.CharField()
    revision = serializers.IntegerField()

    def to_representation(self, instance: Any) -> dict[str, Any]:
        route: AlertRoute = instance
        return {"name": route.name, "revision": route.revision, **facts(route)}
