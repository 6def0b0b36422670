"""Ending sessions: one, all others, or all of a person."""

from __future__ import annotations

from django.db import transaction
from django.utils import timezone

from console.actors import Actor, require
from console.errors import NotFound
from console.models import Session, User
from console.services import audit


def end_session(*, handle: str, actor: Actor) -> None:
    """End one of one's own sessions. Raises NotFound for any other."""
    require(actor, "second_factor.manage_own")
    with transaction.atomic():
        ended = Session.objects.select_for_update().filter(user=actor.user, handle=handle).first()
        if ended is None:
            raise NotFound(
                "There is no such session of yours.", hint="It may have ended by itself by now."
            )
        before = {"browser": ended.browser, "address": ended.address}
        ended.delete()
        audit.record(actor=actor, action="session.end", subject=f"session {handle}", before=before)


def end_other_sessions(*, keep: str | None, actor: Actor) -> int:
    """End all of one's own sessions but the one with the key `keep`; gives how many."""
    require(actor, "second_factor.manage_own")
    with transaction.atomic():
        count = forget_sessions(actor.user, keep=keep)
        if count:
            audit.record(
                actor=actor,
                action="session.end_others",
                subject=f"user {actor.user.username}",
                after={"ended": count},
            )
    return count


def forget_sessions(user: User, *, keep: str | None = None) -> int:
    """Delete a person's sessions as part of something that is on record itself."""
    count, _ = Session.objects.filter(user=user).exclude(session_key=keep or "").delete()
    return count


def forget_old_sessions() -> int:
    """Delete sessions that have run out, of people and of nobody; gives how many."""
    count, _ = Session.objects.filter(expire_date__lt=timezone.now()).delete()
    return count
