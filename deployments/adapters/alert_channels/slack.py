"""Slack's incoming webhooks, and what takes the same form (Mattermost, Rocket.Chat).

Fields of https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks and of its
attachments, which the others know as well; blocks they do not.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from deployments.adapters.alert_channels.places import Place, post_json, refuse_status, told
from deployments.rules.alerts.letters import Letter, shortened

MOST_TEXT = 3000
COLOURS = {"P1": "#c0392b", "P2": "#d68910", "P3": "#2e86c1"}
OVER = "#1e8449"


def send(place: Place, letter: Letter, *, now: datetime) -> str:
    """Post the letter; gives what Slack said. Raises Unavailable."""
    answer = post_json(place, body(letter))
    refuse_status(
        answer,
        "Slack",
        "The webhook was removed or its room archived: make a new one and change the address.",
    )
    return told(answer)


def body(letter: Letter) -> dict[str, Any]:
    """The letter as an incoming webhook takes it."""
    lines = [escaped(letter.text), *(f"• {escaped(line)}" for line in letter.others)]
    return {
        "text": escaped(letter.headline),
        "attachments": [
            {
                "fallback": escaped(letter.headline),
                "color": OVER if letter.is_over else COLOURS.get(letter.severity, "#7f8c8d"),
                "title": escaped(letter.link_words),
                "title_link": letter.url,
                "text": shortened("\n".join(line for line in lines if line), MOST_TEXT),
                "fields": [
                    {"title": escaped(label), "value": escaped(value), "short": len(value) <= 40}
                    for label, value in letter.facts
                ],
                "footer": "Covenant",
                "ts": int(letter.at.timestamp()),
            }
        ],
    }


def escaped(text: str) -> str:
    """Slack's three control characters, so that no name becomes a link or calls everybody."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
