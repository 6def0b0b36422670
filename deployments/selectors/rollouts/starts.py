"""What somebody who starts a rollout at an endpoint has to choose from."""

from __future__ import annotations

from dataclasses import dataclass

from console.models import User
from deployments.models import Rollout
from deployments.selectors.fleet.readiness import ready_versions
from deployments.selectors.rollouts.pages import active_rollout
from deployments.selectors.traffic.endpoints import find_endpoint, percent_of
from deployments.selectors.traffic.routing import contracts_that_hold
from models_registry.rules.contract_types import Rollout as Clause


@dataclass(frozen=True, slots=True)
class RolloutStart:
    """Versions that are ready at the endpoint, the pair that is probably meant, and the clause.

    `contract` says whether the clause is a contract's, or what holds where there is none. `active`
    is the rollout that is under way already.
    """

    environment: str
    model: str
    team_id: int | None
    ready: list[int]
    baseline: int | None
    candidate: int | None
    clause: Clause
    contract: bool
    active: Rollout | None


def rollout_start(environment: str, model: str, *, user: User) -> RolloutStart:
    """In four queries. Raises NotFound."""
    endpoint = find_endpoint(environment, model, user=user)
    ready = sorted(ready_versions(endpoint))
    weights = percent_of(endpoint.current)
    serving = sorted(weights, key=lambda number: -weights[number])
    baseline = next((number for number in serving if number in ready), None)
    others = [number for number in ready if number != baseline]
    contract = contracts_that_hold([endpoint.model_id]).get(endpoint.model_id)
    return RolloutStart(
        environment=endpoint.environment.name,
        model=endpoint.model.name,
        team_id=endpoint.model.team_id,
        ready=ready,
        baseline=baseline,
        candidate=max(others, default=None),
        clause=contract.rollout if contract else Clause(),
        contract=contract is not None,
        active=active_rollout(endpoint),
    )
