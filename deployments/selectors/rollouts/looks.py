"""What the rollout engine knows at one moment: all due rollouts, read together.

The number of queries does not grow with the rollouts: one for the rollouts with their endpoints,
one for plans not seen before, one for what is ready, one or two for freezes; and one round trip
each to the live numbers and to the compared answers.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from django.db.models import QuerySet

from console.errors import Invalid
from deployments.adapters import comparison_store
from deployments.models import (
    ACTIVE_ROLLOUTS,
    EndpointMode,
    NodeState,
    Placement,
    PlacementState,
    Rollout,
    SplitCause,
    TrafficSplit,
)
from deployments.rules.experiments.comparison_windows import ComparisonWindow, add_up
from deployments.rules.rollouts import fast
from deployments.rules.rollouts.looks import Ask, Look, Traffic
from deployments.rules.rollouts.measuring import asks
from deployments.rules.rollouts.plan import parse_plan
from deployments.rules.rollouts.progress import Progress, read_progress
from deployments.rules.rollouts.types import BY_COMPARISON, Plan
from deployments.rules.statistics.traffic_windows import WindowNumbers, nested_windows
from deployments.rules.traffic import splits
from deployments.selectors.statistics.analysis_windows import LiveRings, live_rings
from models_registry.models import Environment
from models_registry.rules import freezes
from models_registry.selectors.release_policies import open_windows, windows_of

MOST_AT_ONCE = 2000
COMPARED_S = 10.0
_PLANS_KEPT = 5000

log = logging.getLogger(__name__)
_plans: dict[uuid.UUID, Plan] = {}


@dataclass(frozen=True, slots=True)
class Seen:
    """One rollout as it was read, with all that is known but its measurements.

    `found_at` is the revision of the split that was current; a move is made only on top of it.
    """

    rollout: Rollout
    plan: Plan
    progress: Progress
    look: Look
    asks: tuple[Ask, ...]
    found_at: int

    @property
    def key(self) -> str:
        """The endpoint, as live numbers name it."""
        return str(self.rollout.endpoint)


@dataclass(frozen=True, slots=True)
class Moment:
    """Every rollout to look at, and the live numbers to measure them by."""

    now: datetime
    seen: list[Seen]
    rings: LiveRings
    compared: Mapping[str, list[comparison_store.JSON]]

    def window(self, seen: Seen, seconds: float) -> Mapping[int, WindowNumbers]:
        """What each version did within the last seconds."""
        return self.rings.window(seen.key, seconds=seconds, now=self.now)

    def comparison(self, seen: Seen, seconds: float) -> ComparisonWindow:
        """What the sampled answers of the last seconds say."""
        until = self.now.timestamp()
        return add_up(
            self.compared.get(seen.key, ()),
            baseline=seen.rollout.baseline,
            candidate=seen.rollout.version,
            since=until - seconds,
            until=until + 1,
        )


def due(now: datetime) -> QuerySet[Rollout]:
    """The rollouts that are due, the longest waiting first."""
    active = Rollout.objects.filter(state__in=ACTIVE_ROLLOUTS, next_look_at__lte=now)
    return active.order_by("next_look_at")[:MOST_AT_ONCE]


def moment(rows: QuerySet[Rollout], now: datetime) -> Moment:
    """These rollouts with everything that a decision on them takes."""
    rollouts = list(
        rows.select_related(
            "endpoint__model", "endpoint__environment", "endpoint__current__author"
        ).defer("plan", "reason")
    )
    plans = plans_of(rollouts)
    rollouts = [one for one in rollouts if one.pk in plans]
    ready = _ready(rollouts)
    frozen = _frozen({one.endpoint.environment_id for one in rollouts}, now)
    seen = [
        _seen(
            one,
            plans[one.pk],
            now,
            frozen=frozen.get(one.endpoint.environment_id, ""),
            ready=(one.endpoint.model_id, one.endpoint.environment_id, one.version) in ready,
        )
        for one in rollouts
    ]
    found = Moment(now, seen, *_live(seen))
    return replace(found, seen=[_with_alarm(found, one) for one in seen])


def plans_of(rollouts: Collection[Rollout]) -> dict[uuid.UUID, Plan]:
    """Their plans; a plan never changes, so each is read once per process.

    One that this release cannot read is left out: its rollout stands still, and holds up no other.
    """
    unknown = [one.pk for one in rollouts if one.pk not in _plans]
    if unknown:
        if len(_plans) + len(unknown) > _PLANS_KEPT:
            _plans.clear()
            unknown = [one.pk for one in rollouts]
        rows = Rollout.objects.filter(pk__in=unknown).values_list("pk", "plan")
        for pk, document in rows:
            try:
                _plans[pk] = parse_plan(document)
            except Invalid as error:
                log.error("the plan of rollout %s cannot be read: %s", pk, error.message)
    return {one.pk: _plans[one.pk] for one in rollouts if one.pk in _plans}


def expected_weights(rollout: Rollout, points: int) -> dict[int, int]:
    """The endpoint's weights with so many basis points on the candidate.

    The others keep the proportions that they had when the rollout began.
    """
    others = {int(version): share for version, share in rollout.progress["others"].items()}
    return splits.set_share({**others, rollout.version: 0}, rollout.version, points)


def _seen(rollout: Rollout, plan: Plan, now: datetime, *, frozen: str, ready: bool) -> Seen:
    progress = read_progress(
        rollout.progress, state=rollout.state, cause=rollout.cause, message=rollout.message
    )
    current = rollout.endpoint.current
    traffic, words = _traffic(rollout, progress, current)
    acknowledged = None
    if traffic is Traffic.OURS and current is not None and current.applied_at is not None:
        acknowledged = current.weights.get(str(rollout.version), 0)
    look = Look(
        ready=ready,
        traffic=traffic,
        traffic_message=words,
        acknowledged=acknowledged,
        frozen=frozen,
    )
    wanted = tuple(asks(plan, progress, now, frozen=bool(frozen)))
    return Seen(rollout, plan, progress, look, wanted, current.revision if current else 0)


def _traffic(
    rollout: Rollout, progress: Progress, current: TrafficSplit | None
) -> tuple[Traffic, str]:
    """Whether the split is the one that the rollout wrote; who moved it where it is not."""
    if current is None:
        return Traffic.MOVED, "The endpoint has no split any more."
    if current.revision == rollout.revision:
        return Traffic.OURS, ""
    if current.revision < rollout.revision:
        words = (
            f"A gateway refused revision {rollout.revision}; revision {current.revision} serves."
        )
        return Traffic.REFUSED, words
    who = f"{current.author.username} moved the traffic (revision {current.revision})."
    share = current.weights.get(str(rollout.version), 0)
    if current.cause == SplitCause.ROLLBACK or (
        current.cause in (SplitCause.AUTOMATIC, SplitCause.EXPERIMENT) and not share
    ):
        return Traffic.ROLLED_BACK, f"The endpoint was rolled back (revision {current.revision})."
    expected = {v: w for v, w in expected_weights(rollout, progress.weight).items() if w}
    present = {int(v): w for v, w in current.weights.items() if w}
    if current.mode == EndpointMode.NORMAL and present == expected:
        # Rules, testers or a mirror were changed, not the weights.
        return Traffic.OURS, ""
    return Traffic.MOVED, who


def _ready(rollouts: Collection[Rollout]) -> set[tuple[int, int, int]]:
    """(model, environment, version) that some node has ready and that can be reached."""
    rows = (
        Placement.objects.filter(
            state=PlacementState.READY,
            deployment__removed_at__isnull=True,
            deployment__release__version__model_id__in={one.endpoint.model_id for one in rollouts},
            deployment__release__version__number__in={one.version for one in rollouts},
        )
        .exclude(node__state=NodeState.LOST)
        .order_by()
        .values_list(
            "deployment__release__version__model_id",
            "deployment__release__environment_id",
            "deployment__release__version__number",
        )
    )
    return set(rows) if rollouts else set()


def _frozen(environment_ids: Collection[int], now: datetime) -> dict[int, str]:
    """Why environments are frozen now, in words."""
    rows = Environment.objects.filter(pk__in=environment_ids).prefetch_related(
        open_windows("freeze_windows")
    )
    found = {}
    for environment in rows:
        frozen = freezes.frozen_at(windows_of(environment), now)
        if frozen is not None:
            until = freezes.end_words(frozen, now)
            found[environment.pk] = (
                f"{environment.name} is frozen until {until}: {frozen.window.why}."
            )
    return found


def _live(seen: list[Seen]) -> tuple[LiveRings, Mapping[str, list[comparison_store.JSON]]]:
    """The live numbers, as far back as anything that is due reaches."""
    by_key: dict[bool, set[str]] = {True: set(), False: set()}
    longest = max(fast.WINDOWS_S)
    deep = longest
    for one in seen:
        reach = max((ask.seconds for ask in one.asks), default=0.0)
        deep = max(deep, reach)
        by_key[reach > longest].add(one.key)
    short = live_rings(by_key[False], seconds=longest)
    far = live_rings(by_key[True], seconds=deep)
    rings = LiveRings({**short.points, **far.points}, far.bounds or short.bounds)
    watched = {one.key for one in seen if _compares(one)}
    back = max(
        (ask.seconds for one in seen for ask in one.asks if ask.metric.kind in BY_COMPARISON),
        default=COMPARED_S,
    )
    return rings, comparison_store.rings(watched, last=int(max(back, COMPARED_S)) + 2)


def _compares(seen: Seen) -> bool:
    if any(ask.metric.kind in BY_COMPARISON for ask in seen.asks):
        return True
    check = seen.plan.fast
    return bool(seen.progress.weight) and check is not None and check.max_output_faults is not None


def _with_alarm(at: Moment, seen: Seen) -> Seen:
    """The rollout with what the fast check says of its last seconds."""
    check, since = seen.plan.fast, seen.progress.exposed_since
    if check is None or since is None or not seen.progress.weight:
        return seen
    exposed = (at.now - since).total_seconds()
    windows = nested_windows(
        at.rings.points.get(seen.key, ()),
        at.rings.bounds,
        version=seen.rollout.version,
        lengths=[length for length in fast.WINDOWS_S if length < exposed] or [max(exposed, 1.0)],
        now=at.now.timestamp(),
    )
    compared = at.comparison(seen, min(COMPARED_S, exposed))
    answers = fast.Answers(compared.sampled, compared.candidate_faults)
    alarm = fast.alarm(check, windows, answers)
    return seen if alarm is None else replace(seen, look=replace(seen.look, alarm=alarm))
