"""Rollouts by a person's hand: started, paused, let go on, skipped ahead, promoted, aborted."""

from __future__ import annotations

import uuid
from dataclasses import replace
from datetime import datetime
from typing import Any

from django.db import transaction
from django.utils import timezone

from console.actors import Actor, require
from console.errors import Conflict, NotFound
from console.services import audit
from deployments.models import (
    ACTIVE_ROLLOUTS,
    Endpoint,
    EndpointMode,
    Rollout,
    SplitCause,
    TrafficSplit,
)
from deployments.rules.gateways.capabilities import Capability
from deployments.rules.rollouts import steering
from deployments.rules.rollouts.plan import parse_plan, plan_json
from deployments.rules.rollouts.progress import Progress, progress_json, read_progress
from deployments.rules.rollouts.types import Plan
from deployments.rules.states import RolloutState
from deployments.rules.traffic import splits
from deployments.selectors.fleet.readiness import ready_versions
from deployments.selectors.gateways.capabilities import check_capability
from deployments.selectors.rollouts.looks import expected_weights, plans_of
from deployments.selectors.traffic.routing import contracts_that_hold
from deployments.services.gateways.desired import wake_gateways
from deployments.services.rollouts import records
from deployments.services.rollouts.engine import finish, reconcile, record_act
from deployments.services.traffic.splits import locked_endpoint, need_reason, wanted_of, write_split
from models_registry.rules import freezes
from models_registry.selectors.release_policies import windows_of

_ENDED = {
    RolloutState.PROMOTED: "was promoted",
    RolloutState.ABORTED: "was aborted",
    RolloutState.ROLLED_BACK: "was rolled back",
}


def start_rollout(
    *,
    environment: str,
    model: str,
    version: int,
    reason: str,
    actor: Actor,
    plan: object = None,
    baseline: int | None = None,
) -> Rollout:
    """Begin to give a version traffic, step by step; its first step is taken at once.

    `plan` is a document (see docs/rollouts.md); what it leaves out comes from the contract that
    holds. The baseline is the version with most traffic unless one is named. Asking twice for the
    same is one rollout.

    Raises Invalid (plan, reason), Conflict `rollout_active`, `not_ready`, `no_baseline`,
    `already_serving`, `mode_not_normal` or `frozen`, NotFound, NotAllowed.
    """
    require(actor, "rollout.start")
    need_reason(reason)
    now = timezone.now()
    with transaction.atomic():
        endpoint = locked_endpoint(environment, model, actor, "rollout.start")
        contract = contracts_that_hold([endpoint.model_id]).get(endpoint.model_id)
        wanted = parse_plan({} if plan is None else plan, contract.rollout if contract else None)
        document = plan_json(wanted)
        # What is stored is what is read at each look: it has to say the same.
        parse_plan(document)
        active = _active(endpoint)
        if active is not None:
            if active.version == version and active.plan == document:
                return active
            raise Conflict(
                f"v{active.version} of {endpoint} is being rolled out already.",
                code="rollout_active",
                hint="Abort it first, or wait until it has ended.",
            )
        check_capability(environment, Capability.WEIGHTS, Capability.VERSION_STATISTICS)
        old, others = _checked(endpoint, version, baseline, now)
        rollout = _create(endpoint, version, old, others, document, wanted, reason, actor, now)
    reconcile(rollout.pk, timezone.now())
    rollout.refresh_from_db()
    return rollout


def pause_rollout(*, rollout_id: uuid.UUID, reason: str = "", actor: Actor) -> Rollout:
    """No step begins until it is resumed; what has traffic keeps it and is watched on. Twice is
    once. Raises Conflict `rollout_ended`, NotFound, NotAllowed."""
    with transaction.atomic():
        row, progress = _locked(rollout_id, actor)
        if progress.state is RolloutState.PAUSED:
            return row
        after = steering.paused(progress, reason.strip()[:2000])
        _write(row, progress, after, "paused", actor, reason)
    return row


def resume_rollout(
    *, rollout_id: uuid.UUID, reason: str = "", step: int | None = None, actor: Actor
) -> Rollout:
    """Let a paused rollout go on; a pause until approved is thereby approved. Twice is once.

    What was inconclusive is measured anew, and where the traffic was moved the share of the
    present step is set again. `step` is the one that was looked at, from 1. Raises Conflict
    `rollout_ended`, `step_over` or `mode_not_normal`, NotFound, NotAllowed.
    """
    with transaction.atomic():
        row, progress = _locked(rollout_id, actor)
        plan = _plan(row)
        if progress.state is not RolloutState.PAUSED:
            return row
        _need_step(row, progress, step)
        current = row.endpoint.current
        if current is None or current.mode != EndpointMode.NORMAL:
            raise _not_normal(row.endpoint)
        weights = {int(number): points for number, points in current.weights.items()}
        if current.revision != row.revision:
            row.revision = current.revision
            others = _others(weights, row.version) or {row.baseline: splits.WHOLE}
            row.progress = {**row.progress, "others": _stored(others)}
        weight = weights.get(row.version, 0)
        after = steering.resumed(plan, progress, timezone.now(), weight=weight)
        _write(row, progress, after, "resumed", actor, reason)
        records.end_notices(row)
    return row


def skip_step(
    *, rollout_id: uuid.UUID, reason: str = "", step: int | None = None, actor: Actor
) -> Rollout:
    """End the step under way, whatever it waits for; a weight that is not set yet is set.

    `step` is the one that was looked at, from 1: who presses twice skips one. Raises Conflict
    `rollout_ended`, `step_over` or `mode_not_normal`, NotFound, NotAllowed.
    """
    with transaction.atomic():
        row, progress = _locked(rollout_id, actor)
        plan = _plan(row)
        _need_ours(row)
        _need_step(row, progress, step)
        after = steering.skipped(plan, progress, timezone.now())
        _write(row, progress, after, "skipped", actor, reason)
        records.end_notices(row)
    return row


def promote_rollout(*, rollout_id: uuid.UUID, reason: str, actor: Actor) -> Rollout:
    """Give the version all traffic now and end the rollout.

    Raises Invalid without a reason, Conflict `rollout_ended`, `not_ready` or `mode_not_normal`.
    """
    need_reason(reason)
    with transaction.atomic():
        row, progress = _locked(rollout_id, actor)
        if row.endpoint.current is None or row.endpoint.current.mode != EndpointMode.NORMAL:
            raise _not_normal(row.endpoint)
        splits.check_ready({row.version: splits.WHOLE}, ready_versions(row.endpoint))
        split = _move(row, {row.version: splits.WHOLE}, "rollout.promote", reason, actor)
        after = steering.promoted(progress, timezone.now())
        _write(row, progress, after, "promoted", actor, reason, split=split)
    return row


def abort_rollout(*, rollout_id: uuid.UUID, reason: str, actor: Actor) -> Rollout:
    """Take all traffic off the version now and end the rollout; twice is once.

    Where somebody else has moved the traffic meanwhile, it stays as they left it but for the
    version's share. Raises Invalid without a reason, Conflict `rollout_ended`.
    """
    need_reason(reason)
    with transaction.atomic():
        row, progress = _locked(rollout_id, actor, ended_as=RolloutState.ABORTED)
        if not progress.is_active:
            return row
        split = None
        weights = wanted_of(row.endpoint.current).weights
        if weights.get(row.version):
            ours = row.endpoint.current is not None and (
                row.endpoint.current.revision == row.revision
            )
            left = expected_weights(row, 0) if ours else _others(weights, row.version)
            left = left or {row.baseline: splits.WHOLE}
            split = _move(row, left, "rollout.abort", reason, actor)
        after = steering.aborted(progress, timezone.now(), reason.strip())
        _write(row, progress, after, "aborted", actor, reason, split=split)
    return row


def _active(endpoint: Endpoint) -> Rollout | None:
    rows = Rollout.objects.filter(endpoint=endpoint, state__in=ACTIVE_ROLLOUTS)
    return rows.select_related("endpoint__model", "endpoint__environment", "started_by").first()


def _checked(
    endpoint: Endpoint, version: int, baseline: int | None, now: datetime
) -> tuple[int, dict[int, int]]:
    """The baseline and the shares of all others. Raises Conflict where no rollout can begin."""
    current = wanted_of(endpoint.current)
    if current.mode != EndpointMode.NORMAL:
        raise _not_normal(endpoint)
    ready = ready_versions(endpoint)
    splits.check_ready({version: splits.WHOLE}, ready)
    if current.weights.get(version) == splits.WHOLE:
        raise Conflict(
            f"v{version} has all the traffic of {endpoint} already.", code="already_serving"
        )
    others = _others(current.weights, version)
    old = baseline or max(others, key=lambda one: (others[one], one), default=None)
    if old is None or old == version or not others.get(old):
        named = f"Nobody calls v{baseline}, so no version" if baseline else "No other version"
        raise Conflict(
            f"{named} has traffic at {endpoint} to compare v{version} with.",
            code="no_baseline",
            hint="Give a version traffic first, or name one that has some.",
        )
    splits.check_ready({old: splits.WHOLE}, ready)
    frozen = freezes.frozen_at(windows_of(endpoint.environment), now)
    if frozen is not None:
        raise Conflict(
            f"{endpoint.environment.name} is frozen until {freezes.end_words(frozen, now)}: "
            f"{frozen.window.why}.",
            code="frozen",
            hint="Start it when the freeze is over, or have the window lifted.",
        )
    return old, others


def _create(
    endpoint: Endpoint,
    version: int,
    baseline: int,
    others: dict[int, int],
    document: dict[str, Any],
    plan: Plan,
    reason: str,
    actor: Actor,
    now: datetime,
) -> Rollout:
    identity = uuid.uuid4()
    progress = steering.begin(now, spread=(identity.int % 1000) / 1000)
    rollout = Rollout.objects.create(
        id=identity,
        endpoint=endpoint,
        version=version,
        baseline=baseline,
        plan=document,
        progress={
            **progress_json(progress),
            "others": _stored(others),
            "steps": len(plan.steps),
        },
        reason=reason.strip(),
        revision=endpoint.current.revision if endpoint.current else 0,
        started_by=actor.user,
        created_at=now,
        next_look_at=now,
    )
    records.add_event(rollout, "started", at=now, actor=actor, message=rollout.reason)
    audit.record(
        actor=actor,
        action="rollout.start",
        subject=f"{endpoint} rollout of v{version}",
        subject_url=f"/rollouts/{rollout.pk}/",
        reason=rollout.reason,
        after={"version": version, "baseline": baseline, "plan": document},
    )
    # From now on answers are sampled, and what the version fails the baseline answers.
    wake_gateways()
    records.announce(rollout)
    return rollout


def _locked(
    rollout_id: uuid.UUID, actor: Actor, *, ended_as: RolloutState | None = None
) -> tuple[Rollout, Progress]:
    """The rollout and its endpoint, locked, for an act that the actor may do here."""
    require(actor, "rollout.control")
    seen = (
        Rollout.objects.visible_to(actor.user)
        .filter(pk=rollout_id)
        .select_related("endpoint__model", "endpoint__environment")
        .first()
    )
    if seen is None:
        raise NotFound("There is no such rollout.", hint="See the list of rollouts.")
    # The endpoint first, as everybody does who moves traffic.
    endpoint = locked_endpoint(
        seen.endpoint.environment.name, seen.endpoint.model.name, actor, "rollout.control"
    )
    rows = Rollout.objects.select_for_update(of=("self",)).select_related("started_by")
    row = rows.get(pk=rollout_id)
    row.endpoint = endpoint
    progress = read_progress(row.progress, state=row.state, cause=row.cause, message=row.message)
    if not progress.is_active and progress.state is not ended_as:
        raise Conflict(
            f"The rollout of v{row.version} at {endpoint} {_ENDED[progress.state]}.",
            code="rollout_ended",
            hint="Start another one.",
        )
    return row, progress


def _plan(row: Rollout) -> Plan:
    plan = plans_of([row]).get(row.pk)
    if plan is None:
        raise Conflict(
            f"The plan of the rollout of v{row.version} cannot be read.",
            code="plan_unreadable",
            hint="Abort it, or promote the version.",
        )
    return plan


def _write(
    row: Rollout,
    before: Progress,
    after: Progress,
    kind: str,
    actor: Actor,
    reason: str,
    *,
    split: TrafficSplit | None = None,
) -> None:
    """Write what a person's act made of the rollout, with its event, audit entry and viewers."""
    now = timezone.now()
    records.put(row, after, now, now)
    if split is not None:
        row.revision = split.revision
    row.save(update_fields=records.COLUMNS)
    records.record_analyses([records.Step(row, before, after)], now)
    step = min(before.step, row.progress["steps"] - 1)
    records.add_event(
        row, kind, at=now, actor=actor, step=step, split=split, message=reason.strip()
    )
    if not after.is_active:
        finish(row, now)
    if split is None:
        acts = {"paused": "pause", "resumed": "resume", "skipped": "skip", "aborted": "abort"}
        record_act(row, f"rollout.{acts[kind]}", actor, reason=reason.strip())
    records.announce(row)


def _move(
    row: Rollout, weights: dict[int, int], action: str, reason: str, actor: Actor
) -> TrafficSplit:
    wanted = replace(wanted_of(row.endpoint.current), weights=weights, probe=0)
    return write_split(
        row.endpoint,
        wanted,
        cause=SplitCause.ROLLOUT,
        reason=reason,
        actor=actor,
        action=action,
    )


def _others(weights: dict[int, int], version: int) -> dict[int, int]:
    """The shares of all but one, scaled to the whole; {} when nobody else has any."""
    left = {one: points for one, points in weights.items() if one != version and points}
    return splits.redistribute(left, ()) if left else {}


def _stored(weights: dict[int, int]) -> dict[str, int]:
    return {str(one): points for one, points in weights.items()}


def _need_step(row: Rollout, progress: Progress, step: int | None) -> None:
    present = min(progress.step + 1, row.progress["steps"])
    if step is not None and step != present:
        raise Conflict(
            f"Step {step} of the rollout of v{row.version} is not under way: it is at {present}.",
            code="step_over",
            hint="Look at the present step, and do it again if you mean that one.",
        )


def _need_ours(row: Rollout) -> None:
    current = row.endpoint.current
    if current is None or current.mode != EndpointMode.NORMAL:
        raise _not_normal(row.endpoint)


def _not_normal(endpoint: Endpoint) -> Conflict:
    mode = wanted_of(endpoint.current).mode
    return Conflict(
        f"{endpoint} is in mode {mode}, so no version answers.",
        code="mode_not_normal",
        hint="Return it to normal first.",
    )
