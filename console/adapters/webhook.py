"""Sending to a webhook, signed by the Standard Webhooks specification (standardwebhooks.com)."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from standardwebhooks import Webhook

from console.adapters.http_post import Answer, post
from console.errors import Unavailable
from console.rules.outgoing import Network, Target


def send(
    target: Target,
    body: bytes,
    *,
    message_id: str,
    secret: str,
    now: datetime,
    allowed: Iterable[Network],
) -> Answer:
    """POST the body; a 2xx answer is the acknowledgement, and anything else Unavailable.

    `message_id` is the same when the same body is sent again, so that receivers can tell.
    """
    headers = {
        "Content-Type": "application/json",
        "webhook-id": message_id,
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": Webhook(secret).sign(message_id, now, body.decode()),
    }
    answer = post(target, body, headers=headers, allowed=allowed)
    if not answer.is_success:
        redirect = 300 <= answer.status < 400
        told = "a redirect, which is not followed" if redirect else answer.reason
        raise Unavailable(
            f"{target.host} answered {answer.status} ({told}).",
            code="webhook_refused",
            hint="It has to answer 2xx once it has kept what it got.",
        )
    return answer
