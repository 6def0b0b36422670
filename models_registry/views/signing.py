"""What a page needs so that its reader can sign: keys, the bytes' address, type and digest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.http import HttpRequest

from console.models import SigningKey


def signing_context(
    request: HttpRequest,
    *,
    keys: Sequence[SigningKey],
    payload_url: str,
    payload_type: str,
    digest: str,
) -> dict[str, Any]:
    """Context of models_registry/_sign.html."""
    return {
        "sign": {
            "payload_url": payload_url,
            "payload_type": payload_type,
            "digest": digest,
            "enrolled": " ".join(key.keyid for key in keys),
            "revoked": " ".join(key.keyid for key in keys if key.is_revoked),
            "has_key": any(not key.is_revoked for key in keys),
            "next": request.path,
        }
    }
