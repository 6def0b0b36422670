"""Signatures by DSSE, the Dead Simple Signing Envelope (v1.0.2 of its specification).

The signature covers PAE(payload type, payload), so that bytes signed as one kind of document
can never pass as another. https://github.com/secure-systems-lab/dsse
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec, utils
from cryptography.hazmat.primitives.hashes import SHA256

from console.errors import FieldError, Invalid
from console.rules.canonical import canonical_bytes, digest, digest_text, loads_strict
from console.rules.passkeys import PasskeyProof, check_proof
from console.rules.signing_keys import PrivateKey, PublicKey, Verifier, public_key_of

CONTRACT_PAYLOAD_TYPE = "application/vnd.covenant.contract+json"
RELEASE_PAYLOAD_TYPE = "application/vnd.covenant.release+json"
ROTATION_PAYLOAD_TYPE = "application/vnd.covenant.key-rotation+json"

MAX_SIGNATURES = 32
_RAW_P256_LENGTH = 64
# The order of P-256's base point (FIPS 186-5, SP 800-186): r and s lie in 1..n-1.
_P256_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551


@dataclass(frozen=True, slots=True)
class EnvelopeSignature:
    """One signature: the id of the key that is said to have made it, and its bytes.

    A passkey's carries beside it what the authenticator really signed.
    """

    keyid: str
    sig: bytes
    webauthn: PasskeyProof | None = None


@dataclass(frozen=True, slots=True)
class Envelope:
    """A payload, its type, and one or more signatures over both."""

    payload: bytes
    payload_type: str
    signatures: tuple[EnvelopeSignature, ...]

    @classmethod
    def parse(cls, source: bytes | str | Mapping[str, Any]) -> Envelope:
        """The envelope in a JSON text or an already read object; `Invalid` with pointers if not.

        Base64 may be the standard or the URL-safe alphabet, as the specification asks, but each
        value has one spelling: padding is required and unused bits are zero.
        """
        document: object = source if isinstance(source, Mapping) else loads_strict(source)
        faults: list[FieldError] = []
        if not isinstance(document, Mapping):
            raise _malformed([FieldError("", "is not an object")])
        _refuse_unknown(document, {"payload", "payloadType", "signatures"}, "", faults)
        payload = _b64decode(document.get("payload"), "/payload", faults)
        payload_type = document.get("payloadType")
        if not isinstance(payload_type, str) or not payload_type:
            faults.append(FieldError("/payloadType", "is missing or not a text"))
        signatures = _parse_signatures(document.get("signatures"), faults)
        if faults:
            raise _malformed(faults)
        return cls(payload, str(payload_type), signatures)

    def to_dict(self) -> dict[str, Any]:
        return {
            "payload": base64.b64encode(self.payload).decode("ascii"),
            "payloadType": self.payload_type,
            "signatures": [_written(signature) for signature in self.signatures],
        }

    def to_bytes(self) -> bytes:
        return canonical_bytes(self.to_dict())


def pae(payload_type: str, payload: bytes) -> bytes:
    """The bytes that are signed: `DSSEv1 LEN(type) type LEN(payload) payload`."""
    kind = payload_type.encode("utf-8")
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def sign(private_key: PrivateKey, payload_type: str, payload: bytes) -> Envelope:
    """An envelope with one signature; P-256 signs with ECDSA and SHA-256, in DER."""
    message = pae(payload_type, payload)
    if isinstance(private_key, ec.EllipticCurvePrivateKey):
        signature = private_key.sign(message, ec.ECDSA(SHA256()))
    else:
        signature = private_key.sign(message)
    keyid = public_key_of(private_key).key_id
    return Envelope(payload, payload_type, (EnvelopeSignature(keyid, signature),))


def verify(envelope: Envelope, public_key: PublicKey, *, origin: str = "") -> EnvelopeSignature:
    """The signature in `envelope` that `public_key` made, in its stored form (P-256: DER).

    A signature that names no key is tried as well, since the key id is only a hint. A passkey's
    key (one with an `rp_id`) accepts WebAuthn assertions alone, made on `origin` where that is
    given; any other key accepts none. Raises `Invalid`: `signature_by_other_key` when no signature
    names this key, `signature_kind` when it is of the other kind, `signature_invalid` when those
    that do were not made by it over exactly this payload and type, and what
    `passkeys.check_proof` raises.
    """
    named = [s for s in envelope.signatures if s.keyid in (public_key.key_id, "")]
    if not named:
        raise Invalid(
            f"The envelope holds no signature by the key {public_key.key_id[:16]}….",
            code="signature_by_other_key",
            hint="Sign with the key that is enrolled for you, on the device that holds it.",
        )
    candidates = [s for s in named if (s.webauthn is not None) == public_key.is_passkey]
    if not candidates:
        kinds = ("a passkey", "an ordinary key")
        is_one, made_by = kinds if public_key.is_passkey else kinds[::-1]
        raise Invalid(
            f"The key {public_key.key_id[:16]}… is {is_one}, and the signature one by {made_by}.",
            code="signature_kind",
            hint="Sign again with the key that is enrolled for you, the way its kind signs.",
        )
    message = pae(envelope.payload_type, envelope.payload)
    verifier = public_key.verifier()
    for candidate in candidates:
        signed = message
        if candidate.webauthn is not None:
            check_proof(candidate.webauthn, message=message, rp_id=public_key.rp_id, origin=origin)
            signed = candidate.webauthn.signed_bytes
        for sig in _spellings(candidate.sig, public_key):
            if _is_valid(verifier, sig, signed):
                return EnvelopeSignature(public_key.key_id, sig, candidate.webauthn)
    raise Invalid(
        f"The signature by the key {public_key.key_id[:16]}… does not fit these bytes.",
        code="signature_invalid",
        hint="The payload, its type or the signature was changed after signing: sign again.",
    )


def accept(
    envelope: Envelope,
    *,
    public_key: PublicKey,
    payload_type: str,
    payload: bytes,
    origin: str = "",
) -> Envelope:
    """The envelope as it is stored, once it is sure that one person signed exactly this.

    Exactly one signature, by `public_key`, over `payload` as `payload_type`; a passkey's on
    `origin`, where given. Raises `Invalid` with `one_signature_expected`, `payload_type_mismatch`,
    `payload_mismatch`, and what `verify` raises.
    """
    if len(envelope.signatures) != 1:
        raise Invalid(
            f"The envelope holds {len(envelope.signatures)} signatures; one is expected.",
            code="one_signature_expected",
            hint="Each person signs on their own and sends only their own signature.",
        )
    check_content(envelope, payload_type=payload_type, payload=payload)
    return replace(envelope, signatures=(verify(envelope, public_key, origin=origin),))


def check_content(envelope: Envelope, *, payload_type: str, payload: bytes) -> None:
    """Raise `Invalid` (`payload_type_mismatch`, `payload_mismatch`) unless it is about this."""
    if envelope.payload_type != payload_type:
        raise Invalid(
            f"The envelope signs a {envelope.payload_type}, not a {payload_type}.",
            code="payload_type_mismatch",
            hint="Fetch the payload again and sign it with the type named here.",
        )
    if envelope.payload != payload:
        raise Invalid(
            f"The signature is over other bytes ({digest_text(digest(envelope.payload))}) than "
            f"what is to be signed ({digest_text(digest(payload))}).",
            code="payload_mismatch",
            hint="Fetch the payload again, check its digest, and sign those bytes.",
        )


def merge(envelopes: Sequence[Envelope]) -> Envelope:
    """One envelope with the signatures of all; their payloads and types must be the same."""
    if not envelopes:
        raise Invalid("There is no envelope to merge.", code="no_signature")
    first = envelopes[0]
    for other in envelopes[1:]:
        if (other.payload, other.payload_type) != (first.payload, first.payload_type):
            raise Invalid(
                "The envelopes do not sign the same bytes.",
                code="payload_mismatch",
                hint="Merge only signatures over one contract revision or one release.",
            )
    signatures = dict.fromkeys(s for envelope in envelopes for s in envelope.signatures)
    return replace(first, signatures=tuple(signatures))


def _spellings(sig: bytes, public_key: PublicKey) -> Iterator[bytes]:
    """The signature as the verifier needs it; P-256 comes as DER or as WebCrypto's raw r‖s."""
    if public_key.algorithm == "ed25519":
        yield sig
        return
    try:
        r, s = utils.decode_dss_signature(sig)
        if _in_range(r, s) and utils.encode_dss_signature(r, s) == sig:
            yield sig
    except ValueError:
        pass  # not DER: it can still be the raw form
    if len(sig) == _RAW_P256_LENGTH and not public_key.is_passkey:
        r, s = int.from_bytes(sig[:32], "big"), int.from_bytes(sig[32:], "big")
        if _in_range(r, s):
            yield utils.encode_dss_signature(r, s)


def _in_range(r: int, s: int) -> bool:
    return 0 < r < _P256_ORDER and 0 < s < _P256_ORDER


def _is_valid(verifier: Verifier, sig: bytes, message: bytes) -> bool:
    try:
        if isinstance(verifier, ec.EllipticCurvePublicKey):
            verifier.verify(sig, message, ec.ECDSA(SHA256()))
        else:
            verifier.verify(sig, message)
    except InvalidSignature:
        return False
    return True


def _parse_signatures(listed: object, faults: list[FieldError]) -> tuple[EnvelopeSignature, ...]:
    if not isinstance(listed, list) or not 1 <= len(listed) <= MAX_SIGNATURES:
        faults.append(FieldError("/signatures", f"is not a list of 1 to {MAX_SIGNATURES}"))
        return ()
    found: list[EnvelopeSignature] = []
    for index, item in enumerate(listed):
        at = f"/signatures/{index}"
        if not isinstance(item, Mapping):
            faults.append(FieldError(at, "is not an object"))
            continue
        _refuse_unknown(item, {"keyid", "sig", "webauthn"}, at, faults)
        keyid = item.get("keyid", "")
        if not isinstance(keyid, str):
            faults.append(FieldError(f"{at}/keyid", "is not a text"))
            keyid = ""
        proof = _parse_proof(item["webauthn"], at, faults) if "webauthn" in item else None
        sig = _b64decode(item.get("sig"), f"{at}/sig", faults)
        found.append(EnvelopeSignature(keyid, sig, proof))
    return tuple(found)


def _parse_proof(written: object, at: str, faults: list[FieldError]) -> PasskeyProof | None:
    at = f"{at}/webauthn"
    if not isinstance(written, Mapping):
        faults.append(FieldError(at, "is not an object"))
        return None
    _refuse_unknown(written, {"authenticatorData", "clientDataJSON"}, at, faults)
    return PasskeyProof(
        *(
            _b64decode(written.get(name), f"{at}/{name}", faults)
            for name in ("authenticatorData", "clientDataJSON")
        )
    )


def _written(signature: EnvelopeSignature) -> dict[str, Any]:
    written: dict[str, Any] = {
        "keyid": signature.keyid,
        "sig": base64.b64encode(signature.sig).decode("ascii"),
    }
    if (proof := signature.webauthn) is not None:
        written["webauthn"] = {
            "authenticatorData": base64.b64encode(proof.authenticator_data).decode("ascii"),
            "clientDataJSON": base64.b64encode(proof.client_data).decode("ascii"),
        }
    return written


def _refuse_unknown(
    members: Mapping[str, Any], known: set[str], at: str, faults: list[FieldError]
) -> None:
    faults.extend(
        FieldError(f"{at}/{name}", "is not a field of an envelope")
        for name in members
        if name not in known
    )


def _b64decode(text: object, pointer: str, faults: list[FieldError]) -> bytes:
    if not isinstance(text, str) or not text:
        faults.append(FieldError(pointer, "is missing or not a text"))
        return b""
    standard = text.replace("-", "+").replace("_", "/")
    try:
        data = base64.b64decode(standard, validate=True)
    except (binascii.Error, ValueError):
        faults.append(FieldError(pointer, "is not base64"))
        return b""
    if base64.b64encode(data).decode("ascii") != standard:
        faults.append(FieldError(pointer, "is not base64 in its one proper spelling"))
    return data


def _malformed(faults: list[FieldError]) -> Invalid:
    return Invalid(
        f"This is not a DSSE envelope: {faults[0].pointer or 'it'} {faults[0].detail}.",
        code="invalid_envelope",
        hint="Send {payload, payloadType, signatures: [{keyid, sig}]} with base64 values.",
        errors=tuple(faults),
    )
