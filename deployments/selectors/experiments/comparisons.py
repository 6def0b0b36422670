"""Compared answers of two versions: the last seconds live, longer spans minute by minute."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db.models import Max

from console.errors import FieldError, Invalid, NotFound
from console.models import User
from deployments.adapters import comparison_store
from deployments.models import ComparisonMinute, Endpoint
from deployments.rules.experiments.comparison_figures import Figures, OutputFigures, from_json
from deployments.rules.experiments.comparison_windows import ComparisonWindow, add_up
from deployments.rules.statistics.histograms import Histogram
from deployments.selectors.experiments.sampled_pairs import observed
from deployments.selectors.traffic.endpoints import find_endpoint

LONGEST = timedelta(days=7)
DEFAULT_SPAN = timedelta(hours=1)


def comparison_window(
    environment: str, model: str, *, baseline: int, candidate: int, seconds: float, now: datetime
) -> ComparisonWindow:
    """What the answers of the last seconds (15 minutes at most) say; no query, about 2 s old.

    Everything is 0 when nothing was sampled, or Redis is away: look at `sampled` first.
    """
    until = now.timestamp()
    return add_up(
        comparison_store.ring(f"{environment}/{model}"),
        baseline=baseline,
        candidate=candidate,
        since=until - seconds,
        until=until + 1,
    )


@dataclass(frozen=True, slots=True)
class Comparison:
    """A span of one pair's minutes: each, and all together."""

    endpoint: Endpoint
    baseline: int
    candidate: int
    start: datetime
    end: datetime
    minutes: list[tuple[datetime, Figures]]
    total: Figures


def comparison(
    environment: str,
    model: str,
    *,
    baseline: int | None,
    candidate: int | None,
    start: datetime | None = None,
    end: datetime | None = None,
    now: datetime,
    user: User,
) -> Comparison:
    """The minutes in which two versions' answers were compared; at most 7 days, four queries.

    Without a pair it is the one that is compared now, or the one that was compared last.

    Raises NotFound when the endpoint is unknown or was never compared, Invalid for a span that is
    none.
    """
    endpoint = find_endpoint(environment, model, user=user)
    if baseline is None or candidate is None:
        baseline, candidate = _pair(endpoint)
    end = end or now
    start = start or end - DEFAULT_SPAN
    if not timedelta(0) < end - start <= LONGEST:
        raise Invalid(
            "The span is empty or longer than 7 days.",
            code="invalid_span",
            errors=(FieldError("/from", "At most 7 days before `to`, and not after it."),),
        )
    rows = ComparisonMinute.objects.filter(
        endpoint=endpoint,
        baseline=baseline,
        candidate=candidate,
        minute__gte=start.replace(second=0, microsecond=0),
        minute__lt=end,
    ).order_by("minute")
    minutes = [(row.minute, figures_of(row)) for row in rows]
    total = sum((figures for _, figures in minutes), start=Figures())
    return Comparison(endpoint, baseline, candidate, start, end, minutes, total)


def figures_of(row: ComparisonMinute) -> Figures:
    """What a row says."""
    return Figures(
        row.sampled,
        row.compared,
        row.differing,
        row.baseline_faults,
        row.candidate_faults,
        row.max_difference,
        from_json(row.outputs),
    )


def comparison_series(found: Comparison) -> dict[str, Any]:
    """The comparison as the API gives it: totals, outputs with their histograms, and the series."""
    total = found.total
    return {
        "endpoint": str(found.endpoint),
        "baseline": found.baseline,
        "candidate": found.candidate,
        "from": found.start.astimezone(UTC).isoformat(),
        "to": found.end.astimezone(UTC).isoformat(),
        "sampled": total.sampled,
        "compared": total.compared,
        "differing": total.differing,
        "differing_share": _share(total.differing, total.compared),
        "max_difference": total.max_difference,
        "baseline_faults": total.baseline_faults,
        "candidate_faults": total.candidate_faults,
        "outputs": [_output(name, one) for name, one in sorted(total.outputs.items()) if name],
        "failures": _failures(total.outputs.get("")),
        "series": {
            "times": [minute.astimezone(UTC).isoformat() for minute, _ in found.minutes],
            **{
                name: [getattr(figures, name) for _, figures in found.minutes]
                for name in (
                    "sampled",
                    "compared",
                    "differing",
                    "baseline_faults",
                    "candidate_faults",
                    "max_difference",
                )
            },
        },
    }


def _pair(endpoint: Endpoint) -> tuple[int, int]:
    pair = observed([endpoint]).pairs.get(endpoint.pk)
    if pair is not None:
        return pair
    last = (
        ComparisonMinute.objects.filter(endpoint=endpoint)
        .values_list("baseline", "candidate")
        .annotate(last=Max("minute"))
        .order_by("-last")
        .first()
    )
    if last is None:
        raise NotFound(
            f"No answers of {endpoint} were ever compared.",
            hint="Answers are compared while a rollout is under way, an experiment runs or a "
            "mirror is set.",
        )
    return last[0], last[1]


def _output(name: str, one: OutputFigures) -> dict[str, Any]:
    return {
        "name": name,
        "rows": one.rows,
        "differing_rows": one.differing_rows,
        "differing_share": _share(one.differing_rows, one.rows),
        "max_difference": one.max_difference,
        "differences": _histogram(one.differences),
        "baseline_values": _histogram(one.baseline_values),
        "candidate_values": _histogram(one.candidate_values),
        "baseline_faults": dict(one.baseline_faults),
        "candidate_faults": dict(one.candidate_faults),
    }


def _failures(one: OutputFigures | None) -> dict[str, dict[str, int]]:
    """Requests that a version did not answer at all, by kind."""
    one = one or OutputFigures()
    return {"baseline": dict(one.baseline_faults), "candidate": dict(one.candidate_faults)}


def _histogram(one: Histogram | None) -> dict[str, list[float]] | None:
    """`counts` has one more than `bounds`: the last is of what exceeds them all."""
    return None if one is None else {"bounds": list(one.bounds), "counts": list(one.counts)}


def _share(part: int, whole: int) -> float | None:
    return round(part / whole, 6) if whole else None
