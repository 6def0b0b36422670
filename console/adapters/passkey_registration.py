"""Registration of passkeys by py_webauthn: what a browser is asked, and what it may answer."""

from __future__ import annotations

import base64
import json
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import webauthn
from cryptography.exceptions import UnsupportedAlgorithm
from webauthn.helpers import (
    base64url_to_bytes,
    bytes_to_base64url,
    decode_credential_public_key,
    decoded_public_key_to_cryptography,
)
from webauthn.helpers.cose import COSEAlgorithmIdentifier
from webauthn.helpers.exceptions import WebAuthnException
from webauthn.helpers.structs import (
    AttestationConveyancePreference,
    AuthenticatorSelectionCriteria,
    PublicKeyCredentialDescriptor,
    ResidentKeyRequirement,
    UserVerificationRequirement,
)

from console.errors import Invalid
from console.rules.canonical import loads_strict
from console.rules.relying_party import RelyingParty
from console.rules.signing_keys import PublicKey, public_key_of

MAX_ANSWER = 64 * 1024
MAX_CREDENTIAL_ID = 1023
_ALGORITHMS = [COSEAlgorithmIdentifier.ECDSA_SHA_256, COSEAlgorithmIdentifier.EDDSA]


@dataclass(frozen=True, slots=True)
class NewPasskey:
    """A credential that was just made; `credential_id` is base64url."""

    credential_id: str
    public_key: PublicKey
    sign_count: int


def creation_options(
    *,
    party: RelyingParty,
    username: str,
    display_name: str,
    challenge: bytes,
    known: Iterable[str],
    seconds: int,
) -> dict[str, Any]:
    """PublicKeyCredentialCreationOptionsJSON for a signing key; `known` are credential ids.

    The user handle is a new one each time: authenticators that keep credentials would otherwise
    let a signing key take the place of the passkey that its owner signs in with.
    """
    options = webauthn.generate_registration_options(
        rp_id=party.id,
        rp_name=party.name,
        user_id=secrets.token_bytes(32),
        user_name=f"{username} (signing)",
        user_display_name=f"{display_name} (signing)",
        challenge=challenge,
        timeout=seconds * 1000,
        attestation=AttestationConveyancePreference.NONE,
        authenticator_selection=AuthenticatorSelectionCriteria(
            resident_key=ResidentKeyRequirement.DISCOURAGED,
            user_verification=UserVerificationRequirement.REQUIRED,
        ),
        exclude_credentials=[
            PublicKeyCredentialDescriptor(id=base64url_to_bytes(one)) for one in known
        ],
        supported_pub_key_algs=_ALGORITHMS,
    )
    written: dict[str, Any] = json.loads(webauthn.options_to_json(options))
    return written


def challenge_in(answer: Mapping[str, Any]) -> bytes:
    """The challenge that an answer claims to be for. Raises Invalid (`passkey_malformed`)."""
    try:
        client_data = loads_strict(_unbase64url(answer["response"]["clientDataJSON"]))
        challenge = client_data["challenge"] if isinstance(client_data, dict) else None
        return _unbase64url(challenge)
    except (KeyError, TypeError, ValueError, Invalid) as error:
        raise _malformed() from error


def read_answer(answer: Mapping[str, Any], *, party: RelyingParty, challenge: bytes) -> NewPasskey:
    """The passkey that a browser's answer (RegistrationResponseJSON) proves.

    Raises Invalid: `passkey_malformed`, `unsupported_key` for anything but ES256 and EdDSA,
    `passkey_refused` for another site, origin or challenge, or without user verification.
    """
    if len(json.dumps(answer)) > MAX_ANSWER:
        raise _malformed()
    try:
        verified = webauthn.verify_registration_response(
            credential=dict(answer),
            expected_challenge=challenge,
            expected_rp_id=party.id,
            expected_origin=party.origin,
            require_user_verification=True,
            supported_pub_key_algs=_ALGORITHMS,
        )
        _check_frame(verified, answer)
        decoded = decode_credential_public_key(verified.credential_public_key)
        public_key = public_key_of(decoded_public_key_to_cryptography(decoded))  # type: ignore[arg-type]
    except WebAuthnException as error:
        raise _refused(str(error)) from error
    # The library hands on whatever its parsers of CBOR, certificates and keys throw at garbage.
    except (ValueError, TypeError, KeyError, AttributeError, LookupError, UnsupportedAlgorithm,
            EOFError, OverflowError) as error:  # fmt: skip
        raise _malformed() from error
    bound = PublicKey(public_key.algorithm, public_key.key_id, public_key.der, party.id)
    return NewPasskey(bytes_to_base64url(verified.credential_id), bound, verified.sign_count)


def _check_frame(verified: Any, answer: Mapping[str, Any]) -> None:
    """What the library leaves to its caller."""
    client_data = json.loads(_unbase64url(answer["response"]["clientDataJSON"]))
    if client_data.get("crossOrigin", False) is not False or "topOrigin" in client_data:
        raise _refused("it was made inside a page of another site")
    if len(verified.credential_id) > MAX_CREDENTIAL_ID:
        raise _malformed()
    if bytes_to_base64url(verified.credential_id) != answer.get("id"):
        raise _refused("its name is not the one that the authenticator gave it")


def _unbase64url(text: Any) -> bytes:
    if not isinstance(text, str):
        raise TypeError("not a text")
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)


def _refused(reason: str) -> Invalid:
    if "public key alg" in reason:
        return Invalid(
            "The passkey signs with an algorithm that is not taken here.",
            code="unsupported_key",
            hint="Use an authenticator that knows ES256 or EdDSA; nearly all do.",
        )
    return Invalid(
        f"The passkey was not enrolled: {reason}.",
        code="passkey_refused",
        hint="Make it again on this page, with a device that asks for a PIN, finger or face.",
    )


def _malformed() -> Invalid:
    return Invalid(
        "What the browser sent is not a new passkey.",
        code="passkey_malformed",
        hint="Reload the page and try again; another browser or device may help.",
    )
