"""What happened to a model and all that belongs to it, from the audit trail."""

from __future__ import annotations

from django.db.models import QuerySet

from console.models import AuditEntry
from models_registry.models import Environment, RegisteredModel, Release

RELEASES_LOOKED_AT = 50
SUBJECTS_LOOKED_AT = 50


def model_events(model: RegisteredModel, *, shown: int = 12) -> list[AuditEntry]:
    """The newest entries about the model, in 3 queries that are as quick in a long trail.

    Subjects are named one by one, so that the index on them serves: of versions, contracts and
    releases the newest 50 of each.
    """
    releases = (
        Release.objects.filter(version__model=model)
        .order_by("-requested_at")
        .values_list("pk", flat=True)[:RELEASES_LOOKED_AT]
    )
    environments = Environment.objects.values_list("name", flat=True)
    subjects = [
        f"model {model.name}",
        *(f"{model.name} v{n}" for n in _newest(model.last_version_number)),
        *(f"{model.name} contract {n}" for n in _newest(model.last_contract_revision)),
        *(f"{model.name} release {pk}" for pk in releases),
        *(f"{name}/{model.name}" for name in environments),
    ]
    return list(AuditEntry.objects.filter(subject__in=subjects).order_by("-sequence")[:shown])


def subject_events(subject: str, *, shown: int = 12) -> QuerySet[AuditEntry]:
    """The newest entries about one subject (one query)."""
    return AuditEntry.objects.filter(subject=subject).order_by("-sequence")[:shown]


def seat_history(model: RegisteredModel, seat: str, *, shown: int = 20) -> QuerySet[AuditEntry]:
    """Who was put into a seat, by whom and when, newest first (one query)."""
    return AuditEntry.objects.filter(
        subject=f"model {model.name}", action="model.assign_seat", after__seat=seat
    ).order_by("-sequence")[:shown]


def _newest(last: int) -> range:
    return range(last, max(0, last - SUBJECTS_LOOKED_AT), -1)
