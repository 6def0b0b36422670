"""Two versions of an endpoint side by side, over the same minutes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from console.errors import FieldError, Invalid, NotFound
from console.models import User
from deployments.models import (
    ACTIVE_ROLLOUTS,
    ComparisonMinute,
    Deployment,
    Endpoint,
    MinuteRollup,
    Rollout,
)
from deployments.rules.experiments.comparison_figures import Figures as Answers
from deployments.rules.experiments.comparison_figures import from_json
from deployments.rules.experiments.version_comparisons import (
    Faults,
    Figures,
    Latencies,
    compare_faults,
    compare_latencies,
    figures,
    shared_span,
    turned,
)
from deployments.rules.statistics.charts import parse_span
from deployments.rules.statistics.rollups import Counted
from deployments.selectors.statistics.rollups import counted_of, rows_between
from deployments.selectors.traffic.endpoints import find_endpoint, percent_of

LONGEST = timedelta(days=7)
MINUTE = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class VersionComparison:
    """`first` and `second` are counted within `shared` alone: whole minutes, its end included.

    `shared` is None where the two never had requests in the same stretch; the figures are then
    those of the whole span. `answers` has the first version as its
    baseline, and is None where no answers were sampled.
    """

    endpoint: Endpoint
    choices: list[int]
    start: datetime
    end: datetime
    shared: tuple[datetime, datetime] | None
    first: Figures
    second: Figures
    latencies: Latencies
    faults: Faults
    answers: Answers | None

    @property
    def seconds(self) -> int:
        """Length of what was compared."""
        if self.shared is None:
            return 0
        start, last = self.shared
        return int((min(last + MINUTE, self.end) - start).total_seconds())


@dataclass(frozen=True, slots=True)
class Pair:
    """Which versions could be compared, and the two that are meant where nobody names them."""

    choices: list[int]
    first: int | None
    second: int | None


def comparable(endpoint: Endpoint) -> Pair:
    """Versions here, and the pair of the rollout under way, or the two with most traffic.

    Two queries.
    """
    weights = percent_of(endpoint.current)
    deployed = Deployment.objects.filter(
        removed_at__isnull=True,
        release__environment_id=endpoint.environment_id,
        release__version__model_id=endpoint.model_id,
    ).values_list("release__version__number", flat=True)
    choices = sorted({*deployed, *weights})
    active = (
        Rollout.objects.filter(endpoint=endpoint, state__in=ACTIVE_ROLLOUTS)
        .values_list("baseline", "version")
        .first()
    )
    if active is not None:
        return Pair(sorted({*choices, *active}), *active)
    ranked = sorted(choices, key=lambda number: (-weights.get(number, 0.0), -number))
    first, second = (*ranked, None, None)[:2]
    return Pair(choices, first, second)


def compare_versions(
    environment: str,
    model: str,
    *,
    a: int | None,
    b: int | None,
    window: str,
    now: datetime,
    user: User,
) -> VersionComparison | Pair:
    """Both versions over the minutes that both had requests in; five queries.

    Versions that are not named are those of `comparable`; where there are no two, the answer is
    that `Pair`. Raises NotFound, Invalid.
    """
    endpoint = find_endpoint(environment, model, user=user)
    pair = comparable(endpoint)
    first, second = _both(pair, a, b)
    if first is None or second is None:
        return pair
    span = parse_span(window)
    if span > LONGEST:
        raise _fault("window", "That is too long a time to compare.", "Use at most 7d.")
    start = (now - span).replace(second=0, microsecond=0)
    rows = list(rows_between(endpoint, start, now).filter(version__in=(first, second)))
    _check_known(endpoint, {first, second} - set(pair.choices), rows, pair.choices)
    shared = shared_span(((row.minute, row.version, row.requests) for row in rows), first, second)
    since, until = shared or (start, now)
    counted: dict[int, Counted] = {}
    for row in rows:
        if since <= row.minute <= until:
            counted[row.version] = counted.get(row.version, Counted()) + counted_of(row)
    one, other = (figures(number, counted.get(number, Counted())) for number in (first, second))
    return VersionComparison(
        endpoint=endpoint,
        choices=sorted({*pair.choices, first, second}),
        start=start,
        end=now.astimezone(UTC),
        shared=shared,
        first=one,
        second=other,
        latencies=compare_latencies(one, other),
        faults=compare_faults(one, other),
        answers=_answers(endpoint, first, second, start, now),
    )


def version_named(text: str, field: str) -> int | None:
    """A version number as the address names it; None for nothing. Raises Invalid."""
    if not text:
        return None
    if not (text.isascii() and text.isdecimal() and 0 < int(text[:10]) < 2**31):
        raise _fault(field, f"{text[:40]!r} is no version.", "Name a version by its number.")
    return int(text)


def _both(pair: Pair, a: int | None, b: int | None) -> tuple[int | None, int | None]:
    if a is not None and a == b:
        raise _fault("b", f"v{b} cannot be compared with itself.", "Name two versions.")
    first = a if a is not None else pair.first if pair.first != b else pair.second
    second = b if b is not None else pair.second if pair.second != first else pair.first
    return first, second if second != first else None


def _check_known(
    endpoint: Endpoint, unknown: set[int], rows: list[MinuteRollup], choices: list[int]
) -> None:
    """A version that is no longer deployed can still be compared by what was counted of it."""
    for number in sorted(unknown - {row.version for row in rows}):
        there = ", ".join(f"v{choice}" for choice in choices) or "none"
        raise NotFound(
            f"v{number} is not at {endpoint} and was not in this time.", hint=f"There are: {there}."
        )


def _answers(
    endpoint: Endpoint, first: int, second: int, start: datetime, now: datetime
) -> Answers | None:
    """Answers compared, whichever of the two was the baseline of the sampling."""
    rows = ComparisonMinute.objects.filter(
        endpoint=endpoint,
        baseline__in=(first, second),
        candidate__in=(first, second),
        minute__gte=start,
        minute__lt=now,
    )
    total: Answers | None = None
    for row in rows:
        one = Answers(
            row.sampled,
            row.compared,
            row.differing,
            row.baseline_faults,
            row.candidate_faults,
            row.max_difference,
            from_json(row.outputs),
        )
        one = one if row.baseline == first else turned(one)
        total = one if total is None else total + one
    return total


def _fault(field: str, message: str, hint: str) -> Invalid:
    return Invalid(
        message, code="invalid_comparison", hint=hint, errors=(FieldError(f"/{field}", hint),)
    )
