"""Codes of an authenticator app (TOTP, RFC 6238): each is taken once, and not guessed at."""

from __future__ import annotations

from django.db import transaction
from django.utils import timezone
from django_otp.plugins.otp_totp.models import TOTPDevice

from console.errors import TooMany
from console.models import User
from console.services.attempts import Limit, count_attempt, forget_attempts

# Six digits, three of them right at any moment: in a day at this pace, one in 700 would get in,
# and only who has the password already.
GUESSES = Limit(attempts=5, seconds=15 * 60)


def has_app(user: User) -> bool:
    """Whether the person has an authenticator app set up."""
    return bool(TOTPDevice.objects.filter(user=user, confirmed=True).exists())


def is_right_code(*, user: User, code: str) -> bool:
    """Take a code of the person's authenticator app; a code that was taken before is wrong.

    Called outside a transaction, so that a wrong guess stays counted. Raises TooMany after 5 wrong
    ones within 15 minutes, and for a moment after each.
    """
    digits = "".join(code.split())
    if not (digits.isascii() and digits.isdecimal() and len(digits) == 6):
        return False
    name = f"code:{user.username}"
    count_attempt(name, GUESSES)
    with transaction.atomic():
        device = TOTPDevice.objects.select_for_update().filter(user=user, confirmed=True).first()
        if device is None:
            return False
        permitted, why = device.verify_is_allowed()
        if not permitted:
            wait = max(1, round((why["locked_until"] - timezone.now()).total_seconds() + 0.5))
            raise TooMany(
                "A wrong code was just entered.",
                retry_after=wait,
                hint=f"Try again in {wait} seconds.",
            )
        right = bool(device.verify_token(digits))
    if right:
        forget_attempts(name)
    return right
