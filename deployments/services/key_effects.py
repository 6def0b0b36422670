"""What serves now by a signature of a key: it goes on serving, and nothing new follows it."""

from __future__ import annotations

from datetime import datetime

from django.db.models import Max, Q

from console.models import SigningKey
from console.rules.key_life import KeyEffect, outcome_of
from deployments.models import Deployment


def effects_of(key: SigningKey, doubted_from: datetime | None) -> list[KeyEffect]:
    """Deployments whose release or its contract the key signed, newest first (one query)."""
    approved = Q(
        release__approvals__key=key,
        release__approvals__approved=True,
        release__approvals__superseded_at__isnull=True,
    )
    running = (
        Deployment.objects.filter(removed_at__isnull=True)
        .filter(approved | Q(release__contract__signatures__key=key))
        .select_related("release__environment", "release__version__model")
        .annotate(
            approved_at=Max("release__approvals__at", filter=Q(release__approvals__key=key)),
            signed_at=Max(
                "release__contract__signatures__signed_at",
                filter=Q(release__contract__signatures__key=key),
            ),
        )
        .order_by("-pk")
    )
    return [_effect(deployment, doubted_from) for deployment in running]


def after_revocation(key: SigningKey) -> None:
    """Nothing: what serves goes on until somebody acts, and its people were told below."""


def _effect(deployment: Deployment, doubted_from: datetime | None) -> KeyEffect:
    # Of the two, the later: when it is doubted, so is the deployment.
    times = (deployment.approved_at, deployment.signed_at)  # type: ignore[attr-defined]
    signed_at = max(at for at in times if at is not None)
    return KeyEffect(
        "live",
        str(deployment),
        f"/deployments/{deployment.pk}/",
        "",
        signed_at,
        outcome_of(signed_at, doubted_from),
    )
