"""Owners of keys that end soon are told in time to make another."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import transaction

from console.models import Severity, SigningKey
from console.rules.key_life import WARN_DAYS, warning_due
from console.services import notices
from console.services.keys import expiry_notice, key_url


def warn_of_expiring_keys(*, now: datetime) -> int:
    """Tell the owners 30 and 7 days ahead, once each; gives how many were told.

    A key that was replaced or revoked warns nobody.
    """
    ending = SigningKey.objects.filter(
        revoked_at__isnull=True,
        user__is_active=True,
        expires_at__gt=now,
        expires_at__lte=now + timedelta(days=max(WARN_DAYS)),
    ).select_related("user")
    told = 0
    for key in ending:
        days = key.expires_at and warning_due(key.expires_at, now)
        if not days or key.expires_at is None:
            continue
        with transaction.atomic():
            for longer in WARN_DAYS:
                if longer > days:
                    notices.end(key=expiry_notice(key, longer))
            told += notices.notify(
                people=[key.user],
                kind="key.expires",
                key=expiry_notice(key, days),
                subject=f"key {key.name}",
                subject_url=key_url(key),
                severity=Severity.WARNING if days <= min(WARN_DAYS) else Severity.INFO,
                data={"name": key.name, "on": key.expires_at.date().isoformat(), "days": days},
            )
    return told
