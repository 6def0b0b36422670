"""Model telemetry as JSON."""

from __future__ import annotations

from rest_framework import serializers

from models_registry.models import ReferenceSample


class ReadingSerializer(serializers.Serializer[object]):
    """The newest minute of a series: its last value, the mean, the sum and how many values."""

    name = serializers.CharField()
    label = serializers.CharField(allow_blank=True)  # type: ignore[assignment] # a field's own name
    version = serializers.IntegerField(help_text="0: the endpoint as a whole.")
    unit = serializers.CharField(allow_blank=True)
    newest = serializers.FloatField()
    mean = serializers.FloatField()
    total = serializers.FloatField()
    count = serializers.IntegerField()
    at = serializers.DateTimeField()


class ReferenceSampleSerializer(serializers.ModelSerializer[ReferenceSample]):
    """What a version was trained on: its rows and features; the values are never given out."""

    sha256 = serializers.CharField(source="artifact.sha256")
    recorded_by = serializers.CharField(source="recorded_by.username")
    features = serializers.ListField(child=serializers.DictField())

    class Meta:
        model = ReferenceSample
        fields = (
            "sha256",
            "rows",
            "features",
            "note",
            "recorded_by",
            "recorded_at",
            "replaced_at",
        )


class FeatureDriftSerializer(serializers.Serializer[object]):
    """One feature: its score (KS), its PSI, and the score that chance exceeds in 1 of 20 cases.

    `training` and `now` are the shares below the first of `bounds`, between each two, and above
    the last; of texts those of `words`.
    """

    name = serializers.CharField()
    title = serializers.CharField()
    kind = serializers.CharField(help_text="number or text.")
    rows = serializers.IntegerField()
    score = serializers.FloatField()
    psi = serializers.FloatField()
    by_chance = serializers.FloatField()
    bounds = serializers.ListField(child=serializers.FloatField())
    words = serializers.ListField(child=serializers.CharField())
    training = serializers.ListField(child=serializers.FloatField())
    now = serializers.ListField(child=serializers.FloatField())


class VersionTelemetrySerializer(serializers.Serializer[object]):
    number = serializers.IntegerField()
    percent = serializers.FloatField()
    sample = ReferenceSampleSerializer(allow_null=True)
    without_sample = serializers.BooleanField(source="without")
    drift = ReadingSerializer(allow_null=True)
    psi = ReadingSerializer(allow_null=True)
    entropy = ReadingSerializer(allow_null=True)
    unknown = serializers.ListField(
        child=serializers.CharField(), help_text="Features of the training that nobody sends."
    )
    features = FeatureDriftSerializer(many=True)


class TelemetrySerializer(serializers.Serializer[object]):
    """What is measured of an endpoint's model and how it stands.

    `percent` of the requests are looked at; 0: nothing is measured. Limits are the contract's;
    null where it promises none.
    """

    measured = serializers.BooleanField(help_text="Chosen by people, beside any promise.")
    promised = serializers.BooleanField()
    percent = serializers.FloatField()
    revision = serializers.IntegerField()
    feature_drift_limit = serializers.FloatField(allow_null=True)
    entropy_limit = serializers.FloatField(allow_null=True)
    entropy_for_seconds = serializers.IntegerField(allow_null=True)
    rows = serializers.IntegerField(allow_null=True)
    at = serializers.DateTimeField(allow_null=True)
    versions = VersionTelemetrySerializer(many=True)
    sent = ReadingSerializer(many=True)


class TelemetryRequestSerializer(serializers.Serializer[object]):
    measured = serializers.BooleanField()
    percent = serializers.FloatField(
        default=5.0, help_text="Of the requests that are looked at, 0.01 to 100."
    )
    reason = serializers.CharField(required=False, default="", allow_blank=True, max_length=2000)


class ReferenceSampleRequestSerializer(serializers.Serializer[object]):
    """One of `upload` (a CSV or JSON file), `csv`, and `inputs` (those of a v2 request)."""

    upload = serializers.UUIDField(required=False)
    csv = serializers.CharField(required=False, trim_whitespace=False)
    inputs = serializers.ListField(child=serializers.DictField(), required=False)
    note = serializers.CharField(required=False, default="", allow_blank=True, max_length=500)
