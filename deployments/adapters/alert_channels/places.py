"""What every kind of channel is given, and how an answer that refuses is told."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlsplit

from console.adapters.http_post import Answer, post
from console.errors import Unavailable
from console.rules.outgoing import WEBHOOK_SCHEMES, Network, parse_target

ANSWER_SHOWN = 300
SHORTEST_SECRET = 8
"""What is shorter may be a word that any answer has in it."""
_COME_BACK = frozenset({408, 425, 429})


@dataclass(frozen=True, slots=True)
class Place:
    """A channel in clear text: its address, its secret, and what only its kind has.

    `allowed` are networks inside that a setting allows to be connected to.
    """

    address: str
    secret: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    allowed: tuple[Network, ...] = ()


def post_json(place: Place, body: Mapping[str, Any], *, address: str = "") -> Answer:
    """POST a JSON document to the place (or to `address`). Raises Unavailable, Invalid."""
    answer = post(
        parse_target(address or place.address, WEBHOOK_SCHEMES),
        json.dumps(body, ensure_ascii=False).encode(),
        headers={"Content-Type": "application/json; charset=utf-8"},
        allowed=place.allowed,
    )
    return without_secrets(place, answer)


def without_secrets(place: Place, answer: Answer) -> Answer:
    """The answer without the key and the address, should the peer have repeated them: what it
    says is kept, and shown to whoever looks at the log."""
    parts = urlsplit(place.address)
    body = answer.body
    for secret in (place.secret, place.address, parts.path, parts.query):
        if len(secret) >= SHORTEST_SECRET:
            body = body.replace(secret.encode(), "…".encode())
    return replace(answer, body=body)


def refuse_status(answer: Answer, name: str, hint: str) -> None:
    """Raise Unavailable unless the answer is a 2xx; what will not change is not to be retried."""
    if answer.is_success:
        return
    again = answer.status >= 500 or answer.status in _COME_BACK
    raise Unavailable(
        f"{name} answered {answer.status}: {said(answer) or answer.reason}",
        code="channel_busy" if again else "channel_refused",
        hint="It is tried again by itself." if again else hint,
        retryable=again,
    )


def refuse_code(
    answer: Answer, name: str, *, hints: Mapping[int, str], busy: frozenset[int]
) -> None:
    """Raise Unavailable when a chat room says 200 and refuses in the body, by a number of its own.

    Both Feishu (`code`, older robots `StatusCode`) and DingTalk (`errcode`) do. `busy` are the
    numbers that mean "come back later".
    """
    found = content(answer)
    number = next((found[key] for key in ("errcode", "code", "StatusCode") if key in found), None)
    if number == 0:
        return
    again = number in busy
    raise Unavailable(
        f"{name} refused it: {said(answer) or 'an answer without a word'}",
        code="channel_busy" if again else "channel_refused",
        hint=(
            "It is tried again by itself."
            if again
            else hints.get(number or 0, f"Look up the number in the documentation of {name}.")
        ),
        retryable=again,
    )


def content(answer: Answer) -> dict[str, Any]:
    """The answer's JSON object, empty when it is none."""
    try:
        found = json.loads(answer.body)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def said(answer: Answer) -> str:
    """The beginning of what the peer said, in one line."""
    return " ".join(answer.body.decode("utf-8", "replace").split())[:ANSWER_SHOWN]


def told(answer: Answer) -> str:
    """Status and words of an answer, for the log of deliveries."""
    return f"{answer.status} {said(answer)}".strip()
