"""Links by which anybody reads one promise: made, opened and revoked."""

from __future__ import annotations

import hashlib
import secrets
import uuid
from dataclasses import dataclass
from datetime import timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import F
from django.utils import timezone

from console.actors import Actor, require
from console.errors import Conflict, FieldError, Invalid, NotFound, TooMany
from console.services import audit, audit_occurrences
from console.services.attempts import Limit, count_attempt
from deployments.models import Endpoint, SlaShare
from deployments.rules.objectives.sla_sharing import (
    FEWEST_DAYS,
    MOST_DAYS,
    USUAL_DAYS,
    share_state,
)
from deployments.selectors.traffic.endpoints import find_endpoint

MOST_OPEN = 50
"""Links of one promise that are open at once."""

LONGEST_NOTE = 200
PER_ADDRESS = Limit(attempts=120, seconds=5 * 60)
PER_PDF = Limit(attempts=10, seconds=5 * 60)


@dataclass(frozen=True, slots=True)
class Shared:
    """A new link: it is told this once, only its digest is kept."""

    share: SlaShare
    link: str


def share_sla(
    *, environment: str, model: str, days: int = USUAL_DAYS, note: str = "", actor: Actor
) -> Shared:
    """Make a link that shows one promise, with its months and its PDF, for `days` days.

    Raises NotFound, NotAllowed, Invalid, Conflict (`too_many_links`).
    """
    require(actor, "sla.share")
    endpoint = find_endpoint(environment, model, user=actor.user)
    require(actor, "sla.share", endpoint.model.team_id)
    _check(days, note)
    secret = secrets.token_urlsafe(32)
    now = timezone.now()
    with transaction.atomic():
        # Two at once must not both be the last one that is taken.
        Endpoint.objects.select_for_update(of=("self",)).get(pk=endpoint.pk)
        open_links = endpoint.sla_shares.filter(revoked_at__isnull=True, expires_at__gt=now)
        if open_links.count() >= MOST_OPEN:
            raise Conflict(
                f"{endpoint} is shared by {MOST_OPEN} links already.",
                code="too_many_links",
                hint="Revoke those that nobody needs any more.",
            )
        share = SlaShare.objects.create(
            endpoint=endpoint,
            digest=digest_of(secret),
            note=note.strip(),
            created_by=actor.user,
            expires_at=now + timedelta(days=days),
        )
        audit.record(
            actor=actor,
            action="sla.share",
            subject=str(endpoint),
            subject_url=f"/sla/{endpoint}/",
            after={
                "link": str(share.pk),
                "note": share.note,
                "expires_at": share.expires_at.isoformat(timespec="seconds"),
            },
        )
    return Shared(share, f"{settings.CONFIG.base_url.rstrip('/')}/shared/sla/{secret}/")


def revoke_share(*, share_id: uuid.UUID, reason: str = "", actor: Actor) -> SlaShare:
    """Take a link back: it opens nothing any more. Doing it twice changes nothing.

    Raises NotFound, NotAllowed.
    """
    require(actor, "sla.share")
    found = SlaShare.objects.visible_to(actor.user).filter(pk=share_id)
    teams = found.values_list("endpoint__model__team_id", flat=True)[:1]
    if not teams:
        raise NotFound("There is no such link.", hint="See the promise's page.")
    require(actor, "sla.share", teams[0])
    with transaction.atomic():
        share = (
            SlaShare.objects.select_for_update(of=("self",))
            .select_related("endpoint__model", "endpoint__environment", "created_by")
            .get(pk=share_id)
        )
        if share.revoked_at is not None:
            return share
        share.revoked_at, share.revoked_by = timezone.now(), actor.user
        share.save(update_fields=["revoked_at", "revoked_by"])
        audit.record(
            actor=actor,
            action="sla.share_revoke",
            subject=str(share.endpoint),
            subject_url=f"/sla/{share.endpoint}/",
            reason=reason,
            after={"link": str(share.pk), "note": share.note},
        )
    return share


def open_share(*, secret: str, address: str, what: str, request_id: str = "") -> SlaShare:
    """What a link shows (`what`: page or pdf); noted, and on record by the minute.

    Raises NotFound, in the same words for a link that is expired, revoked or made up, and TooMany
    after 120 tries from one address in five minutes (of the PDF: 10 for one link).
    """
    digest = digest_of(secret)
    try:
        count_attempt(f"sla-share:{address}", PER_ADDRESS)
        if what == "pdf":
            count_attempt(f"sla-share-pdf:{digest}", PER_PDF)
    except TooMany as error:
        raise TooMany(
            error.message,
            code="too_many_requests",
            retry_after=error.retry_after,
            hint="Wait five minutes: nothing is lost.",
        ) from error
    now = timezone.now()
    share = (
        SlaShare.objects.select_related("endpoint__model", "endpoint__environment")
        .filter(digest=digest)
        .first()
    )
    if share is None or state_of(share) != "open":
        raise NotFound(
            "This link shows nothing.",
            code="link_not_valid",
            hint="It has expired, was revoked, or is not whole. Ask for another.",
        )
    SlaShare.objects.filter(pk=share.pk).update(last_used_at=now, uses=F("uses") + 1)
    audit_occurrences.note(
        actor=Actor(
            user=Actor.system("shared link").user,
            source=f"shared link {address}",
            request_id=request_id,
        ),
        action="sla.share_open",
        subject=str(share.endpoint),
        details={"link": str(share.pk), "what": what},
        together=f"{share.pk} {what}",
        now=now,
        subject_url=f"/sla/{share.endpoint}/",
    )
    return share


def state_of(share: SlaShare) -> str:
    """`open`, `expired` or `revoked`, now."""
    return share_state(now=timezone.now(), expires_at=share.expires_at, revoked_at=share.revoked_at)


def digest_of(secret: str) -> str:
    """What is kept of a link: 256 random bits need no slow hash, there is nothing to guess."""
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()


def _check(days: int, note: str) -> None:
    if not FEWEST_DAYS <= days <= MOST_DAYS:
        raise Invalid(
            f"A link is valid for {FEWEST_DAYS} to {MOST_DAYS} days.",
            errors=(FieldError("/days", f"is not {FEWEST_DAYS} to {MOST_DAYS}"),),
        )
    if len(note.strip()) > LONGEST_NOTE:
        raise Invalid(
            f"The note is longer than {LONGEST_NOTE} characters.",
            errors=(FieldError("/note", f"is longer than {LONGEST_NOTE} characters"),),
        )
