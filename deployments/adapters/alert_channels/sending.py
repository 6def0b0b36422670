"""One door to every kind of channel that is reached over HTTP."""

from __future__ import annotations

from datetime import datetime
from typing import Final, Protocol

from deployments.adapters.alert_channels import dingtalk, feishu, pagerduty, slack, sms, webhooks
from deployments.adapters.alert_channels.places import Place
from deployments.rules.alerts.letters import Letter


class Sender(Protocol):
    """Sends one letter and gives what the receiver said; raises Unavailable or Invalid."""

    def __call__(self, place: Place, letter: Letter, *, now: datetime) -> str: ...


SENDERS: Final[dict[str, Sender]] = {
    "webhook": webhooks.send,
    "slack": slack.send,
    "feishu": feishu.send,
    "dingtalk": dingtalk.send,
    "pagerduty": pagerduty.send,
    "sms": sms.send,
}
