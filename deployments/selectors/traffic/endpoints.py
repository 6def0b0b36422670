"""Endpoints at a glance, and where versions run."""

from __future__ import annotations

from datetime import UTC, datetime

from django.db.models import QuerySet
from django.urls import reverse

from console.errors import NotFound
from console.models import User
from deployments.models import (
    Endpoint,
    EndpointMode,
    NodeState,
    Placement,
    PlacementState,
    TrafficSplit,
)
from deployments.rules.objectives.slo import Attainment, Objective, worst
from deployments.selectors.objectives.promises import attainments
from deployments.selectors.statistics.live_numbers import LiveNumbers, latest
from deployments.selectors.traffic.endpoint_types import (
    EndpointRow,
    PromiseStrip,
    Running,
    SplitView,
)
from deployments.selectors.traffic.routing import contracts_that_hold
from models_registry.models import RegisteredModel
from models_registry.rules.contract_document import ContractDocument


def find_endpoint(environment: str, model: str, *, user: User) -> Endpoint:
    """The endpoint with its model, environment and split.

    Raises NotFound, in the same words for a model that the user may not see.
    """
    seen = _endpoints(user).filter(environment__name=environment, model__name=model)
    found = seen.first()
    if found is None:
        raise NotFound(
            f"There is no endpoint {environment}/{model}.",
            hint="An endpoint appears when a release is deployed to its environment.",
        )
    return found


def filtered(
    *, user: User, environment: str = "", query: str = "", model: str = ""
) -> QuerySet[Endpoint]:
    """Endpoints with model, environment and split; `query` is found in the model's name."""
    rows = _endpoints(user)
    if environment:
        rows = rows.filter(environment__name=environment)
    if query:
        rows = rows.filter(model__name__icontains=query)
    if model:
        rows = rows.filter(model__name=model)
    return rows


def endpoint_list(
    *, user: User, environment: str = "", query: str = "", model: str = ""
) -> list[EndpointRow]:
    """Endpoints by name, with live numbers and how their promise stands; six queries at most."""
    rows = filtered(user=user, environment=environment, query=query, model=model)
    return rows_of(list(rows.order_by("environment__name", "model__name")), datetime.now(UTC))


def rows_of(endpoints: list[Endpoint], now: datetime) -> list[EndpointRow]:
    """These endpoints as rows of a list."""
    live = latest(str(endpoint) for endpoint in endpoints)
    contracts = contracts_that_hold({endpoint.model_id for endpoint in endpoints})
    standing = attainments(contracts, endpoints, now)
    ready = _ready_numbers(endpoints)
    return [
        _row(
            endpoint,
            live.get(str(endpoint)),
            contracts.get(endpoint.model_id),
            standing.get(endpoint.pk, []),
            ready.get((endpoint.model_id, endpoint.environment_id)),
        )
        for endpoint in endpoints
    ]


def versions_running(model: RegisteredModel) -> dict[int, list[Running]]:
    """Number -> where that version of a model runs; two queries."""
    splits = {
        one.environment_id: percent_of(one.current)
        for one in Endpoint.objects.filter(model=model).select_related("current")
    }
    placements = (
        Placement.objects.filter(
            deployment__release__version__model=model, deployment__removed_at__isnull=True
        )
        .select_related("node", "deployment__release__environment", "deployment__release__version")
        .order_by("deployment__release__environment__name", "node__name")
    )
    grouped: dict[tuple[int, str, int], list[Placement]] = {}
    for placement in placements:
        release = placement.deployment.release
        slot = (release.version.number, release.environment.name, release.environment_id)
        grouped.setdefault(slot, []).append(placement)
    found: dict[int, list[Running]] = {}
    for (number, environment, environment_id), here in grouped.items():
        percent = splits.get(environment_id, {}).get(number, 0.0)
        nodes = [placement.node.name for placement in here]
        found.setdefault(number, []).append(
            Running(environment, percent, nodes, together([one.state for one in here]))
        )
    return found


def split_view(split: TrafficSplit) -> SplitView:
    """A split as people read it; `author` must be loaded."""
    mirror = split.mirror
    return SplitView(
        revision=split.revision,
        mode=split.mode,
        weights=percent_of(split),
        state=split.state,
        cause=split.cause,
        author=split.author.username,
        reason=split.reason,
        created_at=split.created_at,
        applied_at=split.applied_at,
        sticky_header=split.sticky_header,
        header_rules=split.header_rules,
        testers=split.testers,
        moved=split.moved / 100,
        mirror=(
            {"version": mirror["version"], "percent": mirror["basis_points"] / 100}
            if mirror
            else None
        ),
    )


def percent_of(split: TrafficSplit | None) -> dict[int, float]:
    """A split's weights in percent, by version."""
    if split is None:
        return {}
    return {int(number): points / 100 for number, points in sorted(split.weights.items())}


def _endpoints(user: User) -> QuerySet[Endpoint]:
    return Endpoint.objects.visible_to(user).select_related(
        "model", "environment", "current__author"
    )


def _row(
    endpoint: Endpoint,
    live: LiveNumbers | None,
    contract: ContractDocument | None,
    standing: list[tuple[Objective, Attainment]],
    ready: list[int] | None,
) -> EndpointRow:
    split = endpoint.current
    strip = promise_strip(live, contract, standing)
    return EndpointRow(
        environment=endpoint.environment.name,
        model=endpoint.model.name,
        url=reverse(
            "deployments:endpoint-detail", args=[endpoint.environment.name, endpoint.model.name]
        ),
        mode=split.mode if split else EndpointMode.NORMAL,
        weights=percent_of(split),
        revision=split.revision if split else 0,
        split_state=split.state if split else "",
        ready_versions=ready or [],
        requests_per_second=live.requests_per_second if live else None,
        error_share=strip.error_share,
        p99_ms=strip.p99_ms,
        measured_at=strip.measured_at,
        limit_ms=strip.limit_ms,
        promise=strip.state,
        budget_left=strip.budget_left,
    )


def promise_strip(
    live: LiveNumbers | None,
    contract: ContractDocument | None,
    standing: list[tuple[Objective, Attainment]],
) -> PromiseStrip:
    """Live numbers and the standing of the objectives, put beside the limits."""
    latency = contract.latency if contract else None
    availability = contract.availability if contract else None
    left = [one.budget_left_share for _, one in standing if one.budget_left_share is not None]
    return PromiseStrip(
        p99_ms=live.p99_ms if live else None,
        limit_ms=float(latency.threshold_ms) if latency else None,
        error_share=live.provider_share if live else None,
        error_limit=(100 - availability.target) / 100 if availability else None,
        budget_left=min(left) if left else None,
        state=worst([one.promise for _, one in standing]),
        measured_at=live.at if live else None,
    )


def together(states: list[str]) -> str:
    """One word for the placements of one deployment: the best that any node has."""
    order = ("ready", "draining", "loading", "placing", "pending", "failed", "unloaded")
    return next((state for state in order if state in states), "")


def _ready_numbers(endpoints: list[Endpoint]) -> dict[tuple[int, int], list[int]]:
    rows = (
        Placement.objects.filter(
            state=PlacementState.READY,
            deployment__removed_at__isnull=True,
            deployment__release__version__model_id__in={one.model_id for one in endpoints},
        )
        .exclude(node__state=NodeState.LOST)
        .values_list(
            "deployment__release__version__model_id",
            "deployment__release__environment_id",
            "deployment__release__version__number",
        )
        .order_by("deployment__release__version__number")
        .distinct()
    )
    found: dict[tuple[int, int], list[int]] = {}
    for model_id, environment_id, number in rows:
        found.setdefault((model_id, environment_id), []).append(number)
    return found
