"""Connections to addresses that a person named, checked where it counts: at the connect."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterable

from console.errors import Unavailable
from console.rules.outgoing import Network, Target, is_reachable

TIMEOUT_SECONDS = 10.0


def connect(
    target: Target, *, allowed: Iterable[Network], kind: int = socket.SOCK_STREAM
) -> socket.socket:
    """A connected socket, through TLS for tls and https, the peer's name verified.

    The name is looked up once, and the very address that was judged is connected to: a name
    that changes its mind in between gains nothing. Raises Unavailable: `address_not_allowed`
    (not to be retried), `unreachable`.
    """
    networks = tuple(allowed)
    try:
        found = socket.getaddrinfo(target.host, target.port, type=kind)
    except (OSError, UnicodeError) as error:
        raise _unreachable(target, f"its name is not known ({error})") from error
    for *_, address in found:
        if not is_reachable(str(address[0]), networks):
            named = target.host if target.host == address[0] else f"{target.host} ({address[0]})"
            raise Unavailable(
                f"{named} is an address inside, which is not connected to.",
                code="address_not_allowed",
                hint="Set COVENANT_PRIVATE_ADDRESSES to the networks that may be sent to.",
                retryable=False,
            )
    last: OSError | None = None
    for family, type_, protocol, _, address in found:
        connection = socket.socket(family, type_, protocol)
        connection.settimeout(TIMEOUT_SECONDS)
        try:
            connection.connect(address)
            if target.scheme in {"tls", "https"}:
                return _through_tls(connection, target)
        except OSError as error:
            connection.close()
            last = error
        else:
            return connection
    raise _unreachable(target, str(last or "it has no address"))


def unreachable(target: Target, reason: str) -> Unavailable:
    """The error of a peer that did not do its part."""
    return _unreachable(target, reason)


def _through_tls(connection: socket.socket, target: Target) -> socket.socket:
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context.wrap_socket(connection, server_hostname=target.host)


def _unreachable(target: Target, reason: str) -> Unavailable:
    return Unavailable(
        f"{target.scheme}://{target.host}:{target.port} cannot be reached: {reason}.",
        code="unreachable",
        hint="Look whether it runs and whether a firewall stands between.",
    )
