"""Exclusions: time that is over, taken out of a promise's count with reason and evidence."""

from __future__ import annotations

import uuid
from datetime import datetime

from django.db import transaction
from django.utils import timezone

from console.actors import Actor, require
from console.errors import FieldError, Invalid, NotFound
from deployments.models import Endpoint, Exclusion, Incident
from deployments.rules.objectives import agreements as rules
from deployments.rules.objectives.spans import Span
from deployments.services.objectives import agreements


def propose_exclusion(
    *,
    environment: str,
    model: str,
    starts_at: datetime,
    ends_at: datetime,
    reason: str,
    evidence: str,
    actor: Actor,
    incident: uuid.UUID | None = None,
) -> Exclusion:
    """Ask the three seats to leave time out of the count; a proposer in a seat agrees by that.

    Raises NotFound, NotAllowed, Invalid (a bad span, no reason or evidence, an incident of
    another endpoint), Conflict `exclusion_overlaps`.
    """
    require(actor, "sla.exclude")
    why = rules.checked_text(reason, "/reason", "Say why this time should not count.")
    shown = rules.checked_text(evidence, "/evidence", "Name what shows it: a report, a ticket.")
    with transaction.atomic():
        endpoint = agreements.locked_endpoint(environment, model, actor)
        require(actor, "sla.exclude", endpoint.model.team_id)
        now = timezone.now()
        taken = [*agreements.windows_at(endpoint, now), *agreements.exclusions_at(endpoint)]
        rules.check_exclusion(Span(starts_at, ends_at), now, taken)
        made = Exclusion.objects.create(
            endpoint=endpoint,
            starts_at=starts_at,
            ends_at=ends_at,
            reason=why,
            evidence=shown,
            incident=_incident(endpoint, incident),
            proposed_by=actor.user,
            proposed_at=now,
        )
        agreements.begin(made, now, actor)
    return made


def agree_to_exclusion(*, exclusion_id: uuid.UUID, actor: Actor) -> Exclusion:
    """The actor's seat agrees; with the third the time counts no more. Twice is once.

    Raises NotFound, NotAllowed, Conflict (`seat_agreed`, `agreement_withdrawn`).
    """
    with transaction.atomic():
        exclusion = _for_act(exclusion_id, actor)
        agreements.give_word(exclusion, timezone.now(), actor)
    return exclusion


def withdraw_exclusion(*, exclusion_id: uuid.UUID, reason: str, actor: Actor) -> Exclusion:
    """Take it back: the time counts again. The proposer may, and whoever sits in a seat.

    Raises Invalid without a reason, NotFound, NotAllowed, Conflict `agreement_withdrawn`.
    """
    why = rules.checked_text(reason, "/reason", "Say why it is taken back.")
    with transaction.atomic():
        exclusion = _for_act(exclusion_id, actor)
        agreements.take_back(exclusion, why, timezone.now(), actor)
    return exclusion


def _for_act(exclusion_id: uuid.UUID, actor: Actor) -> Exclusion:
    """The exclusion under its endpoint's lock."""
    require(actor, "sla.exclude")
    seen = Exclusion.objects.visible_to(actor.user).filter(pk=exclusion_id)
    exclusion = seen.select_related("endpoint__model").first()
    if exclusion is None:
        raise NotFound("There is no such exclusion.", hint="See the objectives of the endpoint.")
    require(actor, "sla.exclude", exclusion.endpoint.model.team_id)
    endpoint = agreements.lock(exclusion.endpoint)
    exclusion.refresh_from_db()
    exclusion.endpoint = endpoint
    return exclusion


def _incident(endpoint: Endpoint, incident: uuid.UUID | None) -> Incident | None:
    if incident is None:
        return None
    found = Incident.objects.filter(endpoint=endpoint, pk=incident).first()
    if found is None:
        raise Invalid(
            f"{endpoint} has no such incident.",
            code="unknown_incident",
            hint="Name an incident of the same endpoint, or none.",
            errors=(FieldError("/incident", "is no incident of this endpoint"),),
        )
    return found
