"""A webhook of one's own: a JSON document, signed by the Standard Webhooks specification."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from console.adapters import webhook
from console.rules.outgoing import WEBHOOK_SCHEMES, parse_target
from deployments.adapters.alert_channels.places import Place, told, without_secrets
from deployments.rules.alerts.letters import Letter


def send(place: Place, letter: Letter, *, now: datetime) -> str:
    """Post the letter; `webhook-id` is the same when it is sent again. Raises Unavailable."""
    answer = webhook.send(
        parse_target(place.address, WEBHOOK_SCHEMES),
        json.dumps(body(letter), ensure_ascii=False).encode(),
        message_id=letter.id,
        secret=place.secret,
        now=now,
        allowed=place.allowed,
    )
    return told(without_secrets(place, answer))


def body(letter: Letter) -> dict[str, Any]:
    """Type, time and data, as the specification recommends."""
    return {
        "type": f"alert.{letter.why}",
        "timestamp": letter.at.astimezone(UTC).isoformat(),
        "data": {
            "id": letter.id,
            "thread": letter.thread,
            "severity": letter.severity,
            "headline": letter.headline,
            "text": letter.text,
            "subject": letter.subject,
            "url": letter.url,
            "facts": [{"label": label, "value": value} for label, value in letter.facts],
            "others": list(letter.others),
            **letter.data,
        },
    }
