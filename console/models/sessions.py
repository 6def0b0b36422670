"""Sessions with their person, so that people can see and end their own."""

from __future__ import annotations

from typing import ClassVar

from django.contrib.sessions.base_session import AbstractBaseSession
from django.db import models

from console.models.accounts import User


class Session(AbstractBaseSession):
    """One browser's session; without `user` while nobody signed in there.

    `handle` names it in addresses: the key itself is what the browser's cookie holds, and is shown
    to nobody. `means` says what was proven at sign-in, as in "password+totp".
    """

    user = models.ForeignKey(
        User, on_delete=models.CASCADE, null=True, blank=True, related_name="sessions"
    )
    handle = models.CharField(max_length=16, db_index=True)
    means = models.CharField(max_length=40, blank=True)
    address = models.CharField(max_length=64, blank=True)
    browser = models.CharField(max_length=200, blank=True)
    signed_in_at = models.DateTimeField(null=True, blank=True)
    last_seen_at = models.DateTimeField(null=True, blank=True)

    class Meta(AbstractBaseSession.Meta):
        abstract = False
        ordering: ClassVar[list[str]] = ["-last_seen_at"]
