"""Sending to a syslog server: RFC 5424 messages by TCP, TLS (RFC 5425) or UDP (RFC 5426)."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Sequence
from contextlib import suppress

from console.adapters.outgoing import connect, unreachable
from console.rules.audit_messages import datagram, octet_counted
from console.rules.outgoing import Network, Target

GOODBYE_SECONDS = 2.0


def send(target: Target, messages: Sequence[bytes], *, allowed: Iterable[Network]) -> None:
    """Hand the messages over in order; raises Unavailable when that did not come to an end.

    Syslog has no acknowledgement: by TCP and TLS the connection is ended properly and the peer's
    end awaited, which shows a peer that went away in the middle. UDP shows nothing.
    """
    if target.scheme == "udp":
        with connect(target, allowed=allowed, kind=socket.SOCK_DGRAM) as connection:
            try:
                for message in messages:
                    connection.send(datagram(message))
            except OSError as error:
                raise unreachable(target, str(error)) from error
        return
    with connect(target, allowed=allowed) as connection:
        try:
            connection.sendall(b"".join(octet_counted(message) for message in messages))
            _say_goodbye(connection)
        except OSError as error:
            raise unreachable(target, f"it went away ({error})") from error


def _say_goodbye(connection: socket.socket) -> None:
    """End our side and wait a moment for the peer's: a reset instead is an error."""
    connection.settimeout(GOODBYE_SECONDS)
    # TLS says so by its own alert, which some servers leave unanswered.
    with suppress(TimeoutError):
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(1024):
            pass
