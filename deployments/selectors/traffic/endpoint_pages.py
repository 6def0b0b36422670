"""One endpoint in full."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime

from console.models import User
from deployments.models import (
    Deployment,
    Endpoint,
    EndpointMode,
    GatewayListener,
    NodeState,
    Placement,
    PlacementState,
    TrafficSplit,
)
from deployments.selectors.incidents.pages import unresolved_of
from deployments.selectors.incidents.rollback_choice import rollback_offer
from deployments.selectors.incidents.rollback_policies import standing_of
from deployments.selectors.objectives.promises import attainments
from deployments.selectors.statistics.live_numbers import LiveNumbers, VersionNumbers, latest
from deployments.selectors.traffic.acknowledgements import gateway_words
from deployments.selectors.traffic.endpoint_types import (
    CallExample,
    EndpointPage,
    ModeChoice,
    VersionLine,
)
from deployments.selectors.traffic.endpoints import (
    find_endpoint,
    percent_of,
    promise_strip,
    split_view,
    together,
)
from deployments.selectors.traffic.routing import contracts_that_hold
from models_registry.models import ModelVersion, ServiceContract
from models_registry.selectors.release_policies import broken_glass
from models_registry.services import artifacts

HISTORY_LENGTH = 20


def endpoint_page(environment: str, model: str, *, user: User, now: datetime) -> EndpointPage:
    """One endpoint in full; raises NotFound."""
    endpoint = find_endpoint(environment, model, user=user)
    split = endpoint.current
    live = latest([str(endpoint)]).get(str(endpoint))
    contract = ServiceContract.objects.holding().filter(model=endpoint.model).first()
    documents = contracts_that_hold([endpoint.model_id])
    standing = attainments(documents, [endpoint], now).get(endpoint.pk, [])
    history = list(endpoint.splits.select_related("author")[:HISTORY_LENGTH])
    applied = next((one.revision for one in history if one.applied_at is not None), None)
    versions = _version_lines(endpoint, live)
    ready = {line.number: line.nodes for line in versions if line.ready}
    choice = rollback_offer(endpoint, ready)
    listeners = list(
        GatewayListener.objects.filter(environment=endpoint.environment).values_list(
            "public_url", flat=True
        )
    )
    return EndpointPage(
        endpoint=endpoint,
        environment=environment,
        model=model,
        split=split_view(split) if split else None,
        applied_revision=applied,
        weights=percent_of(split),
        versions=versions,
        gateways=gateway_words(split) if split else [],
        promise=promise_strip(live, documents.get(endpoint.model_id), standing),
        rollback_target=choice.target,
        rollback_why_not=choice.why_not,
        rollback_gone=choice.gone,
        incident=unresolved_of(endpoint),
        standing=standing_of(endpoint),
        modes=_modes(split, contract),
        contract=contract,
        history=[split_view(one) for one in history],
        listeners=listeners,
        call=_call_example(endpoint, listeners, versions),
        live=live,
        objectives=standing,
    )


def _version_lines(endpoint: Endpoint, live: LiveNumbers | None) -> list[VersionLine]:
    weights = percent_of(endpoint.current)
    deployments = (
        Deployment.objects.filter(
            removed_at__isnull=True,
            release__environment=endpoint.environment,
            release__version__model=endpoint.model,
        )
        .select_related("release__version", "release__break_glass")
        .prefetch_related("placements__node")
        .order_by("release__version__number")
    )
    lines = {one.release.version.number: _version_line(one, weights, live) for one in deployments}
    for number, percent in weights.items():
        if number not in lines:
            lines[number] = VersionLine(
                number,
                percent,
                ready=False,
                why_not="It is not deployed here.",
                nodes=[],
                deployment_id="",
                release_id="",
                state="",
                live=_live_of(live, number),
            )
    return [lines[number] for number in sorted(lines)]


def _version_line(
    deployment: Deployment, weights: Mapping[int, float], live: LiveNumbers | None
) -> VersionLine:
    number = deployment.release.version.number
    placements = sorted(deployment.placements.all(), key=lambda one: one.node.name)
    ready = [
        one.node.name
        for one in placements
        if one.state == PlacementState.READY and one.node.state != NodeState.LOST
    ]
    return VersionLine(
        number=number,
        percent=weights.get(number, 0.0),
        ready=bool(ready),
        why_not="" if ready else _why_not(placements),
        nodes=ready,
        deployment_id=str(deployment.pk),
        release_id=str(deployment.release_id),
        state=together([one.state for one in placements]),
        live=_live_of(live, number),
        against_policy=broken_glass(deployment.release) is not None,
        shadow=live.shadow.get(number) if live else None,
    )


def _why_not(placements: list[Placement]) -> str:
    """Why a version may not be raised, in words."""
    for placement in placements:
        name = placement.node.name
        if placement.state == PlacementState.READY:
            return f"Its node {name} is lost."
        if placement.state == PlacementState.FAILED:
            return f"It failed on {name}: {placement.detail}"
        return f"It is {placement.get_state_display().lower()} on {name}."
    return "It is on no node."


def _live_of(live: LiveNumbers | None, number: int) -> VersionNumbers | None:
    return live.versions.get(number) if live else None


def _modes(split: TrafficSplit | None, contract: ServiceContract | None) -> list[ModeChoice]:
    why = {
        EndpointMode.FALLBACK: "" if contract else "There is no contract in force with a fallback.",
        EndpointMode.NORMAL: "" if split and split.weights else "No version has any traffic.",
    }
    return [ModeChoice(mode, not why.get(mode), why.get(mode, "")) for mode in EndpointMode]


def _call_example(
    endpoint: Endpoint, listeners: list[str], versions: list[VersionLine]
) -> CallExample | None:
    if not listeners or not versions:
        return None
    leading = max(versions, key=lambda line: (line.percent, line.number))
    version = (
        ModelVersion.objects.filter(model=endpoint.model, number=leading.number)
        .select_related("sample")
        .first()
    )
    if version is None or version.sample is None:
        return None
    request = json.loads(artifacts.read_bytes(version.sample)).get("request")
    url = f"{listeners[0].rstrip('/')}/v2/models/{endpoint.model.name}/infer"
    return CallExample(url, json.dumps(request))
