"""What the settings pages show of people, keys and tokens."""

from __future__ import annotations

from django.db.models import Q, QuerySet

from console.actors import SYSTEM_USERNAME
from console.models import ApiToken, SigningKey, User


def people(*, q: str = "", role: str = "") -> QuerySet[User]:
    """Everybody but the installation itself, by name (one query)."""
    found = User.objects.exclude(username=SYSTEM_USERNAME).order_by("username")
    if q:
        found = found.filter(
            Q(username__icontains=q) | Q(display_name__icontains=q) | Q(email__icontains=q)
        )
    if role:
        found = found.filter(roles__contains=[role])
    return found


def keys_of(user: User) -> QuerySet[SigningKey]:
    """A person's signing keys, newest first (one query)."""
    return SigningKey.objects.filter(user=user).select_related("user").order_by("-enrolled_at")


def tokens_of(user: User) -> QuerySet[ApiToken]:
    """A person's tokens, newest first (one query)."""
    return ApiToken.objects.filter(user=user).order_by("-created_at")
