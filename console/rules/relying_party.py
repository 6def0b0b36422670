"""Which site a passkey is bound to: the relying party of WebAuthn, read from the base URL.

A credential belongs to a host name (the rp id), never to an address, and is used only in a secure
context: https, or http on this machine under the name localhost.
Source: Web Authentication Level 3, https://www.w3.org/TR/webauthn-3/#relying-party-identifier
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from urllib.parse import urlsplit

from console.errors import Conflict

_DEFAULT_PORTS = {"https": 443, "http": 80}


@dataclass(frozen=True, slots=True)
class RelyingParty:
    """`id` is a host name; `origin` is what a browser writes into the client data."""

    id: str
    origin: str
    name: str = "Covenant"


def relying_party(base_url: str) -> RelyingParty:
    """The relying party of the site at `base_url`.

    Raises Conflict (`passkeys_unavailable`) where browsers would refuse: an address instead of a
    name, or no https.
    """
    parts = urlsplit(base_url)
    host = (parts.hostname or "").rstrip(".")
    if not host or _is_address(host):
        raise _unavailable(f"a passkey is bound to a name, and {host or base_url} is none")
    local = host == "localhost" or host.endswith(".localhost")
    if parts.scheme != "https" and not (parts.scheme == "http" and local):
        raise _unavailable(f"{parts.scheme}://{host} is not encrypted")
    standard = parts.port is None or parts.port == _DEFAULT_PORTS[parts.scheme]
    return RelyingParty(host, f"{parts.scheme}://{host}" + ("" if standard else f":{parts.port}"))


def why_no_passkeys(base_url: str) -> str:
    """Why passkeys cannot be used at this base URL, as a sentence; empty where they can."""
    try:
        relying_party(base_url)
    except Conflict as error:
        return error.message
    return ""


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _unavailable(reason: str) -> Conflict:
    return Conflict(
        f"Passkeys cannot be used on this site: {reason}.",
        code="passkeys_unavailable",
        hint="Set COVENANT_BASE_URL to https and a host name (or to http://localhost:PORT), "
        "and open the console under that address.",
    )
