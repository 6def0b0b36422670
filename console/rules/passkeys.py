"""Signatures made by passkeys: WebAuthn assertions whose challenge is the digest of what is signed.

An authenticator never signs our bytes as such: it signs its own data and the digest of the
browser's client data, and in that stands, as the challenge, SHA-256 of the PAE of payload type and
payload. So the envelope carries both beside the signature, and each of the bindings is checked.
Source: Web Authentication Level 3, section 7.2, "Verifying an Authentication Assertion".
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from console.errors import Invalid
from console.rules.canonical import loads_strict

MAX_AUTHENTICATOR_DATA = 2048
MAX_CLIENT_DATA = 4096
_HEAD = 37  # rpIdHash (32), flags (1), signCount (4)
_PRESENT, _VERIFIED, _ELIGIBLE, _BACKED_UP, _ATTESTED, _EXTENDED = 1, 4, 8, 16, 64, 128
_HINT = "Sign again on the page, with the passkey that is enrolled for you."


@dataclass(frozen=True, slots=True)
class PasskeyProof:
    """What an authenticator and a browser said beside the signature, as the bytes they signed."""

    authenticator_data: bytes
    client_data: bytes

    @property
    def signed_bytes(self) -> bytes:
        """What the signature of the authenticator is over."""
        return self.authenticator_data + hashlib.sha256(self.client_data).digest()

    @property
    def sign_count(self) -> int:
        """The authenticator's counter; 0 where it keeps none."""
        return int.from_bytes(self.authenticator_data[33:_HEAD], "big")


def challenge_of(message: bytes) -> bytes:
    """The challenge with which a passkey signs `message`: its SHA-256, 32 bytes."""
    return hashlib.sha256(message).digest()


def check_proof(proof: PasskeyProof, *, message: bytes, rp_id: str, origin: str = "") -> None:
    """Everything that an assertion has to say about itself, but for the signature.

    `message` is the PAE, `rp_id` the host name that the key is bound to. `origin` is the one that
    the signature has to come from, exactly; where it is not known (a stored signature, a bundle)
    it has to be one that the browser allows for `rp_id`. Raises Invalid: `passkey_malformed`,
    `passkey_other_purpose`, `passkey_other_challenge`, `passkey_other_origin`,
    `passkey_other_site`, `passkey_not_verified`.
    """
    _check_client_data(_client_data(proof), message=message, rp_id=rp_id, origin=origin)
    _check_authenticator_data(proof.authenticator_data, rp_id)


def check_counter(proof: PasskeyProof, *, last: int) -> int:
    """The counter to keep. Raises Invalid (`passkey_counter`) when it did not go forward.

    Two authenticators that hold one key give themselves away by it; those that keep no counter
    (most that are synchronised between devices) always say 0.
    """
    count = proof.sign_count
    if (count or last) and count <= last:
        raise Invalid(
            f"The passkey's counter says {count}, but it has signed with {last} already: there may "
            "be a copy of it.",
            code="passkey_counter",
            hint="Sign again. When this comes back, revoke the passkey as compromised under "
            "Settings → My keys and enrol another.",
        )
    return count


def origin_fits(origin: str, rp_id: str) -> bool:
    """Whether a browser lets a page of `origin` use credentials of `rp_id`: the same host or a
    host below it, under https, or http on localhost."""
    try:
        parts = urlsplit(origin)
    except ValueError:
        # A text that is no address at all, such as "https://[".
        return False
    host = (parts.hostname or "").rstrip(".")
    if origin != f"{parts.scheme}://{parts.netloc}" or "@" in parts.netloc:
        return False
    if host != rp_id and not host.endswith(f".{rp_id}"):
        return False
    local = host == "localhost" or host.endswith(".localhost")
    return parts.scheme == "https" or (parts.scheme == "http" and local)


def _client_data(proof: PasskeyProof) -> Mapping[str, Any]:
    if len(proof.client_data) > MAX_CLIENT_DATA:
        raise _refused("passkey_malformed", "The client data is longer than any browser's.")
    try:
        read = loads_strict(proof.client_data)
    except Invalid as error:
        text = f"The client data cannot be read: {error.message}"
        raise _refused("passkey_malformed", text) from error
    if not isinstance(read, dict):
        raise _refused("passkey_malformed", "The client data is not an object.")
    return read


def _check_client_data(said: Mapping[str, Any], *, message: bytes, rp_id: str, origin: str) -> None:
    if said.get("type") != "webauthn.get":
        text = "The passkey did something else than sign (its client data is not “webauthn.get”)."
        raise _refused("passkey_other_purpose", text)
    expected = base64.urlsafe_b64encode(challenge_of(message)).rstrip(b"=").decode("ascii")
    if said.get("challenge") != expected:
        text = "The passkey signed something else: its challenge is not the digest of these bytes."
        raise _refused("passkey_other_challenge", text)
    came_from = said.get("origin")
    fits = isinstance(came_from, str) and origin_fits(came_from, rp_id)
    if not fits or (origin and came_from != origin):
        text = f"The passkey was used on {str(came_from)[:100]}, not on {origin or rp_id}."
        raise _refused("passkey_other_origin", text)
    if said.get("crossOrigin", False) is not False or "topOrigin" in said:
        text = "The passkey was used inside a page of another site."
        raise _refused("passkey_other_origin", text)


def _check_authenticator_data(data: bytes, rp_id: str) -> None:
    if not _HEAD <= len(data) <= MAX_AUTHENTICATOR_DATA:
        raise _refused("passkey_malformed", "The authenticator's data has not the length of any.")
    flags = data[32]
    if flags & _ATTESTED or bool(flags & _EXTENDED) != (len(data) > _HEAD):
        raise _refused("passkey_malformed", "The authenticator's data is not that of a signature.")
    if flags & _BACKED_UP and not flags & _ELIGIBLE:
        raise _refused("passkey_malformed", "The authenticator contradicts itself about backups.")
    if data[:32] != hashlib.sha256(rp_id.encode("utf-8")).digest():
        raise _refused("passkey_other_site", f"The passkey answered for another site than {rp_id}.")
    if not flags & _PRESENT or not flags & _VERIFIED:
        raise _refused(
            "passkey_not_verified",
            "The passkey signed without making sure who was in front of it.",
            "Set up a PIN, fingerprint or face on the device that holds it, then sign again.",
        )


def _refused(code: str, message: str, hint: str = _HINT) -> Invalid:
    return Invalid(message, code=code, hint=hint)
