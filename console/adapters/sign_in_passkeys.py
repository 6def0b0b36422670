"""Passkeys that people sign in with, by py_webauthn: options for a browser, and its answers.

Source: Web Authentication Level 3, sections 7.1 (registration) and 7.2 (assertion).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import webauthn
from cryptography.exceptions import UnsupportedAlgorithm
from webauthn.helpers import base64url_to_bytes, bytes_to_base64url
from webauthn.helpers.exceptions import WebAuthnException
from webauthn.helpers.structs import (
    AttestationConveyancePreference,
    AuthenticatorSelectionCriteria,
    CredentialDeviceType,
    PublicKeyCredentialDescriptor,
    ResidentKeyRequirement,
    UserVerificationRequirement,
)

from console.errors import Invalid
from console.rules.relying_party import RelyingParty

MAX_ANSWER = 64 * 1024
MAX_CREDENTIAL_ID = 1023
# What the library's parsers throw at garbage, beside its own exceptions.
_GARBAGE = (ValueError, TypeError, KeyError, AttributeError, LookupError, EOFError, OverflowError)


@dataclass(frozen=True, slots=True)
class EnrolledPasskey:
    """A credential that was just made; ids and COSE key in base64url."""

    credential_id: str
    public_key: str
    sign_count: int
    transports: tuple[str, ...]
    backed_up: bool


@dataclass(frozen=True, slots=True)
class ProvenPasskey:
    """What an assertion proved beside the possession of the key."""

    sign_count: int
    user_verified: bool
    backed_up: bool


def creation_options(
    *,
    party: RelyingParty,
    handle: bytes,
    username: str,
    display_name: str,
    challenge: bytes,
    known: Iterable[str],
) -> dict[str, Any]:
    """PublicKeyCredentialCreationOptionsJSON; `known` are credential ids the person has."""
    options = webauthn.generate_registration_options(
        rp_id=party.id,
        rp_name=party.name,
        user_id=handle,
        user_name=username,
        user_display_name=display_name,
        challenge=challenge,
        attestation=AttestationConveyancePreference.NONE,
        authenticator_selection=AuthenticatorSelectionCriteria(
            resident_key=ResidentKeyRequirement.PREFERRED,
            user_verification=UserVerificationRequirement.PREFERRED,
        ),
        exclude_credentials=[_descriptor(one) for one in known],
    )
    return _as_json(options)


def request_options(
    *, party: RelyingParty, challenge: bytes, known: Iterable[str] = (), verify: bool
) -> dict[str, Any]:
    """PublicKeyCredentialRequestOptionsJSON; without `known` the browser offers what it has."""
    options = webauthn.generate_authentication_options(
        rp_id=party.id,
        challenge=challenge,
        allow_credentials=[_descriptor(one) for one in known],
        user_verification=UserVerificationRequirement.REQUIRED
        if verify
        else UserVerificationRequirement.PREFERRED,
    )
    return _as_json(options)


def read_enrolment(
    answer: Mapping[str, Any], *, party: RelyingParty, challenge: bytes
) -> EnrolledPasskey:
    """The passkey that a browser's RegistrationResponseJSON proves.

    Raises Invalid: `passkey_malformed`, or `passkey_refused` for another site or challenge.
    """
    _check_size(answer)
    try:
        verified = webauthn.verify_registration_response(
            credential=dict(answer),
            expected_challenge=challenge,
            expected_rp_id=party.id,
            expected_origin=party.origin,
        )
        transports = answer["response"].get("transports", [])
        named = tuple(str(name)[:20] for name in list(transports)[:8])
    except (WebAuthnException, UnsupportedAlgorithm) as error:
        raise _refused(error) from error
    except _GARBAGE as error:
        raise _malformed() from error
    if len(verified.credential_id) > MAX_CREDENTIAL_ID:
        raise _malformed()
    return EnrolledPasskey(
        credential_id=bytes_to_base64url(verified.credential_id),
        public_key=bytes_to_base64url(verified.credential_public_key),
        sign_count=verified.sign_count,
        transports=named,
        backed_up=verified.credential_device_type == CredentialDeviceType.MULTI_DEVICE,
    )


def read_assertion(
    answer: Mapping[str, Any],
    *,
    party: RelyingParty,
    challenge: bytes,
    public_key: str,
    sign_count: int,
    verify: bool,
) -> ProvenPasskey:
    """What a browser's AuthenticationResponseJSON proves for the key with this counter.

    Raises Invalid as `read_enrolment` does; also when the counter did not go forward, or when
    `verify` and the authenticator did not make sure who holds it.
    """
    _check_size(answer)
    try:
        verified = webauthn.verify_authentication_response(
            credential=dict(answer),
            expected_challenge=challenge,
            expected_rp_id=party.id,
            expected_origin=party.origin,
            credential_public_key=base64url_to_bytes(public_key),
            credential_current_sign_count=sign_count,
            require_user_verification=verify,
        )
    except (WebAuthnException, UnsupportedAlgorithm) as error:
        raise _refused(error) from error
    except _GARBAGE as error:
        raise _malformed() from error
    return ProvenPasskey(
        sign_count=verified.new_sign_count,
        user_verified=verified.user_verified,
        backed_up=verified.credential_backed_up,
    )


def credential_id_of(answer: Mapping[str, Any]) -> str:
    """Which credential an answer claims to be by. Raises Invalid (`passkey_malformed`)."""
    claimed = answer.get("id")
    if not isinstance(claimed, str) or not 0 < len(claimed) <= 1400:
        raise _malformed()
    return claimed


def handle_in(answer: Mapping[str, Any]) -> bytes | None:
    """The user handle in an assertion, which authenticators that keep credentials give."""
    try:
        text = answer["response"].get("userHandle")
        return base64url_to_bytes(text) if text else None
    except _GARBAGE as error:
        raise _malformed() from error


def _descriptor(credential_id: str) -> PublicKeyCredentialDescriptor:
    return PublicKeyCredentialDescriptor(id=base64url_to_bytes(credential_id))


def _as_json(options: Any) -> dict[str, Any]:
    written: dict[str, Any] = json.loads(webauthn.options_to_json(options))
    return written


def _check_size(answer: Mapping[str, Any]) -> None:
    if len(json.dumps(answer)) > MAX_ANSWER:
        raise _malformed()


def _refused(error: Exception) -> Invalid:
    return Invalid(
        f"The passkey was not accepted: {str(error).rstrip('.')}.",
        code="passkey_refused",
        hint="Try again; when it comes back, use another way to sign in and enrol it anew.",
    )


def _malformed() -> Invalid:
    return Invalid(
        "What the browser sent is not the answer of a passkey.",
        code="passkey_malformed",
        hint="Reload the page and try again; another browser or device may help.",
    )
