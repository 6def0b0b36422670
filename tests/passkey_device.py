"""A passkey made of software: answers as a browser and an authenticator would, or a little wrong.

Real keys, real bytes; where a test wants something wrong, it says which byte.
"""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import dataclass, field
from typing import Any

import cbor2
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.hashes import SHA256

from console.rules.dsse import Envelope, EnvelopeSignature, pae
from console.rules.passkeys import PasskeyProof
from console.rules.signing_keys import PublicKey, public_key_of

UP, UV, AT, ED = 1, 4, 64, 128


def b64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


@dataclass
class Device:
    """One credential of one site; `count` is its signature counter."""

    rp_id: str = "localhost"
    origin: str = "http://localhost:8000"
    private: Any = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))
    credential_id: bytes = b"credential-1"
    count: int = 0

    @property
    def public(self) -> PublicKey:
        plain = public_key_of(self.private)
        return PublicKey(plain.algorithm, plain.key_id, plain.der, self.rp_id)

    def client_data(self, kind: str, challenge: bytes, **changed: Any) -> bytes:
        said = {
            "type": kind,
            "challenge": b64url(challenge),
            "origin": self.origin,
            "crossOrigin": False,
            **changed,
        }
        return json.dumps({k: v for k, v in said.items() if v is not None}).encode()

    def authenticator_data(self, flags: int = UP | UV, more: bytes = b"") -> bytes:
        site = hashlib.sha256(self.rp_id.encode()).digest()
        return site + bytes([flags]) + self.count.to_bytes(4, "big") + more

    def sign_bytes(self, data: bytes) -> bytes:
        if isinstance(self.private, ec.EllipticCurvePrivateKey):
            return self.private.sign(data, ec.ECDSA(SHA256()))
        signed: bytes = self.private.sign(data)
        return signed

    def sign(
        self,
        payload_type: str,
        payload: bytes,
        *,
        flags: int = UP | UV,
        more: bytes = b"",
        challenge: bytes | None = None,
        kind: str = "webauthn.get",
        **changed: Any,
    ) -> Envelope:
        """The envelope that the page would send."""
        asked = hashlib.sha256(pae(payload_type, payload)).digest()
        client = self.client_data(kind, asked if challenge is None else challenge, **changed)
        proof = PasskeyProof(self.authenticator_data(flags, more), client)
        sig = self.sign_bytes(proof.signed_bytes)
        signature = EnvelopeSignature(self.public.key_id, sig, proof)
        return Envelope(payload, payload_type, (signature,))

    def register(
        self,
        challenge: bytes,
        *,
        flags: int = UP | UV | AT,
        fmt: str = "none",
        statement: dict[str, Any] | None = None,
        kind: str = "webauthn.create",
        cose: dict[int, Any] | None = None,
        **changed: Any,
    ) -> dict[str, Any]:
        """RegistrationResponseJSON for the challenge."""
        key = cbor2.dumps(self.cose() if cose is None else cose)
        length = len(self.credential_id).to_bytes(2, "big")
        data = self.authenticator_data(flags, b"\x00" * 16 + length + self.credential_id + key)
        attestation = {"fmt": fmt, "attStmt": statement or {}, "authData": data}
        return {
            "id": b64url(self.credential_id),
            "rawId": b64url(self.credential_id),
            "type": "public-key",
            "clientExtensionResults": {},
            "response": {
                "clientDataJSON": b64url(self.client_data(kind, challenge, **changed)),
                "attestationObject": b64url(cbor2.dumps(attestation)),
            },
        }

    def cose(self) -> dict[int, Any]:
        """The public key as COSE has it (RFC 9053)."""
        public = self.private.public_key()
        if isinstance(public, ec.EllipticCurvePublicKey):
            point = public.public_numbers()
            x, y = point.x.to_bytes(32, "big"), point.y.to_bytes(32, "big")
            return {1: 2, 3: -7, -1: 1, -2: x, -3: y}
        if isinstance(public, ed25519.Ed25519PublicKey):
            return {1: 1, 3: -8, -1: 6, -2: public.public_bytes_raw()}
        assert isinstance(public, rsa.RSAPublicKey)
        numbers = public.public_numbers()
        return {1: 3, 3: -257, -1: numbers.n.to_bytes(256, "big"), -2: b"\x01\x00\x01"}
