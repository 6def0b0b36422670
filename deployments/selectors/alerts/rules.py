"""Alert rules as lists and pages show them."""

from __future__ import annotations

from django.db.models import Count, Q, QuerySet

from console.errors import NotFound
from console.models import User
from deployments.models import AlertRule, AlertState, Endpoint, MeasuredSeries

MOST_NAMES = 300


def rule_list(*, user: User) -> QuerySet[AlertRule]:
    """Every rule that exists for the person, with how many of its alerts fire (one query)."""
    firing = Count("alerts", filter=Q(alerts__state=AlertState.FIRING))
    return (
        AlertRule.objects.visible_to(user)
        .select_related("environment", "model", "node", "changed_by")
        .annotate(firing=firing)
        .order_by("name", "pk")
    )


def find_rule(name: str, *, user: User) -> AlertRule:
    """One rule (one query). Raises NotFound, also for what is not to be seen."""
    found = rule_list(user=user).filter(name=name).first()
    if found is None:
        raise NotFound(f"There is no alert rule {name}.", hint="Look at the list of rules.")
    return found


def series_names(*, user: User) -> list[str]:
    """Names of series that were ever measured of what the person may see (one query)."""
    rows = MeasuredSeries.objects.filter(of_what_is_seen(user)).order_by("name")
    names = rows.values_list("name", flat=True).distinct()
    return list(names[:MOST_NAMES])


def of_what_is_seen(user: User) -> Q:
    """The series of what the person may see, as a condition (no query of its own)."""
    return Q(endpoint__isnull=True) | Q(endpoint__in=Endpoint.objects.visible_to(user))
