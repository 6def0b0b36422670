"""Sending to a webhook, signed by the Standard Webhooks specification (standardwebhooks.com)."""

from __future__ import annotations

import http.client
from collections.abc import Iterable
from datetime import datetime

from standardwebhooks import Webhook

from console.adapters.outgoing import connect, unreachable
from console.errors import Unavailable
from console.rules.outgoing import Network, Target, is_reachable

MOST_ANSWER_BYTES = 64 * 1024


def send(
    target: Target,
    body: bytes,
    *,
    message_id: str,
    secret: str,
    now: datetime,
    allowed: Iterable[Network],
) -> None:
    """POST the body; a 2xx answer is the acknowledgement, and anything else Unavailable.

    `message_id` is the same when the same body is sent again, so that receivers can tell.
    Redirects are not followed. Plain HTTP is spoken only to addresses that a setting allows.
    """
    networks = tuple(allowed)
    with connect(target, allowed=networks) as connection:
        peer = str(connection.getpeername()[0])
        if target.scheme == "http" and is_reachable(peer, ()):
            raise Unavailable(
                f"{target.host} would get the trail in the clear.",
                code="address_not_allowed",
                hint="Use https://.",
                retryable=False,
            )
        client = http.client.HTTPConnection(target.host, target.port)
        # Connected and checked already: the client only speaks.
        client.sock = connection
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "Covenant",
            "Connection": "close",
            "webhook-id": message_id,
            "webhook-timestamp": str(int(now.timestamp())),
            "webhook-signature": Webhook(secret).sign(message_id, now, body.decode()),
        }
        try:
            client.request("POST", target.path, body=body, headers=headers)
            answer = client.getresponse()
            answer.read(MOST_ANSWER_BYTES)
        except (OSError, http.client.HTTPException) as error:
            raise unreachable(target, f"it did not answer ({error})") from error
    if not 200 <= answer.status < 300:
        told = "a redirect, which is not followed" if 300 <= answer.status < 400 else answer.reason
        raise Unavailable(
            f"{target.host} answered {answer.status} ({told}).",
            code="webhook_refused",
            hint="It has to answer 2xx once it has kept what it got.",
        )
