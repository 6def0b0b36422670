"""What writes with an Idempotency-Key answered: claimed before the work, kept for a day."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.db import transaction
from django.utils import timezone

from console.errors import Conflict
from console.models import IdempotentRequest, User

KEPT_FOR = timedelta(hours=24)
# A claim without an answer for so long belongs to a process that died over it.
ABANDONED_AFTER = timedelta(minutes=2)


def claim_request(*, user: User, key: str, fingerprint: str) -> IdempotentRequest:
    """The row of a write: new (`status` 0, the caller does the work) or answered (`status` set).

    Raises Conflict for a key used with another request (`idempotency_key_reused`) and for one
    whose work is still under way (`request_under_way`).
    """
    with transaction.atomic():
        row, is_new = IdempotentRequest.objects.get_or_create(
            user=user, key=key, defaults={"fingerprint": fingerprint}
        )
        if is_new:
            return row
        found = IdempotentRequest.objects.select_for_update().filter(pk=row.pk).first()
        if found is None:
            # The first request has just failed and released the key.
            raise _under_way()
        row = found
        if row.fingerprint != fingerprint:
            raise Conflict(
                "This Idempotency-Key was used for another request.",
                code="idempotency_key_reused",
                hint="Use a new key for each new act.",
            )
        if row.status:
            return row
        now = timezone.now()
        if now - row.created_at < ABANDONED_AFTER:
            raise _under_way()
        row.created_at = now
        row.save(update_fields=["created_at"])
        return row


def keep_answer(*, row: IdempotentRequest, status: int, body: Any) -> None:
    """Keep what the write answered; `body` is a JSON value."""
    row.status, row.body = status, body
    row.save(update_fields=["status", "body"])


def release_request(*, row: IdempotentRequest) -> None:
    """Forget a claim whose work failed, so that the same key may try again."""
    row.delete()


def forget_old_requests() -> int:
    """Delete the answers that are older than a day; gives how many."""
    oldest = timezone.now() - KEPT_FOR
    deleted, _ = IdempotentRequest.objects.filter(created_at__lt=oldest).delete()
    return deleted


def _under_way() -> Conflict:
    return Conflict(
        "The first request with this Idempotency-Key is still under way.",
        code="request_under_way",
        hint="Try again in a second.",
    )
