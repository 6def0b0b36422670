"""Signing keys as pages and verifiers are shown them."""

from __future__ import annotations

from django.db.models import QuerySet

from console.models import SigningKey, User


def signing_keys_of(user: User) -> QuerySet[SigningKey]:
    """A person's signing keys with those they replaced, newest first (one query)."""
    keys = SigningKey.objects.filter(user=user).select_related("user", "replaces")
    return keys.order_by("-enrolled_at", "-pk")


def keys_to_export(username: str = "") -> QuerySet[SigningKey]:
    """Everybody's signing keys, or one person's, revoked ones too, oldest first (one query)."""
    keys = SigningKey.objects.select_related("user").order_by("enrolled_at", "pk")
    return keys.filter(user__username=username) if username else keys


def replaced_by(key: SigningKey) -> SigningKey | None:
    """The key that took this one's place (one query)."""
    return SigningKey.objects.filter(replaces=key).first()
