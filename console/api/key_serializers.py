"""JSON of signing keys."""

from __future__ import annotations

from typing import Any, ClassVar

from rest_framework import serializers

from console.models import KeyOrigin, RevocationKind, SigningKey
from console.rules.key_life import LIFETIME_DAYS

MOST_DAYS = max(LIFETIME_DAYS.values())


class SigningKeySerializer(serializers.ModelSerializer[SigningKey]):
    owner = serializers.CharField(source="user.username", read_only=True)
    state = serializers.ChoiceField(
        ["active", "expiring", "expired", "revoked"],
        read_only=True,
        help_text="As it stands now; one that is expiring ends within 30 days.",
    )
    replaces = serializers.CharField(
        source="replaces.keyid",
        read_only=True,
        allow_null=True,
        default=None,
        help_text="The key id of the one whose place it took.",
    )

    class Meta:
        model = SigningKey
        fields: ClassVar[list[str]] = [
            "id",
            "name",
            "keyid",
            "algorithm",
            "origin",
            "owner",
            "state",
            "public_key_pem",
            "credential_id",
            "rp_id",
            "enrolled_at",
            "expires_at",
            "last_used_at",
            "replaces",
            "revoked_at",
            "revocation",
            "doubted_from",
            "revoked_reason",
        ]


class _EnrolSerializer(serializers.Serializer[Any]):
    name = serializers.CharField(max_length=80)
    password = serializers.CharField(
        required=False,
        allow_blank=True,
        default="",
        trim_whitespace=False,
        max_length=200,
        help_text="Yours, asked again; a token with the scope `sign` needs none.",
    )
    code = serializers.CharField(
        required=False,
        allow_blank=True,
        default="",
        max_length=40,
        help_text="Of your authenticator app, instead of the password.",
    )
    days = serializers.IntegerField(
        required=False,
        allow_null=True,
        default=None,
        min_value=1,
        max_value=MOST_DAYS,
        help_text="Until it expires; at most 365 for a browser's key, 730 for others.",
    )
    replaces = serializers.CharField(
        required=False,
        allow_blank=True,
        default="",
        max_length=64,
        help_text="The key id of your key whose place it takes; that one is revoked.",
    )


class EnrolKeySerializer(_EnrolSerializer):
    public_key = serializers.JSONField(help_text="PEM, base64 of DER, or a JWK.")
    origin = serializers.ChoiceField(
        [pair for pair in KeyOrigin.choices if pair[0] != KeyOrigin.PASSKEY], default=KeyOrigin.CLI
    )
    rotation = serializers.JSONField(
        required=False,
        allow_null=True,
        default=None,
        help_text="A DSSE envelope of `application/vnd.covenant.key-rotation+json`, signed by the "
        "old and the new key; then no password is asked for.",
    )

    def validate_public_key(self, value: Any) -> str | dict[str, Any]:
        if isinstance(value, (str, dict)):
            return value
        raise serializers.ValidationError("Send PEM, base64 of DER, or a JWK.")

    def validate_rotation(self, value: Any) -> dict[str, Any] | None:
        if value is None or isinstance(value, dict):
            return value
        raise serializers.ValidationError("Send a DSSE envelope.")


class EnrolPasskeySerializer(_EnrolSerializer):
    credential = serializers.DictField(
        help_text="RegistrationResponseJSON: what `credential.toJSON()` gives in the browser."
    )


class RevokeKeySerializer(serializers.Serializer[Any]):
    reason = serializers.CharField(max_length=300)
    kind = serializers.ChoiceField(RevocationKind.choices, default=RevocationKind.OTHER)
    doubted_from = serializers.DateTimeField(
        required=False,
        allow_null=True,
        default=None,
        help_text="For a compromised key: what it signed since then no longer counts.",
    )


class KeyEffectSerializer(serializers.Serializer[Any]):
    kind = serializers.ChoiceField(["contract", "release", "live"])
    name = serializers.CharField()
    url = serializers.CharField()
    state = serializers.CharField(allow_blank=True)
    signed_at = serializers.DateTimeField()
    outcome = serializers.ChoiceField(["stays_valid", "no_longer_counts"])
