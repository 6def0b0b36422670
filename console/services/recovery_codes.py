"""Recovery codes: ten for a person, each good for one sign-in without the other factor."""

from __future__ import annotations

import base64
import hashlib
import secrets

from django.db import transaction
from django_otp.plugins.otp_static.models import StaticDevice, StaticToken

from console.models import User
from console.services.attempts import Limit, count_attempt, forget_attempts

COUNT = 10
GUESSES = Limit(attempts=5, seconds=15 * 60)
_ALPHABET = "abcdefghjkmnpqrstuvwxyz23456789"
_LENGTH = 16  # of 31 letters: 79 bits, so that a digest of it needs no salt


def make_recovery_codes(user: User) -> list[str]:
    """Ten new codes in clear, in place of all earlier ones; in the caller's transaction."""
    codes = ["".join(secrets.choice(_ALPHABET) for _ in range(_LENGTH)) for _ in range(COUNT)]
    StaticDevice.objects.filter(user=user).delete()
    device = StaticDevice.objects.create(user=user, name="recovery codes", confirmed=True)
    StaticToken.objects.bulk_create(
        StaticToken(device=device, token=_kept(user, code)) for code in codes
    )
    return ["-".join(code[i : i + 4] for i in range(0, _LENGTH, 4)) for code in codes]


def recovery_codes_left(user: User) -> int:
    """How many were not used yet."""
    return int(StaticToken.objects.filter(device__user=user, device__confirmed=True).count())


def use_recovery_code(*, user: User, code: str) -> bool:
    """Take one of the person's codes; it is gone then. Raises TooMany after 5 wrong ones."""
    clean = "".join(code.split()).replace("-", "").lower()
    if len(clean) != _LENGTH:
        return False
    name = f"recovery:{user.username}"
    count_attempt(name, GUESSES)
    with transaction.atomic():
        device = StaticDevice.objects.select_for_update().filter(user=user, confirmed=True).first()
        right = device is not None and bool(device.verify_token(_kept(user, clean)))
    if right:
        forget_attempts(name)
    return right


def _kept(user: User, code: str) -> str:
    """What the table has of a code: 96 bits of a digest, since its column takes 16 characters."""
    digest = hashlib.sha256(f"{user.pk}:{code}".encode()).digest()
    return base64.urlsafe_b64encode(digest[:12]).decode()
