"""Rollback, level 1: all traffic to the last good version at once, then a job that watches it."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import httpx
from django.db import transaction

from console.actors import Actor, require
from console.errors import Conflict, Unavailable
from console.services import jobs
from console.services.job_runs import JobRun
from deployments.adapters.envoy import stats as envoy_stats
from deployments.models import (
    Endpoint,
    EndpointMode,
    Gateway,
    SplitCause,
    SplitState,
    TrafficSplit,
)
from deployments.rules import splits
from deployments.rules.snapshots import ClusterKey, ClusterKind
from deployments.selectors.acknowledgements import GatewayWord, gateway_words
from deployments.selectors.readiness import ready_versions
from deployments.selectors.rollback_choice import is_rolled_back, rollback_choice
from deployments.services.traffic import (
    Wanted,
    locked_endpoint,
    need_reason,
    wanted_of,
    write_split,
)

ACKNOWLEDGED_WITHIN_S = 20.0
QUIET_WITHIN_S = 15.0
LOOK_EVERY_S = 1.2


def roll_back(
    *, environment: str, model: str, reason: str, to: int | None = None, actor: Actor
) -> TrafficSplit:
    """Send all traffic to `to`, or to the last good version by itself, and supervise it by a job.

    The flip is written at once. An endpoint that answered with its fallback or not at all returns
    to normal mode. Rolling back twice is one rollback: to go further back, name the version.

    Raises Conflict `no_good_version` (with level 2 as the way out) or `not_ready`, NotFound.
    """
    require(actor, "endpoint.rollback")
    need_reason(reason)
    with transaction.atomic():
        endpoint = locked_endpoint(environment, model, actor, "endpoint.rollback")
        current = endpoint.current
        if current is not None and to is None and is_rolled_back(current):
            return current
        ready = ready_versions(endpoint)
        target = _target(endpoint, ready) if to is None else to
        splits.check_ready({target: splits.WHOLE}, ready)
        now = wanted_of(current)
        # Rules and mirrors that lead elsewhere would keep callers on the version to get away from.
        rules = [rule for rule in now.header_rules if int(rule["version"]) == target]
        mirror = now.mirror if now.mirror and int(now.mirror["version"]) == target else None
        wanted = Wanted(
            EndpointMode.NORMAL, {target: splits.WHOLE}, now.sticky_header, rules, mirror
        )
        if current is not None and _same(now, wanted):
            return current
        split = write_split(
            endpoint,
            wanted,
            cause=SplitCause.ROLLBACK,
            reason=reason,
            actor=actor,
            action="endpoint.rollback",
        )
        left = sorted(v for v, points in now.weights.items() if points and v != target)
        split.job = jobs.enqueue(
            kind="rollback",
            subject=str(endpoint),
            subject_url=f"/endpoints/{endpoint}/",
            arguments={"split": split.pk, "to": target, "left": left},
            idempotency_key=f"rollback:{split.pk}",
            actor=actor,
        )
        split.save(update_fields=["job"])
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


def _target(endpoint: Endpoint, ready: dict[int, list[str]]) -> int:
    choice = rollback_choice(endpoint, ready)
    if choice.target is None:
        raise Conflict(
            choice.why_not,
            code="no_good_version",
            hint="Switch the endpoint to fallback (level 2), or deploy the earlier version again.",
        )
    return choice.target


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
        ClusterKey(endpoint.environment.name, endpoint.model.name, ClusterKind.VERSION, number).name
        for number in left
    ]
    urls = dict(
        Gateway.objects.filter(
            connected=True, listeners__environment_id=endpoint.environment_id
        ).values_list("name", "admin_url")
    )
    deadline = time.monotonic() + QUIET_WITHIN_S
    before = asyncio.run(_answered(urls, names))
    while True:
        run.check()
        time.sleep(LOOK_EVERY_S)
        after = asyncio.run(_answered(urls, names))
        grown = max(after - before, 0)
        if grown == 0 or time.monotonic() >= deadline:
            return grown
        before = after


async def _answered(urls: dict[str, str], clusters: list[str]) -> int:
    """How many answers these clusters have given on all gateways that can be reached."""
    count = 0
    async with httpx.AsyncClient(timeout=2.0) as client:
        for name, url in urls.items():
            try:
                sample = await envoy_stats.scrape(client, url, gateway=name)
            except Unavailable:
                continue
            count += sum(
                sample.clusters[cluster].counters.get("total", 0)
                for cluster in clusters
                if cluster in sample.clusters
            )
    return count
