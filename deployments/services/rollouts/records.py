"""What is written down of a rollout: events, analyses with every measurement, notices."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from console import live
from console.actors import Actor
from console.models import Severity, User
from console.services import notices
from deployments.models import AnalysisPhase, AnalysisRun, Measurement, Rollout, RolloutEvent
from deployments.models.traffic import TrafficSplit
from deployments.rules.rollouts.analysis import Judged, Phase, Run
from deployments.rules.rollouts.looks import BACKGROUND, INLINE
from deployments.rules.rollouts.progress import Progress, progress_json
from models_registry.models import Seat, SeatHolder

COLUMNS = (
    "progress", "state", "cause", "message", "revision", "changed_at", "next_look_at", "ended_at",
)  # fmt: skip
TOPIC = "rollouts"
"""Live topic of the list of rollouts; its events name nothing."""


@dataclass(frozen=True, slots=True)
class Step:
    """One rollout's change from one state of the rule to the next, with what was judged."""

    rollout: Rollout
    before: Progress
    after: Progress
    judged: tuple[tuple[str, Judged], ...] = ()


def put(rollout: Rollout, progress: Progress, next_look: datetime, now: datetime) -> None:
    """Set the columns by the rule's state; saves nothing."""
    rollout.progress = {**rollout.progress, **progress_json(progress)}
    rollout.state, rollout.cause = progress.state, progress.cause
    rollout.message = progress.message
    rollout.next_look_at, rollout.changed_at = next_look, now
    if not progress.is_active and rollout.ended_at is None:
        rollout.ended_at = now


def add_event(
    rollout: Rollout,
    kind: str,
    *,
    at: datetime,
    actor: Actor | None = None,
    step: int | None = None,
    split: TrafficSplit | None = None,
    message: str = "",
) -> RolloutEvent:
    """A line of the rollout's timeline."""
    return RolloutEvent.objects.create(
        rollout=rollout,
        at=at,
        kind=kind,
        step=step,
        split=split,
        actor=actor.user if actor else None,
        message=message,
    )


def record_analyses(steps: Iterable[Step], now: datetime) -> int:
    """Write what analyses began, came to or measured; gives how many measurements.

    Three queries at most, however many rollouts: their open runs, those that are new, and the
    measurements; and one for each run that came to its end.
    """
    changed = [one for one in steps if _runs_differ(one) or one.judged]
    if not changed:
        return 0
    open_runs = _open_runs([one.rollout.pk for one in changed])
    fresh: list[AnalysisRun] = []
    for one in changed:
        for scope, step, run in _runs(one.after, one.before):
            slot = (one.rollout.pk, step)
            row = open_runs.get(slot)
            began = _began(one.before, scope) != run.started_at
            if row is None or (began and row.started_at != run.started_at):
                row = AnalysisRun(rollout=one.rollout, step=step, started_at=run.started_at)
                open_runs[slot] = row
                fresh.append(row)
        slot = (one.rollout.pk, _step_of(one, INLINE))
        if slot not in open_runs and any(scope == INLINE for scope, _ in one.judged):
            open_runs[slot] = _at_once(one, now)
            fresh.append(open_runs[slot])
    AnalysisRun.objects.bulk_create(fresh)
    _close(changed, open_runs, now)
    rows = [
        _measurement(open_runs[one.rollout.pk, _step_of(one, scope)], judged, now)
        for one in changed
        for scope, judged in one.judged
    ]
    Measurement.objects.bulk_create(rows)
    return len(rows)


def end_runs(rollout: Rollout, now: datetime) -> None:
    """Analyses that were under way as the rollout ended found nothing against it."""
    rollout.analyses.filter(ended_at__isnull=True).update(
        phase=AnalysisPhase.SUCCESSFUL, ended_at=now
    )


def announce(rollout: Rollout, judged: Collection[Judged] = ()) -> None:
    """Tell viewers of the rollout, of its endpoint and of the list."""
    endpoint = str(rollout.endpoint)
    data: dict[str, Any] = {
        "rollout": str(rollout.pk),
        "endpoint": endpoint,
        "version": rollout.version,
        "state": rollout.state,
        "cause": rollout.cause,
        "step": rollout.progress["step"],
        "weight": rollout.progress["weight"] / 100,
        "measured": [{"metric": one.metric, "phase": one.phase.value} for one in judged],
    }
    live.publish(f"rollout:{endpoint}", "rollout.changed", data)
    live.publish(f"endpoint:{endpoint}", "rollout.changed", data)
    live.publish(TOPIC, "rollout.changed")


def tell_people(rollout: Rollout, kind: str, severity: str = Severity.WARNING) -> None:
    """Tell who started it and the model's SRE that it stands still or was taken back."""
    notices.notify(
        people=people_of(rollout),
        kind=kind,
        key=_notice_key(rollout, kind),
        subject=str(rollout.endpoint),
        subject_url=f"/rollouts/{rollout.pk}/",
        severity=severity,
        data={"version": rollout.version, "why": rollout.message},
    )


def end_notices(rollout: Rollout) -> None:
    """It goes on or has ended: nobody needs to see to its pause any more."""
    notices.end(key=_notice_key(rollout, "rollout.paused"))


def people_of(rollout: Rollout) -> list[User]:
    """Who started it, and who sits in the SRE seat of the model."""
    seats = SeatHolder.objects.filter(model=rollout.endpoint.model_id, seat=Seat.SRE)
    sre = [seat.user for seat in seats.select_related("user")]
    return [rollout.started_by, *sre]


def _notice_key(rollout: Rollout, kind: str) -> str:
    return f"{kind}:{rollout.pk}"


def _runs(after: Progress, before: Progress) -> list[tuple[str, int | None, Run]]:
    """The analyses that are under way after a move, or were before it."""
    found: list[tuple[str, int | None, Run]] = []
    if after.background is not None:
        found.append((BACKGROUND, None, after.background))
    if after.inline is not None:
        found.append((INLINE, after.step, after.inline))
    elif before.inline is not None:
        found.append((INLINE, before.step, before.inline))
    return found


def _runs_differ(step: Step) -> bool:
    before, after = step.before, step.after
    return any(
        _key(getattr(before, scope)) != _key(getattr(after, scope))
        for scope in (BACKGROUND, INLINE)
    )


def _key(run: Run | None) -> tuple[datetime, Phase] | None:
    return (run.started_at, run.phase) if run else None


def _began(progress: Progress, scope: str) -> datetime | None:
    run = progress.background if scope == BACKGROUND else progress.inline
    return run.started_at if run else None


def _step_of(step: Step, scope: str) -> int | None:
    if scope == BACKGROUND:
        return None
    return step.after.step if step.after.inline is not None else step.before.step


def _at_once(step: Step, now: datetime) -> AnalysisRun:
    """A step's analysis that began, was measured and came to its end within one look."""
    failed = any(one.phase is Phase.FAILED for scope, one in step.judged if scope == INLINE)
    phase = AnalysisPhase.FAILED if failed else AnalysisPhase.SUCCESSFUL
    return AnalysisRun(
        rollout=step.rollout,
        step=_step_of(step, INLINE),
        started_at=now,
        ended_at=now,
        phase=phase,
    )


def _open_runs(ids: Collection[uuid.UUID]) -> dict[tuple[uuid.UUID, int | None], AnalysisRun]:
    rows = AnalysisRun.objects.filter(rollout_id__in=ids, ended_at__isnull=True).order_by("pk")
    return {(row.rollout_id, row.step): row for row in rows}


def _close(
    changed: Iterable[Step],
    runs: Mapping[tuple[uuid.UUID, int | None], AnalysisRun],
    now: datetime,
) -> None:
    """Give the runs that came to their end their phase."""
    for one in changed:
        for _, step, run in _runs(one.after, one.before):
            row = runs.get((one.rollout.pk, step))
            over = run.phase is not Phase.RUNNING or (
                step is not None and one.after.inline is None and one.after.step != step
            )
            if row is None or row.ended_at is not None or not over:
                continue
            phase = Phase.SUCCESSFUL if run.phase is Phase.RUNNING else run.phase
            row.phase, row.message, row.ended_at = phase.value, run.message, now
            row.save(update_fields=["phase", "message", "ended_at"])


def _measurement(run: AnalysisRun, judged: Judged, now: datetime) -> Measurement:
    found = judged.found
    return Measurement(
        analysis=run,
        metric=judged.metric,
        at=now,
        value=found.value,
        baseline_value=found.baseline,
        requests=found.requests,
        limit=judged.limit[:200],
        phase=judged.phase.value,
        dry_run=judged.dry_run,
        message=judged.message,
    )
