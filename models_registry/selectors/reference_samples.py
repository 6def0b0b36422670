"""The training samples that hold: which versions have one."""

from __future__ import annotations

from collections.abc import Collection

from models_registry.models import ModelVersion, ReferenceSample


def reference_samples(versions: Collection[int]) -> dict[int, ReferenceSample]:
    """Version id → the training sample that holds; versions without one are missing. One query."""
    rows = ReferenceSample.objects.filter(
        version_id__in=versions, replaced_at__isnull=True
    ).select_related("artifact", "recorded_by")
    return {row.version_id: row for row in rows}


def reference_history(version: ModelVersion, *, most: int = 20) -> list[ReferenceSample]:
    """What was recorded for a version, newest first; one query."""
    rows = version.reference_samples.select_related("artifact", "recorded_by")
    return list(rows.order_by("-recorded_at")[:most])
