"""What a page needs so that its reader can sign: keys, the bytes' address, type and digest."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from django.http import HttpRequest

from console.models import KeyOrigin, SigningKey
from console.views.signing_keys import key_proof_form


def signing_context(
    request: HttpRequest,
    *,
    keys: Sequence[SigningKey],
    payload_url: str,
    payload_type: str,
    digest: str,
) -> dict[str, Any]:
    """Context of models_registry/_sign.html and of _create_key.html beside it."""
    usable = [key for key in keys if key.is_usable]
    passkeys = [
        {"keyid": key.keyid, "name": key.name, "credential": key.credential_id, "rpId": key.rp_id}
        for key in usable
        if key.origin == KeyOrigin.PASSKEY
    ]
    return {
        "sign": {
            "payload_url": payload_url,
            "payload_type": payload_type,
            "digest": digest,
            "enrolled": _ids(keys),
            "revoked": _ids(key for key in keys if key.is_revoked),
            "expired": _ids(key for key in keys if key.state == "expired"),
            "in_browsers": _ids(key for key in usable if key.origin == KeyOrigin.BROWSER),
            "passkeys": json.dumps(passkeys, ensure_ascii=False),
            "has_key": bool(usable),
            "next": request.path,
        },
        "proof_form": key_proof_form(request, "new-key"),
    }


def _ids(keys: Iterable[SigningKey]) -> str:
    return " ".join(key.keyid for key in keys)
