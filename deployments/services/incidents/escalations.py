"""Down the rollback levels by itself and back: carries out what the escalation rule decides.

The rule is asked each second by the traffic control. What it decided is written together with its
progress under the endpoint's lock, and only while both are as they were when it was asked: running
twice, or a person who was quicker, does no harm.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import datetime

from django.db import transaction

from console import live
from console.actors import Actor
from console.errors import CovenantError
from console.services import audit
from deployments.models import (
    Endpoint,
    EndpointMode,
    Incident,
    IncidentSeverity,
    RollbackPolicy,
    SplitCause,
    TrafficSplit,
)
from deployments.rules.incidents import escalation
from deployments.rules.incidents.beginnings import Beginning
from deployments.rules.incidents.escalation_state import (
    Act,
    Decision,
    Health,
    Phase,
    Progress,
    progress_json,
    read_progress,
)
from deployments.rules.incidents.severity import FALLBACK, OPEN, OTHER_VERSION, severity_of
from deployments.rules.traffic import splits
from deployments.selectors.incidents.escalation_health import (
    WatchedEndpoint,
    in_full,
    watched_endpoints,
)
from deployments.services.fleet.smoke_tests import answers_rightly
from deployments.services.incidents import records as incidents
from deployments.services.incidents import redeploys
from deployments.services.incidents.rollback_policies import locked_policy
from deployments.services.traffic.rollback_splits import SYSTEM, write_rollback
from deployments.services.traffic.splits import locked_endpoint, wanted_of, write_split

TITLES = {
    "error_rate": "{version} fails",
    "latency": "{version} is too slow",
    "no_node": "No node that can be reached has {version}",
    "fallback_fails": "The fallback fails",
    "refused": "A gateway refused what was to help",
    "asked_in_vain": "{version} does not answer rightly",
    "stopped": "It cannot be helped by itself",
}
MODES = {FALLBACK: EndpointMode.FALLBACK, OPEN: EndpointMode.OPEN}
WRITES = (Act.MOVE, Act.PROBE, Act.RETURN)

log = logging.getLogger(__name__)


class EndpointWatch:
    """`watch_endpoints` for a process that runs it again and again.

    What is seen while it has only begun moves nothing.
    """

    def __init__(self) -> None:
        self._beginning = Beginning()

    def __call__(self, now: datetime) -> list[Decision]:
        return watch_endpoints(now, starting=self._beginning.lasts(now))


def watch_endpoints(now: datetime, *, starting: bool = False) -> list[Decision]:
    """Look at every endpoint that acts by itself; gives what was decided and done.

    While `starting`, nothing moves.
    """
    done = []
    for watched in watched_endpoints(now, starting=starting):
        if not _needs_thought(watched, now):
            continue
        try:
            decision = act_on(watched, now)
        except CovenantError:
            log.exception("%s could not be helped", watched.endpoint)
            continue
        if decision is not None:
            done.append(decision)
    return done


def _needs_thought(watched: WatchedEndpoint, now: datetime) -> bool:
    """Whether the cheap part of what is known leaves anything to decide."""
    progress = watched.progress
    decision = escalation.decide(watched.policy, progress, watched.health, now)
    if progress.phase not in (Phase.WATCHING, Phase.HANDED_OVER, Phase.STOPPED):
        return True
    return decision.act is not Act.STAY or _differs(decision.progress, progress)


def act_on(watched: WatchedEndpoint, now: datetime) -> Decision | None:
    """Decide with all that can be known, and write it; None when there was nothing to write."""
    endpoint, progress = watched.endpoint, watched.progress
    health = in_full(watched)
    decision = escalation.decide(watched.policy, progress, health, now)
    while decision.act is Act.ASK:
        # Outside of any transaction: nodes are asked over the network.
        asked = {version: answers_rightly(endpoint, version) for version in decision.versions}
        health = replace(health, asked={**health.asked, **asked})
        decision = escalation.decide(watched.policy, progress, health, now)
    if decision.act is Act.STAY and not _differs(decision.progress, progress):
        return None
    with transaction.atomic():
        return _write(watched, health, decision, now)


def _write(
    watched: WatchedEndpoint, health: Health, decision: Decision, now: datetime
) -> Decision | None:
    actor = Actor.system(SYSTEM)
    endpoint = locked_endpoint(
        watched.endpoint.environment.name, watched.endpoint.model.name, actor, "split.change"
    )
    row = locked_policy(endpoint, actor)
    current = endpoint.current
    stored = read_progress(row.progress.get("rule", {}))
    if not row.automatic or stored != watched.progress:
        return None
    if current is None or current.revision != health.revision:
        return None
    progress = decision.progress
    incident: Incident | None = None
    if decision.act in WRITES:
        split = _split(endpoint, decision, actor)
        progress = replace(progress, revision=split.revision)
        incident = _tell_of_move(endpoint, health, decision, split, now, actor)
        if decision.redeploy is not None:
            redeploys.start_by_itself(
                endpoint, decision.redeploy, split=split, incident=incident, at=now, actor=actor
            )
    else:
        _tell(endpoint, decision, now, actor)
    _store(row, progress)
    live.publish(f"endpoint:{endpoint}", "rollback_policy.changed", {"phase": progress.phase.value})
    return decision


def _split(endpoint: Endpoint, decision: Decision, actor: Actor) -> TrafficSplit:
    reason = decision.message
    if decision.act is Act.MOVE and decision.level == OTHER_VERSION:
        return write_rollback(
            endpoint,
            decision.versions[0],
            reason=reason,
            actor=actor,
            cause=SplitCause.AUTOMATIC,
        )
    wanted = replace(wanted_of(endpoint.current), probe=decision.probe)
    if decision.versions:
        wanted = replace(wanted, weights={decision.versions[0]: splits.WHOLE})
    if decision.act is Act.MOVE:
        wanted = replace(wanted, mode=MODES[decision.level])
    elif decision.act is Act.RETURN:
        wanted = replace(wanted, mode=EndpointMode.NORMAL)
    actions = {
        Act.MOVE: "endpoint.escalate",
        Act.PROBE: "endpoint.probe",
        Act.RETURN: "endpoint.return",
    }
    return write_split(
        endpoint,
        wanted,
        cause=SplitCause.AUTOMATIC,
        reason=reason,
        actor=actor,
        action=actions[decision.act],
    )


def _tell_of_move(
    endpoint: Endpoint,
    health: Health,
    decision: Decision,
    split: TrafficSplit,
    now: datetime,
    actor: Actor,
) -> Incident:
    """The incident of a move, with the move as its newest line."""
    incident = incidents.unresolved_incident(endpoint)
    if decision.act is Act.MOVE or incident is None:
        bad = next((v for v in decision.progress.left if v in health.carriers), None)
        incident = incidents.open_incident(
            endpoint=endpoint,
            cause=decision.cause,
            title=_title(decision.cause, bad),
            severity=IncidentSeverity.P1 if decision.call else severity_of(decision.level),
            at=now,
            actor=actor,
            version=bad,
            level=decision.level,
            message=_numbers(health, bad),
        )
    incidents.add_event(
        incident=incident,
        kind={Act.MOVE: "moved", Act.PROBE: "probe", Act.RETURN: "returned"}[decision.act],
        at=now,
        actor=actor,
        level=decision.level,
        split=split,
        message=decision.message,
        data={"cause": decision.cause, "probe": decision.probe},
    )
    return incident


def _tell(endpoint: Endpoint, decision: Decision, now: datetime, actor: Actor) -> None:
    """What is no move: the end, a hand-over, giving up, a version that answers wrongly."""
    incident = incidents.unresolved_incident(endpoint)
    if decision.act is Act.STOP:
        incident = incidents.open_incident(
            endpoint=endpoint,
            cause=decision.cause,
            title=_title("stopped", None),
            severity=IncidentSeverity.P1,
            at=now,
            actor=actor,
            level=decision.level,
            message=decision.message,
        )
    if incident is None or not decision.message:
        return
    if decision.act is Act.END:
        incidents.end_incident(incident=incident, at=now, actor=actor, message=decision.message)
        return
    incidents.add_event(
        incident=incident,
        kind=decision.act.value if decision.act is not Act.STAY else decision.cause,
        at=now,
        actor=actor,
        message=decision.message,
    )
    if decision.act in (Act.STOP, Act.HAND_OVER):
        audit.record(
            actor=actor,
            action=f"endpoint.{decision.act.value}",
            subject=str(endpoint),
            subject_url=f"/incidents/{incident.pk}/",
            reason=decision.message,
            after={"cause": decision.cause, "level": decision.progress.level},
        )


def _store(row: RollbackPolicy, progress: Progress) -> None:
    row.refresh_from_db(fields=["progress"])
    row.progress = {**row.progress, "rule": progress_json(progress)}
    row.save(update_fields=["progress"])


def _differs(one: Progress, other: Progress) -> bool:
    """Whether there is more to remember than that old moves are forgotten."""
    return replace(one, moves=()) != replace(other, moves=())


def _title(cause: str, version: int | None) -> str:
    named = f"v{version}" if version is not None else "It"
    return TITLES.get(cause, "{version} is unhealthy").format(version=named)


def _numbers(health: Health, version: int | None) -> str:
    """What was measured of the version that is left, in words."""
    numbers = health.versions.get(version) if version is not None else None
    if numbers is None or not numbers.requests:
        return ""
    share = 100 * numbers.provider_faults / numbers.requests
    p99 = "" if numbers.p99_ms is None else f", P99 {numbers.p99_ms:.0f} ms"
    return f"{numbers.provider_faults} of {numbers.requests} requests failed ({share:.0f} %){p99}."
