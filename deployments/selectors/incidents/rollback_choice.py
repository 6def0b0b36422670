"""Where a rollback would go now, or why there is nowhere to go."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from deployments.models import Endpoint, RolloutState, SplitCause, SplitState, TrafficSplit
from deployments.rules.incidents.rollback_targets import (
    good_before,
    last_good,
    left_behind,
    only_tried,
)
from models_registry.models import Release, ReleaseState

LOOK_BACK = 50
FLEEING = (SplitCause.ROLLBACK, SplitCause.AUTOMATIC, SplitCause.EXPERIMENT)
"""Causes of splits that take traffic off a version because it is not well."""


@dataclass(frozen=True, slots=True)
class RollbackChoice:
    """The last good version, or None with the reason in words; `gone`: it is deployed again."""

    target: int | None
    why_not: str = ""
    gone: bool = False


def rollback_choice(endpoint: Endpoint, ready: Collection[int]) -> RollbackChoice:
    """The version that led before the newest came, if it is ready; three queries.

    Only splits that every gateway had applied count: what never served cannot have been good. Nor
    is good what was left because it was not well.
    """
    current = endpoint.current
    if current is None:
        return RollbackChoice(None, "Nothing has any traffic here yet.")
    if is_rolled_back(current):
        return RollbackChoice(None, "It is rolled back already; name a version to go further back.")
    good = set(ready) - _left_behind(endpoint, current)
    target = last_good(_weights(current.weights), _earlier(endpoint, current), good)
    if target is None:
        return RollbackChoice(
            None, f"{endpoint} has no earlier version that is ready to go back to."
        )
    return RollbackChoice(target)


def rollback_offer(endpoint: Endpoint, ready: Collection[int]) -> RollbackChoice:
    """What a page offers: as `rollback_choice`, or what would have to be deployed again.

    One query, three where no earlier version is ready.
    """
    choice = rollback_choice(endpoint, ready)
    current = endpoint.current
    if choice.target is not None or current is None or is_rolled_back(current):
        return choice
    carrying = {version for version, points in _weights(current.weights).items() if points}
    before = [v for v in versions_before(endpoint) if v not in carrying]
    releases = releases_to_deploy_again(endpoint, before)
    gone = next((version for version in before if version in releases), None)
    return choice if gone is None else RollbackChoice(gone, gone=True)


def versions_before(endpoint: Endpoint) -> list[int]:
    """Versions that had traffic here, the likeliest to be good first, ready or not; three
    queries.

    Not those that a rollback, an experiment or a rollout's analysis has taken off since.
    """
    current = endpoint.current
    if current is None:
        return []
    return good_before(
        _weights(current.weights), _earlier(endpoint, current), _left_behind(endpoint, current)
    )


def releases_to_deploy_again(endpoint: Endpoint, numbers: Sequence[int]) -> dict[int, Release]:
    """The newest approved release here of each of these versions that has one; one query.

    Whether it may be deployed still (signatures, policy, freeze) is for the deploy to verify.
    """
    found = (
        Release.objects.filter(
            environment=endpoint.environment_id,
            version__model=endpoint.model_id,
            version__number__in=list(numbers),
            state=ReleaseState.APPROVED,
        )
        .select_related("version")
        .order_by("requested_at", "pk")
    )
    return {release.version.number: release for release in found}


def is_rolled_back(split: TrafficSplit) -> bool:
    """Whether the split is itself a rollback that no gateway refused."""
    return split.cause == SplitCause.ROLLBACK and split.state != SplitState.REFUSED


def _left_behind(endpoint: Endpoint, current: TrafficSplit) -> set[int]:
    history = endpoint.splits.filter(
        applied_at__isnull=False, revision__lte=current.revision
    ).order_by("-revision")
    rows = [
        (_weights(weights), cause in FLEEING, at)
        for weights, cause, at in history.values_list("weights", "cause", "created_at")[:LOOK_BACK]
    ]
    tried = [(weights, at) for weights, _, at in rows]
    newest = list(
        endpoint.rollouts.order_by("-created_at").values_list("version", "state", "created_at")[
            :LOOK_BACK
        ]
    )
    judged = {version: (state, at) for version, state, at in reversed(newest)}
    # Whoever ended a trial did so for a reason; one that had led before is as good as it was.
    failed = {
        version
        for version, (state, at) in judged.items()
        if state == RolloutState.ROLLED_BACK
        or (state == RolloutState.ABORTED and only_tried(version, at, tried))
    }
    now = _weights(current.weights)
    fled = left_behind([(weights, flees) for weights, flees, _ in rows])
    return fled | {version for version in failed if not now.get(version)}


def _earlier(endpoint: Endpoint, current: TrafficSplit) -> list[dict[int, int]]:
    history = endpoint.splits.filter(
        applied_at__isnull=False, revision__lt=current.revision
    ).order_by("-revision")
    return [_weights(weights) for weights in history.values_list("weights", flat=True)[:LOOK_BACK]]


def _weights(stored: dict[str, int]) -> dict[int, int]:
    return {int(number): points for number, points in stored.items()}
