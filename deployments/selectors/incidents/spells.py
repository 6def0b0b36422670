"""When callers were not well in an incident, from the lines of its timeline."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime

from deployments.models import Incident, IncidentEvent
from deployments.rules.incidents import spells as rules
from deployments.rules.incidents.spells import Spell


def spells_of(incidents: Sequence[Incident]) -> dict[uuid.UUID, list[Spell]]:
    """Each incident's spells, oldest first (one query, none without incidents)."""
    if not incidents:
        return {}
    marks: dict[uuid.UUID, list[tuple[str, datetime]]] = defaultdict(list)
    rows = IncidentEvent.objects.filter(incident__in=incidents, kind__in=rules.MARKS)
    for incident, kind, at in rows.order_by("at", "pk").values_list("incident_id", "kind", "at"):
        marks[incident].append((kind, at))
    return {one.pk: rules.spells(one.started_at, one.ended_at, marks[one.pk]) for one in incidents}


def began_last(incident: Incident) -> datetime:
    """When the spell began that goes on, or that was the last one (one query)."""
    return spells_of([incident])[incident.pk][-1].started_at
