"""Text messages through whatever gateway takes a POST: the body is a form that is filled in."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from urllib.parse import quote_plus

from console.adapters.http_post import post
from console.rules.outgoing import WEBHOOK_SCHEMES, parse_target
from deployments.adapters.alert_channels.places import (
    Place,
    refuse_status,
    told,
    without_secrets,
)
from deployments.rules.alerts.letters import Letter, shortened

MOST_TEXT = 300
"""Two or three messages of 160 characters; longer ones are cut by some gateways in silence."""
JSON, FORM = "application/json", "application/x-www-form-urlencoded"


def send(place: Place, letter: Letter, *, now: datetime) -> str:
    """Post the message to one number (`letter.data["to"]`). Raises Unavailable."""
    options = place.options
    kind = str(options.get("content_type") or JSON)
    headers = {"Content-Type": f"{kind}; charset=utf-8" if kind == JSON else kind}
    if place.secret:
        headers[str(options.get("header") or "Authorization")] = place.secret
    answer = post(
        parse_target(place.address, WEBHOOK_SCHEMES),
        filled(
            str(options.get("form") or ""), kind, {"to": letter.data["to"], "text": text(letter)}
        ).encode(),
        headers=headers,
        allowed=place.allowed,
    )
    answer = without_secrets(place, answer)
    refuse_status(answer, "The gateway", "Try its form and its key by hand, and change them here.")
    return told(answer)


def text(letter: Letter) -> str:
    """The letter in one short line; the address is what is kept when it is too long."""
    room = MOST_TEXT - len(letter.url) - 1
    return f"{shortened(letter.headline, max(60, room))} {letter.url}"


def filled(form: str, kind: str, values: Mapping[str, str]) -> str:
    """The form with {to} and {text} filled in, escaped as its kind asks for."""
    for name, value in values.items():
        # A JSON string without its quotes: the form has them.
        inner = json.dumps(value)[1:-1] if kind == JSON else quote_plus(value)
        form = form.replace("{" + name + "}", inner)
    return form
