"""Public keys for verifiers without an account: JSON Web Key Set (RFC 7517) or PEM, and back.

What a key set says beside the key itself (whose it is, whether it was revoked) stands in members
of our own, which other readers of JWK pass over.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from console.errors import Invalid
from console.rules.canonical import loads_strict
from console.rules.key_life import state_of
from console.rules.signing_keys import PublicKey, parse_public_key

JWS_ALGORITHMS = {"ecdsa-p256": "ES256", "ed25519": "EdDSA"}
MAX_KEYS = 10_000


@dataclass(frozen=True, slots=True)
class KnownKey:
    """A public key with what its console says of it; `owner` and `name` may be left out."""

    public: PublicKey
    owner: str = ""
    name: str = ""
    origin: str = ""
    enrolled_at: datetime | None = None
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    revocation: str = ""
    doubted_from: datetime | None = None


_TIMES = ("enrolled_at", "expires_at", "revoked_at", "doubted_from")
_TEXTS = ("owner", "name", "origin", "revocation")


def to_jwks(keys: Iterable[KnownKey], now: datetime) -> str:
    """The key set as JSON text."""
    return json.dumps({"keys": [_jwk(key, now) for key in keys]}, indent=2) + "\n"


def to_pem(keys: Iterable[KnownKey], now: datetime) -> str:
    """The keys as PEM, each after lines of words (which readers of PEM pass over)."""
    return "\n".join(_pem(key, now) for key in keys)


def from_jwks(text: bytes | str) -> tuple[KnownKey, ...]:
    """The keys of an exported key set (or of any other with keys that can sign here).

    Raises Invalid (`invalid_key_set`, and what `parse_public_key` raises). A `kid` that is not the
    key's own is refused: somebody mixed the keys up.
    """
    document = loads_strict(text)
    listed = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(listed, list) or len(listed) > MAX_KEYS:
        raise _invalid("It is no JSON Web Key Set: {keys: […]}.")
    return tuple(_known(item, at) for at, item in enumerate(listed))


def _jwk(key: KnownKey, now: datetime) -> dict[str, Any]:
    written: dict[str, Any] = {
        **key.public.jwk,
        "use": "sig",
        "alg": JWS_ALGORITHMS[key.public.algorithm],
        "state": state_of(key, now),
    }
    if key.public.rp_id:
        written["rp_id"] = key.public.rp_id
    written |= {name: text for name in _TEXTS if (text := getattr(key, name))}
    written |= {name: _text(at) for name in _TIMES if (at := getattr(key, name)) is not None}
    return written


def _pem(key: KnownKey, now: datetime) -> str:
    said = [f"kid: {key.public.key_id}", f"state: {state_of(key, now)}"]
    if key.public.rp_id:
        said.append(f"rp_id: {key.public.rp_id}")
    said += [f"{name}: {text}" for name in _TEXTS if (text := getattr(key, name))]
    said += [f"{name}: {_text(at)}" for name in _TIMES if (at := getattr(key, name)) is not None]
    # A line break in a name could begin another key's block.
    lines = ["# " + " ".join(line.split()).replace("-----", "- - -") for line in said]
    return "\n".join([*lines, key.public.pem])


def _known(item: Any, at: int) -> KnownKey:
    if not isinstance(item, dict):
        raise _invalid(f"/keys/{at} is not an object.")
    public = parse_public_key(item)
    if item.get("kid", public.key_id) != public.key_id:
        raise _invalid(f"/keys/{at} is called {str(item['kid'])[:16]}…, but it is another key.")
    rp_id = item.get("rp_id", "")
    texts: dict[str, Any] = {name: item.get(name, "") for name in _TEXTS}
    times: dict[str, Any] = {name: _time(item.get(name), f"/keys/{at}/{name}") for name in _TIMES}
    if not all(isinstance(text, str) for text in (rp_id, *texts.values())):
        raise _invalid(f"/keys/{at} says something of itself that is not a text.")
    bound = PublicKey(public.algorithm, public.key_id, public.der, rp_id)
    return KnownKey(bound, **texts, **times)


def _text(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _time(text: Any, at: str) -> datetime | None:
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except (TypeError, ValueError) as error:
        raise _invalid(f"{at} is not a time.") from error
    if moment.tzinfo is None:
        raise _invalid(f"{at} does not say its time zone.")
    return moment


def _invalid(message: str) -> Invalid:
    return Invalid(
        f"The file of keys cannot be used: {message}",
        code="invalid_key_set",
        hint="Fetch it again: covenant keys export, or Settings → My keys → Download.",
    )
