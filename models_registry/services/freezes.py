"""Freeze windows: times in which nothing new is deployed to an environment."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import transaction
from django.utils import timezone

from console import live
from console.actors import Actor, require
from console.errors import Conflict, FieldError, Invalid, NotFound
from console.services import audit
from models_registry.models import Environment, FreezeWindow
from models_registry.rules.freezes import WEEK
from models_registry.rules.release_payload import time_text

LONGEST = timedelta(days=366)
MOST_OPEN = 50


def freeze_environment(
    *,
    environment: Environment,
    name: str,
    starts_at: datetime,
    ends_at: datetime,
    reason: str,
    weekly: bool = False,
    actor: Actor,
) -> FreezeWindow:
    """Freeze the environment from one time to another, or each week from the first time on.

    Releases may be approved meanwhile, nothing new is deployed; rolling back is never frozen. The
    same window again gives the one that is there. Raises Invalid `bad_freeze` with a pointer for
    each fault, Conflict `too_many_freezes`.
    """
    require(actor, "environment.freeze")
    name, reason = name.strip(), reason.strip()
    _check(name, reason, starts_at, ends_at, weekly=weekly, now=timezone.now())
    with transaction.atomic():
        environment = Environment.objects.select_for_update().get(pk=environment.pk)
        there = environment.freeze_windows.filter(lifted_at__isnull=True)
        same = there.filter(
            name=name, starts_at=starts_at, ends_at=ends_at, weekly=weekly, reason=reason
        ).first()
        if same is not None:
            return same
        if there.count() >= MOST_OPEN:
            raise Conflict(
                f"{environment.name} has {MOST_OPEN} freeze windows already.",
                code="too_many_freezes",
                hint="Lift those that are over.",
            )
        window = FreezeWindow.objects.create(
            environment=environment,
            name=name,
            starts_at=starts_at,
            ends_at=ends_at,
            weekly=weekly,
            reason=reason,
            created_by=actor.user,
        )
        _record(window, "environment.freeze", actor, reason)
    return window


def lift_freeze(
    *, environment: Environment, freeze_id: int, reason: str, actor: Actor
) -> FreezeWindow:
    """End a freeze window, now and for good; lifting it twice changes nothing.

    Raises Invalid without a reason, NotFound.
    """
    require(actor, "environment.freeze")
    if not reason.strip():
        raise Invalid(
            "Lifting a freeze needs a reason.",
            code="reason_missing",
            hint="Say why it may end early.",
            errors=(FieldError("/reason", "is empty"),),
        )
    with transaction.atomic():
        window = (
            FreezeWindow.objects.select_for_update(of=("self",))
            .select_related("environment")
            .filter(pk=freeze_id, environment=environment)
            .first()
        )
        if window is None:
            raise NotFound(f"{environment.name} has no such freeze window.")
        if window.lifted_at is not None:
            return window
        window.lifted_at = timezone.now()
        window.save(update_fields=["lifted_at"])
        _record(window, "environment.unfreeze", actor, reason.strip())
    return window


def _check(
    name: str, reason: str, starts_at: datetime, ends_at: datetime, *, weekly: bool, now: datetime
) -> None:
    faults = []
    if not 1 <= len(name) <= 80:
        faults.append(FieldError("/name", "is not 1 to 80 characters long"))
    if not 1 <= len(reason) <= 300:
        faults.append(FieldError("/reason", "is not 1 to 300 characters long"))
    if ends_at <= starts_at:
        faults.append(FieldError("/ends_at", "is not after the beginning"))
    elif weekly and ends_at - starts_at >= WEEK:
        faults.append(FieldError("/ends_at", "makes a weekly freeze that never ends"))
    elif ends_at - starts_at > LONGEST:
        faults.append(FieldError("/ends_at", "is more than a year after the beginning"))
    elif not weekly and ends_at <= now:
        faults.append(FieldError("/ends_at", "is over already"))
    if faults:
        raise Invalid(
            f"The freeze cannot be set: {faults[0].pointer} {faults[0].detail}.",
            code="bad_freeze",
            hint="Times are RFC 3339, such as 2026-12-24T00:00:00Z.",
            errors=tuple(faults),
        )


def _record(window: FreezeWindow, action: str, actor: Actor, reason: str) -> None:
    environment = window.environment
    audit.record(
        actor=actor,
        action=action,
        subject=f"environment {environment.name}",
        subject_url="/settings/environments/",
        after={
            "freeze": window.pk,
            "name": window.name,
            "starts_at": time_text(window.starts_at),
            "ends_at": time_text(window.ends_at),
            "weekly": window.weekly,
        },
        reason=reason,
    )
    live.publish("environments", "environment.changed", {"name": environment.name})
