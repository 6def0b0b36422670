"""DingTalk's custom robots: Markdown, signed in the address where the robot asks for it.

https://open.dingtalk.com/document/robots/custom-robot-access: the secret is the key of the
signature, "timestamp\\nsecret" its message; the time is in milliseconds and good for an hour.
A robot that gets more than 20 messages a minute is silenced for ten minutes.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from deployments.adapters.alert_channels.places import (
    Place,
    post_json,
    refuse_code,
    refuse_status,
    told,
)
from deployments.rules.alerts.letters import Letter, shortened

MOST_TEXT = 5000
BUSY = frozenset({-1, 130101, 410100})
HINTS = {
    310000: (
        "The secret is not the robot's, its keyword is missing (make it “Covenant”), or this "
        "server's address is not on its list."
    ),
    300001: "The access token in the address is not a robot's any more: change the address.",
    400013: "The group was dissolved: make a robot in another one.",
    400101: "The access token in the address is not a robot's any more: change the address.",
    400102: "The robot is switched off in the group.",
    400106: "The robot is not in the group any more: make a new one and change the address.",
}
_MARKUP = re.compile(r"([\\`*_{}\[\]<>#|!])")


def send(place: Place, letter: Letter, *, now: datetime) -> str:
    """Post the letter; gives what DingTalk said. Raises Unavailable."""
    address = place.address
    if place.secret:
        mark = "&" if "?" in address else "?"
        address += mark + urlencode(signature(place.secret, now))
    answer = post_json(place, body(letter), address=address)
    refuse_status(answer, "DingTalk", "Make a new robot in the group and change the address.")
    refuse_code(answer, "DingTalk", hints=HINTS, busy=BUSY)
    return told(answer)


def signature(secret: str, now: datetime) -> dict[str, str]:
    """The two parameters by which a robot with a secret knows who sends."""
    timestamp = str(int(now.timestamp() * 1000))
    digest = hmac.new(secret.encode(), f"{timestamp}\n{secret}".encode(), hashlib.sha256).digest()
    return {"timestamp": timestamp, "sign": base64.b64encode(digest).decode()}


def body(letter: Letter) -> dict[str, Any]:
    """The letter as Markdown; an empty line between paragraphs is what DingTalk breaks at."""
    parts = [f"### {escaped(letter.headline)}"]
    if letter.text:
        parts.append(escaped(letter.text))
    parts += [f"- **{escaped(label)}** {escaped(value)}" for label, value in letter.facts]
    parts += [f"- {escaped(line)}" for line in letter.others]
    link = f"[{escaped(letter.link_words)}]({letter.url})\n\nCovenant"
    text = shortened("\n\n".join(parts), MOST_TEXT)
    return {
        "msgtype": "markdown",
        "markdown": {"title": letter.headline, "text": f"{text}\n\n{link}"},
        "at": {"isAtAll": False},
    }


def escaped(text: str) -> str:
    """The text with what Markdown would take for markup escaped."""
    return _MARKUP.sub(r"\\\1", text.replace("\n", " "))
