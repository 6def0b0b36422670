"""Moves rollouts along: looks at those that are due, asks the rule, and writes what it decides.

What was decided is written only while the rollout, and for a move of traffic the split as well,
are as they were when the rule was asked: a tick that runs twice, another process or a person who
was quicker do no harm. Everything is in rows, so a restart goes on where the last one stopped.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from django.db import transaction

from console.actors import Actor
from console.errors import CovenantError
from console.models import Severity
from console.services import audit
from deployments.models import (
    ACTIVE_ROLLOUTS,
    Endpoint,
    EndpointMode,
    Rollout,
    SplitCause,
    TrafficSplit,
)
from deployments.rules.incidents.beginnings import Beginning
from deployments.rules.rollouts.decide import decide
from deployments.rules.rollouts.looks import Act, Decision
from deployments.rules.rollouts.progress import Cause, read_progress
from deployments.rules.rollouts.steering import after_a_stop
from deployments.selectors.rollouts.looks import (
    Moment,
    Seen,
    due,
    expected_weights,
    moment,
    plans_of,
)
from deployments.services.gateways.desired import wake_gateways
from deployments.services.rollouts import records
from deployments.services.rollouts.incidents import open_for
from deployments.services.rollouts.measurements import Queries, measure
from deployments.services.traffic.splits import locked_endpoint, wanted_of, write_split

SOURCE = "traffic control"
"""Where what a rollout does by itself comes from, in the audit trail."""
QUIET = frozenset({Act.WAIT, Act.NEXT_STEP})
"""Acts that touch nothing but the rollout's own row: many are written together."""
EVENTS = {
    Act.SET_WEIGHT: "weight",
    Act.PAUSE: "paused",
    Act.PROMOTE: "promoted",
    Act.ROLL_BACK: "rolled_back",
    Act.ABORT: "aborted",
    Act.HOLD: "held",
    Act.RELEASE: "released",
}

log = logging.getLogger(__name__)
queries = Queries()


@dataclass(frozen=True, slots=True)
class Report:
    """What one tick did."""

    looked: int = 0
    moved: int = 0
    measured: int = 0


class RolloutWatch:
    """`tick` for a process that runs it again and again.

    While it has only begun, no rollout moves; then each goes on from its step, measured from there.
    """

    def __init__(self) -> None:
        self._beginning = Beginning()
        self._begun = False

    def __call__(self, now: datetime) -> Report:
        if self._beginning.lasts(now):
            self._begun = True
            return Report()
        if self._begun:
            go_on_after_a_stop(now)
            self._begun = False
        return tick(now)


def go_on_after_a_stop(now: datetime) -> None:
    """Have every rollout under way measured from now on."""
    with transaction.atomic():
        rows = list(
            Rollout.objects.select_for_update(of=("self",))
            .filter(state__in=ACTIVE_ROLLOUTS, created_at__lt=now)
            .order_by("pk")
        )
        plans = plans_of(rows)
        rows = [row for row in rows if row.pk in plans]
        for row in rows:
            stored = read_progress(
                row.progress, state=row.state, cause=row.cause, message=row.message
            )
            records.put(row, after_a_stop(plans[row.pk], stored, now), now, now)
        Rollout.objects.bulk_update(rows, records.COLUMNS)


def tick(now: datetime, *, asked: Queries = queries) -> Report:
    """Look at every rollout that is due and move it along; may run twice for one moment."""
    return _work(moment(due(now), now), asked)


def reconcile(rollout_id: uuid.UUID, now: datetime, *, asked: Queries = queries) -> Report:
    """Look at one rollout now, whether it is due or not; may run twice."""
    return _work(moment(Rollout.objects.filter(pk=rollout_id), now), asked)


def _work(at: Moment, asked: Queries) -> Report:
    quiet: list[tuple[Seen, Decision]] = []
    moved = measured = 0
    for seen in at.seen:
        look = replace(seen.look, found=measure(at, seen, asked)) if seen.asks else seen.look
        decision = decide(seen.plan, seen.progress, look, at.now)
        if decision.action.act in QUIET:
            if decision.progress != seen.progress or _later(seen, decision, at.now):
                quiet.append((seen, decision))
            continue
        try:
            moved += _move(seen, decision, at.now)
        except CovenantError:
            log.exception("the rollout of %s could not be moved", seen.key)
            continue
        measured += len(decision.judged)
    done = _write_quiet(quiet, at.now)
    return Report(len(at.seen), moved + done.moved, measured + done.measured)


def _later(seen: Seen, decision: Decision, now: datetime) -> bool:
    """Whether it need not be looked at with the next tick: worth a write."""
    return seen.rollout.next_look_at <= now and (decision.next_look - now).total_seconds() > 2.0


def _write_quiet(quiet: Iterable[tuple[Seen, Decision]], now: datetime) -> Report:
    """Write what changed in the rollouts' rows alone, together; one that somebody holds waits."""
    pairs = {seen.rollout.pk: (seen, decision) for seen, decision in quiet}
    if not pairs:
        return Report()
    steps = []
    with transaction.atomic():
        locked = (
            Rollout.objects.select_for_update(of=("self",), skip_locked=True)
            .filter(pk__in=pairs)
            .defer("plan", "reason")
            .order_by("pk")
        )
        for row in locked:
            seen, decision = pairs[row.pk]
            if not _unchanged(row, seen):
                continue
            row.endpoint = seen.rollout.endpoint
            records.put(row, decision.progress, decision.next_look, now)
            step = records.Step(row, seen.progress, decision.progress, decision.judged)
            steps.append(step)
        Rollout.objects.bulk_update([one.rollout for one in steps], records.COLUMNS)
        measured = records.record_analyses(steps, now)
        for one in steps:
            if one.judged or one.after.step != one.before.step:
                records.announce(one.rollout, [judged for _, judged in one.judged])
    moved = sum(one.after.step != one.before.step for one in steps)
    return Report(0, moved, measured)


def _move(seen: Seen, decision: Decision, now: datetime) -> bool:
    """Write one move with all that belongs to it; False when something has changed meanwhile."""
    actor = Actor.system(SOURCE)
    endpoint = seen.rollout.endpoint
    with transaction.atomic():
        # The endpoint first, as everybody does who moves traffic: no two wait for each other.
        locked = locked_endpoint(endpoint.environment.name, endpoint.model.name, actor, "read")
        row = Rollout.objects.select_for_update(of=("self",)).get(pk=seen.rollout.pk)
        if not _unchanged(row, seen) or _revision(locked) != seen.found_at:
            return False
        row.endpoint = locked
        split = None
        if decision.action.points is not None:
            split = _write_weights(row, locked, decision, actor)
        records.put(row, decision.progress, decision.next_look, now)
        if split is not None:
            row.revision = split.revision
        row.save(update_fields=records.COLUMNS)
        step = records.Step(row, seen.progress, decision.progress, decision.judged)
        records.record_analyses([step], now)
        _tell(row, decision, split, actor, now)
    return True


def _write_weights(
    row: Rollout, endpoint: Endpoint, decision: Decision, actor: Actor
) -> TrafficSplit:
    action = decision.action
    wanted = replace(
        wanted_of(endpoint.current), weights=expected_weights(row, action.points or 0), probe=0
    )
    reason = f"Rollout of v{row.version}: step {decision.progress.step + 1}."
    if action.act is not Act.SET_WEIGHT:
        # Who was led there by a rule is to get away from it, too.
        rules = [one for one in wanted.header_rules if int(one["version"]) != row.version]
        wanted = replace(wanted, header_rules=rules, mode=EndpointMode.NORMAL)
        reason = f"Rollout of v{row.version} ended. {action.message}".strip()
    return write_split(
        endpoint,
        wanted,
        cause=SplitCause.ROLLOUT,
        reason=reason[:2000],
        actor=actor,
        action=f"rollout.{action.act.value}",
    )


def _tell(
    row: Rollout, decision: Decision, split: TrafficSplit | None, actor: Actor, now: datetime
) -> None:
    """Events, audit trail, notices, incident and viewers of one move."""
    action = decision.action
    records.add_event(
        row,
        EVENTS[action.act],
        at=now,
        actor=actor,
        step=min(decision.progress.step, row.progress["steps"] - 1),
        split=split,
        message=action.message,
    )
    if split is None and action.act not in (Act.HOLD, Act.RELEASE):
        record_act(row, f"rollout.{action.act.value}", actor, reason=action.message)
    if action.act is Act.PAUSE:
        records.tell_people(row, "rollout.paused")
    if not decision.progress.is_active:
        finish(row, now)
    if action.act is Act.ROLL_BACK:
        records.tell_people(row, "rollout.failed", Severity.CRITICAL)
        open_for(row, action.cause, action.message, split=split, actor=actor, now=now)
    elif action.act is Act.ABORT and action.cause == Cause.ANALYSIS_ERROR:
        records.tell_people(row, "rollout.failed")
    records.announce(row, [judged for _, judged in decision.judged])


def finish(row: Rollout, now: datetime) -> None:
    """What an ended rollout leaves: closed analyses and notices, and gateways that stop watching.

    Sampling of answers and retries onto the baseline are on only while a rollout is under way.
    """
    records.end_runs(row, now)
    records.end_notices(row)
    wake_gateways()


def record_act(row: Rollout, action: str, actor: Actor, *, reason: str = "") -> None:
    """The audit entry of an act on a rollout."""
    audit.record(
        actor=actor,
        action=action,
        subject=f"{row.endpoint} rollout of v{row.version}",
        subject_url=f"/rollouts/{row.pk}/",
        reason=reason,
        after={
            "state": row.state,
            "cause": row.cause,
            "step": row.progress["step"],
            "weight": row.progress["weight"] / 100,
            "version": row.version,
            "baseline": row.baseline,
        },
    )


def _unchanged(row: Rollout, seen: Seen) -> bool:
    stored = read_progress(row.progress, state=row.state, cause=row.cause, message=row.message)
    return stored == seen.progress and row.revision == seen.rollout.revision


def _revision(endpoint: Endpoint) -> int:
    return endpoint.current.revision if endpoint.current else 0
