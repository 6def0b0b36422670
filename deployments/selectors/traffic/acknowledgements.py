"""What each gateway said of a split."""

from __future__ import annotations

from dataclasses import dataclass

from deployments.models import Gateway, TrafficSplit


@dataclass(frozen=True, slots=True)
class GatewayWord:
    """One gateway's answer: applied, refused, pending (connected) or absent (not connected).

    `took_ms` is the time from the split's writing to the gateway's word.
    """

    gateway: str
    connected: bool
    outcome: str
    took_ms: float | None = None
    reason: str = ""

    def to_json(self) -> dict[str, object]:
        """As the API and the slider read it."""
        return {
            "gateway": self.gateway,
            "outcome": self.outcome,
            "took_ms": self.took_ms,
            "reason": self.reason,
        }


def gateway_words(split: TrafficSplit) -> list[GatewayWord]:
    """Every gateway of the split's environment with what it said; two queries."""
    acks = {ack.gateway_id: ack for ack in split.acks.all()}
    gateways = Gateway.objects.filter(
        listeners__environment_id=split.endpoint.environment_id
    ).order_by("name")
    words: list[GatewayWord] = []
    for gateway in gateways:
        ack = acks.get(gateway.pk)
        if ack is None:
            outcome = "pending" if gateway.connected else "absent"
            words.append(GatewayWord(gateway.name, gateway.connected, outcome))
            continue
        took = (ack.at - split.created_at).total_seconds() * 1000
        outcome = "applied" if ack.applied else "refused"
        words.append(
            GatewayWord(gateway.name, gateway.connected, outcome, round(took, 1), ack.detail)
        )
    return words
