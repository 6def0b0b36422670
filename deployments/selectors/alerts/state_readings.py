"""States as numbers that rules can compare: what is lost, unverified, unacknowledged, silent."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from datetime import datetime

from django.db.models import Max

from deployments.models import (
    CounterCursor,
    Endpoint,
    Gateway,
    GatewayListener,
    Placement,
    PlacementState,
    SplitState,
)
from deployments.rules.alerts.catalogue import BURN_SEVERITIES, Reading, Readings, Target
from deployments.rules.alerts.questions import Question
from deployments.selectors.alerts.things import Things
from deployments.selectors.fleet.memory_growth import leaks
from deployments.selectors.objectives.burns import burns

DAY_S = 86_400.0


def state_readings(
    questions: Collection[Question], things: Things, now: datetime
) -> dict[Question, Readings]:
    """What each state question is answered; at most one query for each."""
    return {one: _STATES[one.signal.key](things, now) for one in questions}


def burn_readings(
    questions: Collection[Question], things: Things, now: datetime
) -> dict[Question, Readings]:
    """How fast error budgets burn: the slower of both windows, against the factor of the policy.

    A burn that rests on too few bad requests is not measured.
    """
    rows = burns(now)
    found: dict[Question, Readings] = {}
    for question in questions:
        severity = BURN_SEVERITIES[question.signal.key]
        here: dict[Target, Reading] = {}
        for row in rows:
            if row.severity != severity or row.long_rate is None or row.short_rate is None:
                continue
            rate = min(row.long_rate, row.short_rate)
            if rate >= row.factor and not row.firing:
                continue
            target = Target(endpoint=row.endpoint_id, label=row.objective)
            here[target] = Reading(
                rate,
                row.factor,
                {
                    "long_s": row.long_s,
                    "short_s": row.short_s,
                    "long_rate": round(row.long_rate, 3),
                    "short_rate": round(row.short_rate, 3),
                    "valid": row.valid,
                    "bad": round(row.bad, 1),
                },
            )
        found[question] = {t: one for t, one in here.items() if things.exists(t)}
    return found


def leak_readings(
    questions: Collection[Question], things: Things, now: datetime
) -> dict[Question, Readings]:
    """How fast each GPU's memory grows; 0 where it does not only grow."""
    found: dict[Target, Reading] = {}
    for leak in leaks(now):
        target = Target(node=leak.node_id, device=leak.device)
        if things.exists(target):
            found[target] = Reading(leak.growth.bytes_per_hour)
    return dict.fromkeys(questions, found)


def _nodes_lost(things: Things, now: datetime) -> Readings:
    return {Target(node=key): Reading(float(one.lost)) for key, one in things.nodes.items()}


def _artifact_faults(things: Things, now: datetime) -> Readings:
    """Files on nodes that are not what was signed, by the newest verification of each."""
    by_names = {(one.environment, one.model): one.key for one in things.endpoints.values()}
    rows = Placement.objects.filter(
        state=PlacementState.READY, deployment__removed_at__isnull=True, verified_at__isnull=False
    ).values_list(
        "node_id",
        "deployment__release__environment_id",
        "deployment__release__version__model_id",
        "deployment__release__version__number",
        "verification_faults",
    )
    found = {}
    for node, environment, model, version, faults in rows:
        target = Target(by_names.get((environment, model)), node, version=version)
        codes = ", ".join(sorted({str(one.get("code", "")) for one in faults}))
        found[target] = Reading(float(len(faults)), facts={"codes": codes} if codes else {})
    return found


def _splits_unacknowledged(things: Things, now: datetime) -> Readings:
    """How long an endpoint's newest split waits for its gateways."""
    rows = Endpoint.objects.filter(
        current__state=SplitState.PENDING, current__applied_at__isnull=True
    ).values_list("pk", "current__created_at", "current__revision")
    found = {key: Reading(0.0) for key in things.endpoints}
    for key, since, revision in rows:
        found[key] = Reading(max((now - since).total_seconds(), 0.0), facts={"revision": revision})
    return {Target(endpoint=key): one for key, one in found.items() if key in things.endpoints}


def _gateways_away(things: Things, now: datetime) -> Readings:
    rows = Gateway.objects.filter(connected_at__isnull=False).values_list("name", "connected")
    return {Target(label=name): Reading(float(not connected)) for name, connected in rows}


def _certificate_days(things: Things, now: datetime) -> Readings:
    rows = (
        GatewayListener.objects.exclude(certificate_file="")
        .filter(certificate_not_after__isnull=False)
        .values_list("gateway__name", "environment__name", "certificate_not_after")
    )
    return {
        Target(label=f"{gateway} {environment}"): Reading((until - now).total_seconds() / DAY_S)
        for gateway, environment, until in rows
        if until is not None
    }


def _collector_silent(things: Things, now: datetime) -> Readings:
    """Since when nothing of any gateway was booked; nothing where no gateway ever was read."""
    newest = CounterCursor.objects.filter(source__startswith="gateway:").aggregate(
        at=Max("read_at")
    )["at"]
    if newest is None or not things.endpoints:
        return {}
    return {Target(): Reading(max((now - newest).total_seconds(), 0.0))}


_STATES: Mapping[str, Callable[[Things, datetime], Readings]] = {
    "node_lost": _nodes_lost,
    "artifact_faults": _artifact_faults,
    "split_unacknowledged_seconds": _splits_unacknowledged,
    "gateway_away": _gateways_away,
    "certificate_days_left": _certificate_days,
    "collector_silent_seconds": _collector_silent,
}
