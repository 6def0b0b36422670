"""Where a version could be load-tested, and the load tests that its page shows."""

from __future__ import annotations

from dataclasses import dataclass

from console.models import JobState, User
from deployments.models import Endpoint, EndpointMode, NodeState, Placement, PlacementState
from models_registry.models import Environment, LoadTest, ModelVersion
from models_registry.selectors.load_tests import load_test_list

SHOWN = 20


@dataclass(frozen=True, slots=True)
class Place:
    """An environment, and why a version cannot be load-tested there: "", not_ready, not_normal."""

    environment: Environment
    why_not: str


@dataclass(frozen=True, slots=True)
class LoadTestPanel:
    """A version's load tests, newest first, and the places for another one.

    `running` are those under way; their job is loaded.
    """

    tests: list[LoadTest]
    running: list[LoadTest]
    places: list[Place]


def load_test_panel(version: ModelVersion, *, user: User) -> LoadTestPanel:
    """What the panel on a version's page shows, in 4 queries."""
    tests = list(load_test_list(version.model.name, version.number, user=user)[:SHOWN])
    return LoadTestPanel(tests, [one for one in tests if is_under_way(one)], places(version))


def is_under_way(load_test: LoadTest) -> bool:
    """Whether its job waits or runs."""
    job = load_test.job
    return job is not None and not JobState(job.state).is_terminal


def places(version: ModelVersion) -> list[Place]:
    """All environments by name, in 3 queries."""
    ready = set(
        Placement.objects.filter(
            state=PlacementState.READY,
            deployment__removed_at__isnull=True,
            deployment__release__version=version,
        )
        .exclude(node__state=NodeState.LOST)
        .values_list("deployment__release__environment_id", flat=True)
    )
    splits = {
        one.environment_id: one.current
        for one in Endpoint.objects.filter(model_id=version.model_id).select_related("current")
    }
    found = []
    for environment in Environment.objects.all():
        split = splits.get(environment.pk)
        why_not = ""
        if environment.pk not in ready:
            why_not = "not_ready"
        elif split is None or split.mode != EndpointMode.NORMAL or not any(split.weights.values()):
            why_not = "not_normal"
        found.append(Place(environment, why_not))
    return found
