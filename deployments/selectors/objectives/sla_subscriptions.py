"""A person's own reports, and the links that show a promise."""

from __future__ import annotations

from django.db.models import Prefetch, QuerySet

from console.errors import NotFound
from console.models import User
from deployments.models import Endpoint, SlaReport, SlaShare, SlaSubscription

MOST_SHARES = 100


def subscriptions_of(user: User) -> list[SlaSubscription]:
    """The person's own reports with what was sent last (`newest`), oldest first; two queries."""
    rows: list[SlaSubscription] = list(
        _subscriptions(user).prefetch_related(
            Prefetch(
                "reports",
                SlaReport.objects.filter(sent_at__isnull=False).order_by("-month"),
                to_attr="sent",
            )
        )
    )
    for row in rows:
        sent = row.sent  # type: ignore[attr-defined]
        row.newest = sent[0] if sent else None  # type: ignore[attr-defined]
    return rows


def find_subscription(subscription_id: int, *, user: User) -> SlaSubscription:
    """One of the person's own. Raises NotFound, in the same words for somebody else's."""
    found = _subscriptions(user).filter(pk=subscription_id).first()
    if found is None:
        raise NotFound("You have no such report.", hint="See SLA → Reports by mail.")
    return found


def shares_of(endpoint: Endpoint) -> QuerySet[SlaShare]:
    """The links of a promise, newest first, a hundred at most."""
    rows = endpoint.sla_shares.select_related("created_by", "revoked_by")
    return rows.order_by("-created_at", "-pk")[:MOST_SHARES]


def scope_words(subscription: SlaSubscription) -> str:
    """What a report is about, as the audit trail and jobs say it."""
    if subscription.endpoint is not None:
        return str(subscription.endpoint)
    parts = [f"team {subscription.team.slug}"] if subscription.team else []
    parts += [subscription.environment.name] if subscription.environment else []
    return f"all promises of {', '.join(parts)}" if parts else "all promises"


def _subscriptions(user: User) -> QuerySet[SlaSubscription]:
    return (
        SlaSubscription.objects.filter(person=user)
        .select_related("person", "endpoint__model", "endpoint__environment", "team", "environment")
        .order_by("pk")
    )
