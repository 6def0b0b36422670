"""A token issuer's key set, fetched from the address that a person named."""

from __future__ import annotations

import http.client
import time
from collections.abc import Iterable

from console.adapters.outgoing import connect, unreachable
from console.errors import Unavailable
from console.rules.outgoing import Network, Target, is_reachable
from deployments.rules.access.jwks import MOST_BYTES

MOST_SECONDS = 10.0


def fetch(target: Target, *, allowed: Iterable[Network]) -> bytes:
    """The document at `target`, at most `MOST_BYTES` long. Redirects are not followed.

    Plain HTTP is spoken only to addresses that a setting allows: whoever answers in the issuer's
    place could let anybody in. Raises Unavailable.
    """
    networks = tuple(allowed)
    with connect(target, allowed=networks) as connection:
        if target.scheme == "http" and is_reachable(str(connection.getpeername()[0]), ()):
            raise Unavailable(
                f"The keys of {target.host} would come in the clear.",
                code="address_not_allowed",
                hint="Use https://.",
                retryable=False,
            )
        client = http.client.HTTPConnection(target.host, target.port)
        # Connected and checked already: the client only speaks.
        client.sock = connection
        try:
            client.request(
                "GET",
                target.path,
                headers={
                    "Accept": "application/jwk-set+json, application/json",
                    "User-Agent": "Covenant",
                    "Connection": "close",
                },
            )
            answer = client.getresponse()
            body = _read(answer, target)
        except (OSError, http.client.HTTPException) as error:
            raise unreachable(target, f"it did not answer ({error})") from error
    if answer.status != http.client.OK:
        raise unreachable(target, f"it answered {answer.status}")
    return body


def _read(answer: http.client.HTTPResponse, target: Target) -> bytes:
    deadline = time.monotonic() + MOST_SECONDS
    body = bytearray()
    while block := answer.read1(16 * 1024):
        body += block
        if len(body) > MOST_BYTES:
            raise unreachable(target, f"it sent more than {MOST_BYTES // 1024} KiB")
        if time.monotonic() > deadline:
            raise unreachable(target, f"it took longer than {MOST_SECONDS:g} s")
    return bytes(body)
