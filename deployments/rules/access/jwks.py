"""JSON Web Key Sets of token issuers: public keys alone, in a form that every gateway takes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from joserfc.errors import JoseError
from joserfc.jwk import ECKey, KeySet, OKPKey, RSAKey

from console.errors import FieldError, Invalid

MOST_KEYS = 50
MOST_BYTES = 256 * 1024
_PUBLIC = {
    "RSA": ("kty", "kid", "use", "alg", "n", "e"),
    "EC": ("kty", "kid", "use", "alg", "crv", "x", "y"),
    "OKP": ("kty", "kid", "use", "alg", "crv", "x"),
}
_CURVES = {"P-256", "P-384", "P-521", "Ed25519"}
_SHORTEST_RSA = 2048
_PRIVATE = {"d", "p", "q", "dp", "dq", "qi", "oth", "k"}


def parse_jwks(raw: object, *, strict: bool = True) -> dict[str, Any]:
    """A key set with its public fields alone, keys for encryption left out.

    `raw` is the document, or its text. Raises Invalid `invalid_jwks` with a pointer for each key
    that cannot be used; a private or shared key is refused, since whoever reads it could sign.
    Not `strict`, such keys are left out as long as another one can be used.
    """
    document = _document(raw)
    keys = document.get("keys") if isinstance(document, Mapping) else None
    if not isinstance(keys, list) or not 0 < len(keys) <= MOST_KEYS:
        raise _invalid((FieldError("/keys", f"This is a list of 1 to {MOST_KEYS} keys."),))
    found: list[dict[str, Any]] = []
    faults: list[FieldError] = []
    for index, key in enumerate(keys):
        if isinstance(key, Mapping) and key.get("use") == "enc":
            continue
        fault = _fault(key)
        if fault:
            faults.append(FieldError(f"/keys/{index}", fault))
        else:
            found.append({name: key[name] for name in _PUBLIC[key["kty"]] if name in key})
    if not found and not faults:
        faults.append(FieldError("/keys", "None of them is for signing."))
    if faults and (strict or not found):
        raise _invalid(tuple(faults))
    return {"keys": found}


def _document(raw: object) -> object:
    if not isinstance(raw, (str, bytes)):
        return raw
    if len(raw) > MOST_BYTES:
        raise _invalid((FieldError("", f"At most {MOST_BYTES // 1024} KiB."),))
    try:
        return json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise _invalid((FieldError("", "This is no JSON."),)) from error


def _fault(key: object) -> str:
    if not isinstance(key, Mapping) or key.get("kty") not in _PUBLIC:
        return "A public key of the type RSA, EC or OKP is needed."
    if _PRIVATE & set(key):
        return "This is a private key: give its public half, and hold this one for known to others."
    if key["kty"] != "RSA" and key.get("crv") not in _CURVES:
        return f"Its curve is none of {', '.join(sorted(_CURVES))}."
    # Six bits a letter.
    if key["kty"] == "RSA" and len(str(key.get("n", "")).rstrip("=")) * 6 < _SHORTEST_RSA:
        return f"An RSA key has at least {_SHORTEST_RSA} bits."
    try:
        read = KeySet.import_key_set({"keys": [dict(key)]}).keys[0]
        if not isinstance(read, RSAKey | ECKey | OKPKey):
            return "A public key of the type RSA, EC or OKP is needed."
    except (JoseError, ValueError, TypeError, KeyError, AttributeError):
        return "It cannot be read."
    return ""


def _invalid(errors: tuple[FieldError, ...]) -> Invalid:
    return Invalid(
        "The key set cannot be used: " + "; ".join(one.detail for one in errors[:3]),
        code="invalid_jwks",
        hint="Give a JSON Web Key Set with the issuer's public signing keys.",
        errors=errors,
    )
