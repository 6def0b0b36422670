"""PagerDuty's Events API v2: what fires triggers, what is over resolves, by one `dedup_key`.

https://developer.pagerduty.com/docs/events-api-v2/trigger-events/ (PD-CEF fields); 202 is the
acknowledgement, 429 and 5xx are to be tried again, other 4xx are not.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from deployments.adapters.alert_channels.places import Place, post_json, refuse_status, told
from deployments.rules.alerts.letters import Letter, shortened

EVENTS = "https://events.pagerduty.com/v2/enqueue"
"""Of the US service region; a channel of the EU region has https://events.eu.pagerduty.com/…"""
MOST_SUMMARY, MOST_KEY = 1024, 255
SEVERITIES = {"P1": "critical", "P2": "error", "P3": "warning"}


def send(place: Place, letter: Letter, *, now: datetime) -> str:
    """Send the event; gives what PagerDuty said. Raises Unavailable."""
    answer = post_json(place, body(letter, routing_key=place.secret))
    refuse_status(
        answer,
        "PagerDuty",
        "Look whether the integration key is that of an Events API v2 integration.",
    )
    return told(answer)


def body(letter: Letter, *, routing_key: str) -> dict[str, Any]:
    """The event: what was triggered by a thread is resolved by the same thread."""
    event: dict[str, Any] = {
        "routing_key": routing_key,
        "event_action": "resolve" if letter.is_over else "trigger",
        "dedup_key": letter.thread[:MOST_KEY],
    }
    if letter.is_over:
        return event
    data = letter.data
    return event | {
        "payload": {
            "summary": shortened(letter.headline, MOST_SUMMARY),
            "source": letter.subject or "covenant",
            "severity": SEVERITIES.get(letter.severity, "info"),
            "timestamp": letter.at.astimezone(UTC).isoformat(),
            "component": str(data.get("model") or data.get("node") or "covenant"),
            "group": str(data.get("environment") or ""),
            "class": str(data.get("rule") or letter.why),
            "custom_details": {**dict(letter.facts), "others": list(letter.others)},
        },
        "links": [{"href": letter.url, "text": letter.link_words}],
        "client": "Covenant",
        "client_url": letter.url,
    }
