"""When a token of an outside platform (CI) speaks for a service account.

OpenID Connect Core 1.0, sections 2 and 3.1.3.7, read strictly: the issuer and the audience are
exact, the algorithms are asymmetric and named here, and the claims are those that were written
down.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

ALGORITHMS = ("RS256", "ES256", "EdDSA")
LEEWAY = timedelta(seconds=30)
LIFETIME = timedelta(minutes=15)
# A token is refused a second time for as long as it lives, so that may not be for ever.
LONGEST_LIFE = timedelta(hours=24)
MOST_BYTES = 16 * 1024
MOST_CLAIMS = 12
# What a short token of a machine may be given: it manages nothing and signs nothing.
SCOPES = ("read", "write", "operate")
LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
CLAIM_NAME = re.compile(r"^[A-Za-z0-9_./:-]{1,80}$")


def issuer_fault(issuer: str) -> str:
    """Why this is no issuer to trust, or "": https, or http on this machine alone."""
    try:
        parts = urlsplit(issuer)
        parts.port  # noqa: B018 - reading it checks it
    except ValueError:
        return "is no address"
    if not parts.hostname or parts.username or parts.password:
        return "is no address of a host"
    if parts.query or parts.fragment:
        return "has a query or a fragment, which an issuer never has"
    if parts.scheme == "https" or (parts.scheme == "http" and is_loopback(issuer)):
        return ""
    return "is not https"


def is_loopback(issuer: str) -> bool:
    """Whether the issuer was registered as one on this machine."""
    return urlsplit(issuer).hostname in LOOPBACK


def discovery_address(issuer: str) -> str:
    """Where the issuer describes itself (OpenID Connect Discovery 1.0, section 4)."""
    return issuer.rstrip("/") + "/.well-known/openid-configuration"


def patterns_fault(claims: Mapping[str, Any]) -> str:
    """Why these claims are not accepted as patterns, or ""."""
    if not isinstance(claims.get("sub"), str) or not claims["sub"].strip("* "):
        return "must say which `sub` (subject) is meant, not * alone"
    if len(claims) > MOST_CLAIMS:
        return f"are more than {MOST_CLAIMS}"
    for name, pattern in claims.items():
        if not CLAIM_NAME.match(name):
            return f"have a name that no claim has: {name[:80]!r}"
        if not isinstance(pattern, str) or not 0 < len(pattern) <= 300:
            return f"need a text of 1 to 300 characters for {name}"
        if "*" in pattern[:-1]:
            return f"may have a * at the very end alone, and {name} has one elsewhere"
    return ""


def claims_fit(patterns: Mapping[str, str], claims: Mapping[str, Any]) -> bool:
    """Whether each named claim has its value; a trailing * stands for any end.

    Numbers and truth values are compared as JSON writes them; lists and objects never fit.
    """
    return all(_fits(pattern, claims.get(name)) for name, pattern in patterns.items())


def is_for(audience: str, named: Any) -> bool:
    """Whether the token is meant for this audience and nobody else (a list of one will do)."""
    return named == audience or (isinstance(named, list) and named == [audience])


def use_digest(issuer: str, token_id: str) -> str:
    """What a used token is remembered by."""
    return hashlib.sha256(f"{issuer}\n{token_id}".encode()).hexdigest()


def _fits(pattern: str, value: Any) -> bool:
    if isinstance(value, bool):
        value = "true" if value else "false"
    elif isinstance(value, int):
        value = str(value)
    if not isinstance(value, str):
        return False
    if pattern.endswith("*"):
        return value.startswith(pattern[:-1])
    return value == pattern
