"""Maintenance windows: proposed before they begin, in force when all three seats agreed."""

from __future__ import annotations

import uuid
from datetime import datetime

from django.db import transaction
from django.utils import timezone

from console.actors import Actor, require
from console.errors import Conflict, NotFound
from deployments.models import AgreementState, MaintenanceWindow
from deployments.rules.objectives import agreements as rules
from deployments.rules.objectives.spans import Span
from deployments.services.objectives import agreements


def propose_maintenance(
    *,
    environment: str,
    model: str,
    starts_at: datetime,
    ends_at: datetime,
    reason: str,
    actor: Actor,
) -> MaintenanceWindow:
    """Ask the three seats to set time aside; a proposer who sits in one agrees by proposing.

    Raises NotFound, NotAllowed, Invalid (a bad span, no reason, the month's limit), Conflict
    `maintenance_overlaps`.
    """
    require(actor, "maintenance.propose")
    why = rules.checked_text(reason, "/reason", "Say what is done, for those who agree to it.")
    with transaction.atomic():
        endpoint = agreements.locked_endpoint(environment, model, actor)
        require(actor, "maintenance.propose", endpoint.model.team_id)
        now = timezone.now()
        windows = agreements.windows_at(endpoint, now)
        rules.check_maintenance(Span(starts_at, ends_at), now, windows)
        window = MaintenanceWindow.objects.create(
            endpoint=endpoint,
            starts_at=starts_at,
            ends_at=ends_at,
            reason=why,
            proposed_by=actor.user,
            proposed_at=now,
        )
        agreements.begin(window, now, actor)
    return window


def agree_to_maintenance(*, window_id: uuid.UUID, actor: Actor) -> MaintenanceWindow:
    """The actor's seat agrees; with the third the window is in force. Twice is once.

    Raises NotFound, NotAllowed, Conflict (`maintenance_begun`: nobody agrees afterwards,
    `seat_agreed`, `agreement_withdrawn`).
    """
    with transaction.atomic():
        window = _for_act(window_id, "maintenance.agree", actor)
        now = timezone.now()
        if window.state == AgreementState.PROPOSED and window.starts_at <= now:
            raise Conflict(
                "Its time has begun before all three seats agreed.",
                code="maintenance_begun",
                hint="Once it is over, propose it as an exclusion, with what shows why.",
            )
        agreements.give_word(window, now, actor)
    return window


def withdraw_maintenance(*, window_id: uuid.UUID, reason: str, actor: Actor) -> MaintenanceWindow:
    """Take it back; one that runs ends with this minute. The proposer may, and the seats.

    Raises Invalid without a reason, NotFound, NotAllowed, Conflict (`maintenance_over`,
    `agreement_withdrawn`).
    """
    why = rules.checked_text(reason, "/reason", "Say why it is taken back.")
    with transaction.atomic():
        window = _for_act(window_id, "maintenance.propose", actor)
        now = timezone.now()
        if window.state == AgreementState.AGREED and window.ends_at <= now:
            raise Conflict(
                "The maintenance is over.",
                code="maintenance_over",
                hint="What was agreed beforehand and has passed stays as it was.",
            )
        agreements.take_back(window, why, now, actor)
    return window


def _for_act(window_id: uuid.UUID, action: str, actor: Actor) -> MaintenanceWindow:
    """The window under its endpoint's lock."""
    require(actor, action)
    seen = MaintenanceWindow.objects.visible_to(actor.user).filter(pk=window_id)
    window = seen.select_related("endpoint__model").first()
    if window is None:
        raise NotFound(
            "There is no such maintenance window.", hint="See the objectives of the endpoint."
        )
    require(actor, action, window.endpoint.model.team_id)
    endpoint = agreements.lock(window.endpoint)
    window.refresh_from_db()
    window.endpoint = endpoint
    return window
