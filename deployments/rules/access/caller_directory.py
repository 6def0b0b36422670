"""Whom a gateway knows in one environment: keys by their digest, blocked callers, token issuers."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Issuer:
    """Who signs tokens: `jwks` is its JSON Web Key Set, as text; it holds public keys alone."""

    name: str
    issuer: str
    audiences: tuple[str, ...]
    caller_claim: str
    jwks: str


@dataclass(frozen=True, slots=True)
class CallerDirectory:
    """`keys` are (SHA-256 of the key in hexadecimal, the caller's name), valid ones only."""

    keys: tuple[tuple[str, str], ...] = ()
    blocked: tuple[str, ...] = ()
    issuers: tuple[Issuer, ...] = ()


NOBODY = CallerDirectory()


@dataclass(frozen=True, slots=True)
class Certificate:
    """What a listener shows of itself, PEM; the key goes to gateways and is stored nowhere."""

    environment: str
    chain: str
    private_key: str = field(repr=False)
