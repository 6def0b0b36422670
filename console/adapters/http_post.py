"""POST to an address that a person named: checked at the connect, bounded in time and size."""

from __future__ import annotations

import http.client
import socket
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from console.adapters.outgoing import connect, unreachable
from console.errors import Unavailable
from console.rules.outgoing import Network, Target, is_reachable

MOST_ANSWER_BYTES = 64 * 1024
LONGEST_SECONDS = 20.0
"""For the whole exchange: a peer that sends a byte now and then holds nobody up."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What the peer said; header names are in small letters."""

    status: int
    reason: str
    body: bytes
    headers: Mapping[str, str]

    @property
    def is_success(self) -> bool:
        """Whether it is a 2xx."""
        return 200 <= self.status < 300


def post(
    target: Target, body: bytes, *, headers: Mapping[str, str], allowed: Iterable[Network]
) -> Answer:
    """POST the body and give the answer, whatever its status; redirects are not followed.

    Plain HTTP is spoken only to addresses that a setting allows. Null characters are left out of
    what the peer says: it is kept, and no text in the database may have one. Raises Unavailable:
    `address_not_allowed` (not to be retried), `unreachable`.
    """
    networks = tuple(allowed)
    with connect(target, allowed=networks) as connection:
        peer = str(connection.getpeername()[0])
        if target.scheme == "http" and is_reachable(peer, ()):
            raise Unavailable(
                f"{target.host} would get it in the clear.",
                code="address_not_allowed",
                hint="Use https://.",
                retryable=False,
            )
        client = http.client.HTTPConnection(target.host, target.port)
        # Connected and checked already: the client only speaks.
        client.sock = connection
        limit = threading.Timer(LONGEST_SECONDS, _cut, [connection])
        limit.daemon = True
        limit.start()
        try:
            client.request(
                "POST",
                target.path,
                body=body,
                headers={"User-Agent": "Covenant", "Connection": "close", **headers},
            )
            answer = client.getresponse()
            content = answer.read(MOST_ANSWER_BYTES).replace(b"\0", b"")
        except (OSError, http.client.HTTPException) as error:
            said = str(error).replace("\0", "")
            raise unreachable(target, f"it did not answer ({said})") from error
        finally:
            limit.cancel()
    names = {name.lower(): value for name, value in answer.getheaders()}
    return Answer(answer.status, answer.reason.replace("\0", ""), content, names)


def _cut(connection: socket.socket) -> None:
    """End an exchange that takes too long; whoever reads finds the connection gone."""
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        return
