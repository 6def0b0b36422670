"""Feishu's (Lark's) custom robots: a card, signed where the robot asks for it.

https://open.feishu.cn/document/client-docs/bot-v3/add-custom-bot: the key of the signature is
"timestamp\\nsecret" and its message is empty; the time is in seconds and good for an hour.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from datetime import datetime
from typing import Any

from deployments.adapters.alert_channels.places import (
    Place,
    post_json,
    refuse_code,
    refuse_status,
    told,
)
from deployments.rules.alerts.letters import Letter, shortened

MOST_TEXT = 4000
COLOURS = {"P1": "red", "P2": "orange", "P3": "blue"}
BUSY = frozenset({11232, 9499, 230020})
HINTS = {
    19001: "The address is not that of a robot any more: make a new one and change it.",
    19021: "The secret is not the robot's, or a clock is wrong by more than an hour.",
    19022: "The robot takes messages only from addresses on its list: put this server's there.",
    19024: "The robot takes only messages with its keyword: make the keyword “Covenant”.",
}


def send(place: Place, letter: Letter, *, now: datetime) -> str:
    """Post the letter as a card; gives what Feishu said. Raises Unavailable."""
    document = body(letter)
    if place.secret:
        document |= signature(place.secret, now)
    answer = post_json(place, document)
    refuse_status(answer, "Feishu", "Make a new robot in the group and change the address.")
    refuse_code(answer, "Feishu", hints=HINTS, busy=BUSY)
    return told(answer)


def signature(secret: str, now: datetime) -> dict[str, str]:
    """The two fields by which a robot with a secret knows who sends."""
    timestamp = str(int(now.timestamp()))
    digest = hmac.new(f"{timestamp}\n{secret}".encode(), b"", hashlib.sha256).digest()
    return {"timestamp": timestamp, "sign": base64.b64encode(digest).decode()}


def body(letter: Letter) -> dict[str, Any]:
    """The letter as a card; texts are plain, so that no name calls anybody."""
    lines = "\n".join(
        line for line in (letter.text, *(f"• {other}" for other in letter.others)) if line
    )
    elements: list[dict[str, Any]] = []
    if lines:
        elements.append({"tag": "div", "text": _plain(shortened(lines, MOST_TEXT))})
    if letter.facts:
        fields = [
            {"is_short": len(value) <= 24, "text": _plain(f"{label}\n{value}")}
            for label, value in letter.facts
        ]
        elements.append({"tag": "div", "fields": fields})
    button = {"tag": "button", "text": _plain(letter.link_words), "type": "primary"}
    elements.append({"tag": "action", "actions": [{**button, "url": letter.url}]})
    elements.append({"tag": "note", "elements": [_plain("Covenant")]})
    colour = "green" if letter.is_over else COLOURS.get(letter.severity, "grey")
    return {
        "msg_type": "interactive",
        "card": {
            "config": {"wide_screen_mode": True},
            "header": {"title": _plain(letter.headline), "template": colour},
            "elements": elements,
        },
    }


def _plain(text: str) -> dict[str, str]:
    return {"tag": "plain_text", "content": text}
