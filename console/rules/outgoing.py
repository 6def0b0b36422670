"""Where the console may connect to when a person names the address: not back into its own house."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from urllib.parse import urlsplit

from console.errors import FieldError, Invalid

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network
SYSLOG_SCHEMES = ("tls", "tcp", "udp")
WEBHOOK_SCHEMES = ("https", "http")
_USUAL_PORTS = {"tls": 6514, "tcp": 601, "udp": 514, "https": 443, "http": 80}
_NAT64 = ip_network("64:ff9b::/96")
_WRITTEN_OUT = re.compile(r"[!-~]+")
# What Python's registry calls global though nobody's public service lives there: protocol
# assignments (with a cloud's metadata service), 6to4 relays, site-local, documentation.
_NOT_PUBLIC = tuple(
    ip_network(one) for one in ("192.0.0.0/24", "192.88.99.0/24", "fec0::/10", "3fff::/20")
)


@dataclass(frozen=True, slots=True)
class Target:
    """A parsed address; `path` with its query, for HTTP."""

    scheme: str
    host: str
    port: int
    path: str = ""


def parse_target(address: str, schemes: Iterable[str]) -> Target:
    """Scheme, host, port and path of `address`; raises Invalid (`invalid_address`)."""
    allowed = tuple(schemes)
    address = address.strip()
    if not _WRITTEN_OUT.fullmatch(address):
        # urlsplit drops line breaks in silence, and HTTP knows no other letters.
        raise _invalid(address, allowed)
    try:
        parts = urlsplit(address)
        port = parts.port
    except ValueError:
        raise _invalid(address, allowed) from None
    if parts.scheme not in allowed or not parts.hostname or parts.username or parts.password:
        raise _invalid(address, allowed)
    web = parts.scheme in WEBHOOK_SCHEMES
    if parts.fragment or (not web and (parts.path.strip("/") or parts.query)):
        raise _invalid(address, allowed)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Target(
        parts.scheme, parts.hostname, port or _USUAL_PORTS[parts.scheme], path if web else ""
    )


def is_reachable(address: str, allowed: Iterable[Network]) -> bool:
    """Whether to connect to this IP address: a public one, or one that a setting allows.

    Loopback, link-local (with the metadata service of clouds), private, shared, multicast and
    reserved addresses are none, in whatever form they are written (IPv4 in IPv6 as well).
    """
    ip = ip_address(address.partition("%")[0])
    for one in (ip, *carried_addresses(ip)):
        if any(one in network for network in allowed if network.version == one.version):
            continue
        if any(one in network for network in _NOT_PUBLIC if network.version == one.version):
            return False
        if not one.is_global or one.is_multicast or one.is_reserved or one.is_unspecified:
            return False
    return True


def carried_addresses(ip: Address) -> list[IPv4Address]:
    """IPv4 addresses that an IPv6 address stands for."""
    if isinstance(ip, IPv4Address):
        return []
    found = [ip.ipv4_mapped, ip.sixtofour, *(ip.teredo or ())]
    if ip in _NAT64:
        found.append(IPv4Address(int(ip) & 0xFFFFFFFF))
    return [one for one in found if one is not None]


def _invalid(address: str, schemes: tuple[str, ...]) -> Invalid:
    forms = ", ".join(f"{scheme}://host:port" for scheme in schemes)
    return Invalid(
        f"“{address[:100]}” is not an address that can be sent to.",
        code="invalid_address",
        hint=f"Use {forms}; no user name or password in it.",
        errors=(FieldError("/address", f"Use {forms}."),),
    )
