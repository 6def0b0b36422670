"""Rollback, level 1: all traffic to the last good version at once, then a job that watches it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection
from typing import Any

import httpx
from django.db import transaction

from console.actors import Actor, require
from console.errors import Conflict, Unavailable
from console.services.job_runs import JobRun
from deployments.adapters.gateway import Registration
from deployments.adapters.observing import observe, observes
from deployments.models import (
    Endpoint,
    Gateway,
    Incident,
    SplitCause,
    SplitState,
    TrafficSplit,
)
from deployments.rules.gateways.snapshots import ClusterKey, ClusterKind
from deployments.rules.incidents.severity import OTHER_VERSION, level_of_mode, severity_of
from deployments.rules.traffic import splits
from deployments.selectors.fleet.readiness import ready_versions
from deployments.selectors.gateways.registered import registration_of
from deployments.selectors.incidents.rollback_choice import (
    RollbackChoice,
    is_rolled_back,
    rollback_choice,
    versions_before,
)
from deployments.selectors.traffic.acknowledgements import GatewayWord, gateway_words
from deployments.services.incidents.records import (
    add_event,
    end_incident,
    open_incident,
    unresolved_incident,
)
from deployments.services.incidents.redeploys import (
    answer_meanwhile,
    deploy_again,
    version_to_deploy,
)
from deployments.services.traffic.rollback_splits import all_traffic_on, write_rollback
from deployments.services.traffic.splits import Wanted, locked_endpoint, need_reason, wanted_of

ACKNOWLEDGED_WITHIN_S = 20.0
QUIET_WITHIN_S = 15.0
LOOK_EVERY_S = 1.2


def roll_back(
    *, environment: str, model: str, reason: str, to: int | None = None, actor: Actor
) -> TrafficSplit:
    """Send all traffic to `to`, or to the last good version by itself, and supervise it by a job.

    The flip is written at once. An endpoint that answered with its fallback or not at all returns
    to normal mode. Where no earlier version is ready, or `to` is not, the version is deployed
    again: its fallback answers meanwhile (level 2; without one the circuit is open), and the
    traffic goes there by itself. A rollout that is under way ends. Rolling back twice is one
    rollback: to go further back, name the version.

    Raises Conflict `no_good_version` (with level 2 as the way out) or `not_ready`, NotFound, and
    what a deploy raises where one is needed.
    """
    require(actor, "endpoint.rollback")
    need_reason(reason)
    with transaction.atomic():
        endpoint = locked_endpoint(environment, model, actor, "endpoint.rollback")
        current = endpoint.current
        if current is not None and to is None and is_rolled_back(current):
            return current
        ready = ready_versions(endpoint)
        choice = rollback_choice(endpoint, ready) if to is None else RollbackChoice(to)
        if choice.target is None or choice.target not in ready:
            return _roll_back_to_what_is_gone(endpoint, choice, ready, reason, actor)
        target, now = choice.target, wanted_of(current)
        if current is not None and _same(now, all_traffic_on(now, target)):
            return current
        split = write_rollback(
            endpoint, target, reason=reason, actor=actor, cause=SplitCause.ROLLBACK
        )
        _open_incident(endpoint, split, target, reason, actor)
    return split


def supervise_rollback(run: JobRun) -> dict[str, Any]:
    """Watch a rollback take effect: acknowledged by every gateway, no requests on what was left.

    Gives the milliseconds to the last acknowledgement. Fails, retried, while a gateway is silent.
    """
    split = TrafficSplit.objects.select_related("endpoint__model", "endpoint__environment").get(
        pk=run.job.arguments["split"]
    )
    run.progress(0.1, "Waiting for the gateways")
    words = _until_acknowledged(run, split)
    took = max((w.took_ms or 0.0 for w in words if w.outcome == "applied"), default=0.0)
    run.log(f"All traffic is on v{run.job.arguments['to']} after {took:.0f} ms.")
    with run.transaction():
        _end_incident(split, run.actor)
    run.progress(0.6, "Watching that nobody is left behind")
    still = _until_quiet(run, split, run.job.arguments["left"])
    if still:
        run.log(
            f"{still} requests still reached what was left within {LOOK_EVERY_S:g} s: callers that "
            "name the version in the path.",
            level="warning",
        )
    return {
        "revision": split.revision,
        "to": run.job.arguments["to"],
        "left": run.job.arguments["left"],
        "milliseconds_to_effect": took,
        "requests_still_on_left": still,
        "gateways": [word.to_json() for word in words],
    }


def _roll_back_to_what_is_gone(
    endpoint: Endpoint, choice: RollbackChoice, ready: Collection[int], reason: str, actor: Actor
) -> TrafficSplit:
    """Deploy the version again while level 2 (or 3) answers; the caller holds the lock."""
    numbers = [choice.target] if choice.target is not None else versions_before(endpoint)
    carrying = {v for v, points in wanted_of(endpoint.current).weights.items() if points}
    release = version_to_deploy(endpoint, [v for v in numbers if v not in {*ready, *carrying}])
    if release is None:
        if choice.target is not None:
            splits.check_ready({choice.target: splits.WHOLE}, ready)
        raise Conflict(
            choice.why_not,
            code="no_good_version",
            hint="Switch the endpoint to fallback (level 2), or deploy the earlier version again.",
        )
    split = answer_meanwhile(endpoint, cause=SplitCause.ROLLBACK, reason=reason, actor=actor)
    incident = _open_incident(endpoint, split, release.version.number, reason, actor)
    deploy_again(
        endpoint,
        release,
        split=split,
        incident=incident,
        by_hand=True,
        at=split.created_at,
        actor=actor,
    )
    return split


def _open_incident(
    endpoint: Endpoint, split: TrafficSplit, target: int, reason: str, actor: Actor
) -> Incident:
    """A rollback by hand is a disturbance too, which the person who does it sees to."""
    level = level_of_mode(split.mode) or OTHER_VERSION
    incident = open_incident(
        endpoint=endpoint,
        cause="by_hand",
        title=f"Rolled back to v{target}",
        severity=severity_of(level),
        at=split.created_at,
        actor=actor,
        level=level,
        message=reason,
    )
    add_event(
        incident=incident,
        kind="moved",
        at=split.created_at,
        actor=actor,
        level=level,
        split=split,
        message=reason,
    )
    return incident


def _end_incident(split: TrafficSplit, actor: Actor) -> None:
    """Every gateway acts on a rollback by hand: callers are well. One by itself is watched on."""
    incident = unresolved_incident(split.endpoint)
    if split.applied_at is None or split.cause != SplitCause.ROLLBACK or incident is None:
        return
    if incident.events.filter(split=split).exists():
        end_incident(
            incident=incident,
            at=split.applied_at,
            actor=actor,
            message="Every gateway acts on the rollback.",
        )


def _same(now: Wanted, wanted: Wanted) -> bool:
    carrying = {version: points for version, points in now.weights.items() if points}
    return (now.mode, carrying, now.header_rules) == (
        wanted.mode,
        wanted.weights,
        wanted.header_rules,
    )


def _until_acknowledged(run: JobRun, split: TrafficSplit) -> list[GatewayWord]:
    deadline = time.monotonic() + ACKNOWLEDGED_WITHIN_S
    while True:
        run.check()
        split.refresh_from_db(fields=["state", "applied_at"])
        words = gateway_words(split)
        if split.applied_at is not None:
            return words
        if split.state == SplitState.SUPERSEDED:
            run.log("A newer split has replaced this one.", level="warning")
            return words
        if split.state == SplitState.REFUSED:
            raise Conflict(
                "The gateway refused the rollback; the earlier split still serves.",
                code="refused_by_gateway",
                hint="Switch the endpoint to fallback (level 2) and look at the gateway's words.",
            )
        if time.monotonic() >= deadline:
            silent = [w.gateway for w in words if w.outcome != "applied"]
            raise Unavailable(
                f"Not acknowledged within {ACKNOWLEDGED_WITHIN_S:g} s by: "
                f"{', '.join(silent) or 'any gateway'}.",
                code="not_acknowledged",
                hint="Check that the gateway control and the gateways run.",
            )
        time.sleep(0.1)


def _until_quiet(run: JobRun, split: TrafficSplit, left: list[int]) -> int:
    """Requests that the left versions still got in the last look; 0 as soon as there are none."""
    if not left:
        return 0
    endpoint = split.endpoint
    names = [
        ClusterKey(endpoint.environment.name, endpoint.model.name, kind, number).name
        for number in left
        for kind in (ClusterKind.VERSION, ClusterKind.RETRIED)
    ]
    listening = [
        registration_of(gateway)
        for gateway in Gateway.objects.filter(
            connected=True, listeners__environment_id=endpoint.environment_id
        )
    ]
    watched = [gateway for gateway in listening if observes(gateway.product)]
    for gateway in listening:
        if gateway not in watched:
            run.log(
                f"The gateway {gateway.name} does not say who got what, so nobody watched there.",
                level="warning",
            )
    deadline = time.monotonic() + QUIET_WITHIN_S
    before = asyncio.run(_answered(watched, names))
    while True:
        run.check()
        time.sleep(LOOK_EVERY_S)
        after = asyncio.run(_answered(watched, names))
        grown = max(after - before, 0)
        if grown == 0 or time.monotonic() >= deadline:
            return grown
        before = after


async def _answered(gateways: list[Registration], clusters: list[str]) -> int:
    """How many answers these clusters have given on all gateways that can be reached."""
    count = 0
    async with httpx.AsyncClient(timeout=2.0) as client:
        for gateway in gateways:
            try:
                sample = await observe(client, gateway)
            except Unavailable:
                continue
            count += sum(
                sample.clusters[cluster].counters.get("total", 0)
                for cluster in clusters
                if cluster in sample.clusters
            )
    return count
