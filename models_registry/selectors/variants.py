"""A version and its lighter variants, with the figures by which one chooses."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from django.db.models import Case, When

from models_registry.models import ModelVersion, VersionState

MOST_SHOWN = 20
_GONE = (VersionState.REJECTED, VersionState.ARCHIVED)


@dataclass(frozen=True, slots=True)
class VariantRow:
    """One of the family; shares are of the original's figure, None where one of both is missing.

    `p50_ms` by batch size, from each one's own validation; `max_abs` is the greatest error of any
    output against the source, None where the report has no number for it.
    """

    version: ModelVersion
    is_original: bool
    size_bytes: int | None
    size_share: float | None
    p50_ms: dict[int, float] = field(default_factory=dict)
    p50_share: float | None = None
    max_abs: float | None = None
    verdict: str = ""
    keeps_io: bool = True


@dataclass(frozen=True, slots=True)
class Family:
    """`original` is the version that all others were made of; `batches` those in every report."""

    original: VariantRow
    variants: tuple[VariantRow, ...]
    batches: tuple[int, ...]


def family_of(version: ModelVersion) -> Family:
    """The original of `version` and what was made of it, newest last, in 1 or 2 queries.

    All that may be used, and of those that were rejected or archived the newest: there is no end
    to asking again.
    """
    origin = version
    if version.derived_from_id is not None:
        origin = ModelVersion.objects.select_related("model", "onnx").get(
            pk=version.derived_from_id
        )
    original = _row(origin, None)
    made = (
        ModelVersion.objects.filter(derived_from_id=origin.pk)
        .select_related("model", "created_by", "export_job")
        .order_by(Case(When(state__in=_GONE, then=1), default=0), "-number")[:MOST_SHOWN]
    )
    rows = tuple(_row(one, original) for one in sorted(made, key=lambda one: one.number))
    measured = [set(row.p50_ms) for row in (original, *rows) if row.p50_ms]
    common = sorted(set.intersection(*measured)) if measured else []
    return Family(original, rows, tuple(dict.fromkeys([*common[:1], *common[-1:]])))


def _row(version: ModelVersion, original: VariantRow | None) -> VariantRow:
    report: dict[str, Any] = version.report or {}
    size = version.facts.get("size_bytes")
    p50 = {int(row["batch"]): float(row["p50_ms"]) for row in report.get("latency", ())}
    errors = [one.get("max_abs") for one in report.get("equivalence", {}).get("outputs", ())]
    known = [float(error) for error in errors if isinstance(error, int | float)]
    job = version.export_job if version.optimisation else None
    return VariantRow(
        version=version,
        is_original=original is None,
        size_bytes=size,
        size_share=_share(size, original.size_bytes if original else None),
        p50_ms=p50,
        p50_share=_share(p50.get(1), original.p50_ms.get(1) if original else None),
        max_abs=max(known) if known and len(known) == len(errors) else None,
        verdict=str(report.get("verdict", "")),
        keeps_io=bool(job.arguments.get("keep_io", True)) if job else True,
    )


def _share(value: float | None, of: float | None) -> float | None:
    return value / of if value is not None and of else None
