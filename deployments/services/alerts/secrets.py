"""Addresses and keys of channels, sealed: who reads the database alone shall not send as we do."""

from __future__ import annotations

import base64
from hashlib import sha256

from cryptography.fernet import Fernet, InvalidToken
from django.conf import settings

from console.errors import Invalid


def sealed(text: str) -> str:
    """The text as it is kept; nothing stays nothing."""
    return _box().encrypt(text.encode()).decode() if text else ""


def opened(kept: str, *, of: str) -> str:
    """The text in clear; raises Invalid when the installation's key is another one now."""
    if not kept:
        return ""
    try:
        return _box().decrypt(kept.encode()).decode()
    except InvalidToken as error:
        raise Invalid(
            f"The address of {of} cannot be read: COVENANT_SECRET_KEY is another one now.",
            code="secret_unreadable",
            hint="Give its address and key anew under Settings → Alert channels.",
        ) from error


def _box() -> Fernet:
    key = sha256(b"covenant alert channels\0" + settings.SECRET_KEY.encode()).digest()
    return Fernet(base64.urlsafe_b64encode(key))
