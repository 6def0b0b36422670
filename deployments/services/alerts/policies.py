"""Escalations: what happens when nobody acknowledges, step by step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db import transaction
from django.db.models import ProtectedError

from console.actors import Actor, require
from console.errors import Conflict, NotFound, Stale
from console.services import audit
from deployments.models import (
    AlertChannel,
    EscalationPolicy,
    EscalationStep,
    OnCallSchedule,
)
from deployments.rules.alerts.route_terms import StepTerms, check_steps
from deployments.services.alerts.named import one_of, people_of


def set_policy(
    *,
    name: str,
    steps: Sequence[StepTerms],
    repeats: int = 0,
    actor: Actor,
    revision: int | None = None,
    reason: str = "",
) -> EscalationPolicy:
    """Make the escalation of this name, or decide it anew; those under way go on by the new one.

    Raises Invalid (`invalid_on_call`, `unknown_name`), Stale.
    """
    require(actor, "on_call.manage")
    check_steps(steps, repeats)
    with transaction.atomic():
        policy = EscalationPolicy.objects.select_for_update().filter(name=name).first()
        if revision is not None and revision != (policy.revision if policy else 0):
            raise Stale(
                f"Somebody has changed the escalation {name} meanwhile.",
                hint="Look at it again, and change what is still to be changed.",
            )
        before = facts(policy) if policy else None
        rows = [_row(step, f"/steps/{number}") for number, step in enumerate(steps)]
        policy = policy or EscalationPolicy(name=name, revision=0)
        policy.repeats, policy.changed_by = repeats, actor.user
        policy.revision += 1
        policy.save()
        policy.steps.all().delete()
        for row in rows:
            row.policy = policy
        EscalationStep.objects.bulk_create(rows)
        action = "escalation_policy.change" if before else "escalation_policy.create"
        _record(policy, action, actor, before=before, after=facts(policy), reason=reason)
    return policy


def remove_policy(*, name: str, actor: Actor, reason: str = "") -> None:
    """Take an escalation away. Raises Conflict (`policy_in_use`) while a route names it."""
    require(actor, "on_call.manage")
    with transaction.atomic():
        policy = EscalationPolicy.objects.select_for_update().filter(name=name).first()
        if policy is None:
            raise missing(name)
        _record(policy, "escalation_policy.remove", actor, before=facts(policy), reason=reason)
        try:
            policy.delete()
        except ProtectedError as error:
            raise Conflict(
                f"A route escalates by {name}.",
                code="policy_in_use",
                hint="Take it out of the route first.",
            ) from error


def find_policy(name: str) -> EscalationPolicy:
    """The escalation of this name; raises NotFound."""
    found = EscalationPolicy.objects.filter(name=name).first()
    if found is None:
        raise missing(name)
    return found


def missing(name: str) -> NotFound:
    """The refusal of an escalation that is not there."""
    return NotFound(f"There is no escalation called {name}.", hint="See Settings → Escalations.")


def facts(policy: EscalationPolicy) -> dict[str, Any]:
    """An escalation by names."""
    steps = policy.steps.select_related("schedule", "person", "channel")
    return {"repeats": policy.repeats, "steps": [step_facts(one) for one in steps]}


def step_facts(step: EscalationStep) -> dict[str, Any]:
    """A step by names."""
    name = ""
    if step.schedule is not None:
        name = step.schedule.name
    elif step.person is not None:
        name = step.person.username
    elif step.channel is not None:
        name = step.channel.name
    return {"after_minutes": step.after_minutes, "target": step.target, "name": name}


def _row(step: StepTerms, at: str) -> EscalationStep:
    row = EscalationStep(after_minutes=step.after_minutes, target=step.target)
    pointer = f"{at}/name"
    if step.target == "schedule":
        row.schedule = one_of(OnCallSchedule, "name", step.name, pointer)
    elif step.target == "channel":
        row.channel = one_of(AlertChannel, "name", step.name, pointer)
    elif step.target == "person":
        row.person = people_of([step.name], pointer)[0]
    return row


def _record(
    policy: EscalationPolicy,
    action: str,
    actor: Actor,
    *,
    before: object = None,
    after: object = None,
    reason: str = "",
) -> None:
    audit.record(
        actor=actor,
        action=action,
        subject=f"escalation {policy.name}",
        subject_url="/settings/escalations/",
        before=before,
        after=after,
        reason=reason,
    )
